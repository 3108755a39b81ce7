//go:build linux && !race

package memcached

const raceEnabled = false
