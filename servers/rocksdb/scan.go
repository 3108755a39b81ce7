//go:build linux && cgo && !norocksdb

package rocksdb

import (
	"bytes"
	"errors"
	"strconv"

	"spillway/internal/memproto"
)

// A get of scan:COUNT:FROM asks for up to COUNT items in the order of their keys, from the first that is not before FROM. A * behind FROM
// keeps to keys that begin with it. The answer has for each item a line "KEY FLAGS BYTES", the value and a line end; keys:COUNT:FROM asks for
// the lines alone. Keys of these forms cannot be stored.
var (
	scanWord = []byte("scan:")
	keysWord = []byte("keys:")
)

const (
	// MaxScan bounds the items of one scan.
	MaxScan = 10_000
	// scanBytes bounds its answer. The item that would go beyond it is left out, so whoever goes on from the last key misses nothing.
	scanBytes = 8 << 20
)

// scan is a range of keys that is asked for.
type scan struct {
	from   []byte
	prefix bool // only keys that begin with from
	count  int
	values bool
}

// isScan reports whether a key has the form of a scan, right or wrong.
func isScan(key []byte) bool { return bytes.HasPrefix(key, scanWord) || bytes.HasPrefix(key, keysWord) }

var errScan = errors.New("a scan is scan:COUNT:FROM or keys:COUNT:FROM, with a COUNT from 1 to " + strconv.Itoa(MaxScan) +
	", and a * behind FROM to keep to keys that begin with it")

// parseScan reads a key that isScan.
func parseScan(key []byte) (s scan, err error) {
	s.values = bytes.HasPrefix(key, scanWord)
	count, from, found := bytes.Cut(key[len(scanWord):], []byte(":"))
	n, ok := memproto.ParseUint32(count)
	if !found || !ok || n < 1 || n > MaxScan {
		return s, errScan
	}
	s.count, s.from = int(n), from
	if last := len(from) - 1; last >= 0 && from[last] == '*' {
		s.prefix, s.from = true, from[:last]
	}
	if reserved(s.from) {
		return s, errReserved
	}
	return s, nil
}

// errReserved is the answer to keys that are the store's own.
var errReserved = errors.New("keys that begin with a zero byte are the store's own; choose another")

// start returns where a scan begins.
func (s *scan) start() []byte {
	if len(s.from) == 0 {
		return firstUserKey
	}
	return s.from
}

// within reports whether a key is still of the range.
func (s *scan) within(key []byte) bool { return !s.prefix || bytes.HasPrefix(key, s.from) }

// appendLine appends the line of an item.
func appendLine(dst, key []byte, flags uint32, size int) []byte {
	dst = append(append(dst, key...), ' ')
	dst = append(strconv.AppendUint(dst, uint64(flags), 10), ' ')
	return append(strconv.AppendInt(dst, int64(size), 10), '\n')
}
