//go:build linux && !amd64

package kernels

// nonTemporal says that storeLines and copyLines store past the caches. Without assembly they cannot: a line is read before it is written.
const nonTemporal = false

func storeLines(dst *uint64, lines int, value uint64) { plainStore(dst, lines, value) }

func copyLines(dst, src *uint64, lines int) { plainCopy(dst, src, lines) }
