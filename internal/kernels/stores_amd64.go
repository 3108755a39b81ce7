//go:build linux

package kernels

// nonTemporal says that storeLines and copyLines store past the caches: their lines are not read before they are written.
const nonTemporal = true

// storeLines stores value into every word of lines of 64 bytes, which begin at a multiple of 16, by MOVNTDQ. It returns once the stores are
// ordered before all that follow.
//
//go:noescape
func storeLines(dst *uint64, lines int, value uint64)

// copyLines copies lines of 64 bytes from src to dst, which begins at a multiple of 16, by ordinary loads and MOVNTDQ.
//
//go:noescape
func copyLines(dst, src *uint64, lines int)
