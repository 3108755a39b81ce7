//go:build linux

package memcached

// RaceEnabled says whether the race detector is at work, under which tests that are long already do less.
const RaceEnabled = raceEnabled

// Pinned returns how many items somebody reads.
func (b *Backend) Pinned() int64 { return b.cache.Stats().Pinned }
