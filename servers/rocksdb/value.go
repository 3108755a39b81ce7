//go:build linux && cgo && !norocksdb

package rocksdb

import (
	"encoding/binary"
	"errors"
)

// In front of each value, in its record, stands what memcached keeps beside one.
const headerBytes = 16

// header is what is kept beside a value.
type header struct {
	version uint64 // of the value: memcached's unique number of a compare-and-swap
	flags   uint32 // the client's
	expires uint32 // Unix time in seconds; 0 for never
}

// appendHeader appends h in its stored form.
func appendHeader(dst []byte, h header) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, h.version)
	dst = binary.LittleEndian.AppendUint32(dst, h.flags)
	return binary.LittleEndian.AppendUint32(dst, h.expires)
}

var errShort = errors.New("a record is too short to be one of ours: another program has written into this store")

// splitRecord takes a stored record apart.
func splitRecord(record []byte) (h header, value []byte, err error) {
	if len(record) < headerBytes {
		return h, nil, errShort
	}
	return header{
		version: binary.LittleEndian.Uint64(record), flags: binary.LittleEndian.Uint32(record[8:]), expires: binary.LittleEndian.Uint32(record[12:]),
	}, record[headerBytes:], nil
}

// expired reports whether an item is over at a Unix time.
func (h header) expired(now int64) bool { return h.expires != 0 && int64(h.expires) <= now }

// ttl returns how many seconds an item has left, -1 for no end.
func (h header) ttl(now int64) int64 {
	if h.expires == 0 {
		return -1
	}
	return max(int64(h.expires)-now, 0)
}

// relative is the longest exptime, in seconds, that counts from now. Above it, it is Unix time.
const relative = 60 * 60 * 24 * 30

// expiry turns an exptime as clients give it into Unix time, 0 for never.
func expiry(now int64, exptime int32) uint32 {
	switch {
	case exptime == 0:
		return 0
	case exptime < 0:
		return 1 // long ago
	case exptime <= relative:
		return uint32(now + int64(exptime))
	}
	return uint32(exptime)
}

// Keys of the store itself begin with a zero byte, which no key of a memcached client in plain text has.
var (
	formatKey    = []byte("\x00format")
	formatValue  = []byte("spillway 1")
	largePrefix  = []byte("\x00large\x00")
	firstUserKey = []byte("\x01")
)

// reserved reports whether a key is the store's own.
func reserved(key []byte) bool { return len(key) > 0 && key[0] == 0 }

// largeKey appends the key under which the size of a large value is noted.
func largeKey(dst, key []byte) []byte { return append(append(dst, largePrefix...), key...) }
