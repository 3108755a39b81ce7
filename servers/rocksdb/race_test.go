//go:build linux && cgo && !norocksdb && race

package rocksdb

const raceEnabled = true
