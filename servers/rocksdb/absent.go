//go:build linux && !(cgo && !norocksdb)

package rocksdb

import (
	"context"
	"errors"
	"iter"

	"spillway/internal/memproto"
	"spillway/servers"
)

// Available says what to install where this was built without RocksDB, nil where it was built with it.
func Available() error {
	return errors.New("this refserver was built without RocksDB: install librocksdb-dev in its version 7.8 and a C compiler " +
		"(Debian 12: apt-get install build-essential librocksdb-dev) and build again with `make build`, which says what it misses if it does; " +
		"all other kinds of servers work without")
}

// Backend is what a build without RocksDB has in place of one: Open never returns it.
type Backend struct{}

var _ servers.Backend = (*Backend)(nil)

// Open returns the error of Available.
func Open(Config) (*Backend, error) { return nil, Available() }

// Load is never reached.
func (*Backend) Load(context.Context, Dataset, func(Progress)) (Loaded, error) {
	return Loaded{}, Available()
}

// ValueSize is never reached.
func (*Backend) ValueSize([]byte) int { return 0 }

// Do is never reached.
func (*Backend) Do(*memproto.Command, *memproto.Writer) error { return Available() }

// Stats is never reached.
func (*Backend) Stats(func(string, uint64) bool) {}

// Detail is never reached.
func (*Backend) Detail(string) (iter.Seq2[string, string], bool) { return nil, false }

// Close is never reached.
func (*Backend) Close() error { return nil }
