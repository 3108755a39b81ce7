package workloads

import (
	"errors"
	"fmt"
	"strings"
)

// NoValue is the size of a request whose key had no value: a read that missed, a delete of what was not there.
const NoValue = -1

// Entry is one request of a log.
type Entry struct {
	Class int
	Kind  Kind
	Keys  [][]byte // one; of MultiGet up to 255
	Sizes []int64  // bytes of each key's value, or NoValue; one for each key
}

// Check says what no request can be.
func (e *Entry) Check() error {
	switch {
	case e.Kind >= NumKinds:
		return fmt.Errorf("an operation is get, set, delete or multiget")
	case len(e.Keys) == 0 || len(e.Keys) > maxBatch:
		return fmt.Errorf("%d keys: must be 1 to %d", len(e.Keys), maxBatch)
	case len(e.Keys) > 1 && e.Kind != MultiGet:
		return fmt.Errorf("%d keys: only a multiget has several", len(e.Keys))
	case len(e.Sizes) != len(e.Keys):
		return fmt.Errorf("%d sizes for %d keys", len(e.Sizes), len(e.Keys))
	}
	for i, key := range e.Keys {
		if err := CheckKey(key); err != nil {
			return err
		}
		switch size := e.Sizes[i]; {
		case size > maxValue || size < NoValue:
			return fmt.Errorf("size %d: must be 0 to %d bytes", size, maxValue)
		case size == NoValue && e.Kind == Set:
			return fmt.Errorf("a set has a size")
		}
	}
	return nil
}

// CheckKey says what no key of the memcached protocol can be.
func CheckKey(key []byte) error {
	if len(key) == 0 || len(key) > maxKey {
		return fmt.Errorf("key of %d bytes: must have 1 to %d", len(key), maxKey)
	}
	for _, b := range key {
		if b <= ' ' || b == 0x7f {
			return fmt.Errorf("key %q: must not hold spaces or control characters", key)
		}
	}
	return nil
}

// What a Recording may hold at most: 670 MB of requests, half a gigabyte of keys, and as much of what requests for several keys ask for.
const (
	MaxRecorded = 1 << 25
	MaxKeyBytes = 1 << 29
	maxParts    = 1 << 26
)

// ErrRecordingFull is the error of what goes beyond any of these.
var ErrRecordingFull = errors.New("a log in memory has at most 33554432 requests, 512 MiB of keys, and 67108864 keys in requests for several")

// Recording is what was asked, one request after the other, in 12 bytes each and once its keys. It does not change, so several workloads may
// use one.
type Recording struct {
	Classes  []string
	Prefixes []string // of the keys of each class, by which a server can tell them apart; nil where they say nothing

	requests []recorded
	parts    []part   // of reads of several keys
	keys     []byte   // one after the other
	ends     []uint32 // where each ends
	stored   []storing
}

// recorded is one request.
type recorded struct {
	key   uint32 // its number; of a MultiGet the number of its first part
	size  uint32 // noValue for none
	class uint16
	kind  Kind
	keys  uint8
}

const noValue = 1<<32 - 1

type part struct{ key, size uint32 }

// storing is a key that is to be stored before the first request.
type storing struct {
	part
	class uint16
}

// Recorder makes a Recording, request by request.
type Recorder struct {
	rec     Recording
	numbers map[string]uint32 // of keys
	seen    []bool            // by key: it need not be stored any more
}

// NewRecorder returns a recorder of requests of the classes.
func NewRecorder(classes []string) *Recorder {
	return &Recorder{rec: Recording{Classes: classes}, numbers: map[string]uint32{}}
}

// Add appends a request. The error says what is wrong with it, or is ErrRecordingFull; the request is then left out.
func (r *Recorder) Add(e *Entry) error {
	if err := e.Check(); err != nil {
		return err
	}
	if e.Class < 0 || e.Class >= len(r.rec.Classes) {
		return fmt.Errorf("class %d of %d", e.Class, len(r.rec.Classes))
	}
	if len(r.rec.requests) == MaxRecorded || len(r.rec.keys)+len(e.Keys)*maxKey > MaxKeyBytes || e.Kind == MultiGet && len(r.rec.parts)+len(e.Keys) > maxParts {
		return ErrRecordingFull
	}
	q := recorded{class: uint16(e.Class), kind: e.Kind, keys: uint8(len(e.Keys))}
	if e.Kind == MultiGet {
		q.key = uint32(len(r.rec.parts))
	}
	for i, key := range e.Keys {
		p := part{r.number(key), compact(e.Sizes[i])}
		r.store(p, e)
		if e.Kind == MultiGet {
			r.rec.parts = append(r.rec.parts, p)
		} else {
			q.key, q.size = p.key, p.size
		}
	}
	r.rec.requests = append(r.rec.requests, q)
	return nil
}

func compact(size int64) uint32 {
	if size == NoValue {
		return noValue
	}
	return uint32(size)
}

// number returns the number of a key.
func (r *Recorder) number(key []byte) uint32 {
	if n, known := r.numbers[string(key)]; known {
		return n
	}
	n := uint32(len(r.rec.ends))
	r.numbers[string(key)] = n
	r.rec.keys = append(r.rec.keys, key...)
	r.rec.ends = append(r.rec.ends, uint32(len(r.rec.keys)))
	r.seen = append(r.seen, false)
	return n
}

// store notes a key that a read finds before anybody has written it: it was there before the log began. A read that found nothing says no more
// than that it was not there yet.
func (r *Recorder) store(p part, e *Entry) {
	read := e.Kind == Get || e.Kind == MultiGet
	if r.seen[p.key] || read && p.size == noValue {
		return
	}
	r.seen[p.key] = true
	if read {
		r.rec.stored = append(r.rec.stored, storing{p, uint16(e.Class)})
	}
}

// Recording returns what was added. The recorder must not be used any more.
func (r *Recorder) Recording() *Recording { return &r.rec }

// Len returns how many requests there are.
func (r *Recording) Len() int { return len(r.requests) }

// Keys returns how many keys are asked for.
func (r *Recording) Keys() int { return len(r.ends) }

// Stored returns how many keys are stored before the first request, the bytes of their values, and the size of the largest.
func (r *Recording) Stored() (items, bytes, largest int64) {
	for _, s := range r.stored {
		bytes += int64(s.size)
		largest = max(largest, int64(s.size))
	}
	return int64(len(r.stored)), bytes, largest
}

// Footprint returns how many keys a server holds that never gives one up and the bytes of their values, each the largest that the log has of it,
// and of them the largest.
func (r *Recording) Footprint() (items, bytes, largest int64) {
	held := make([]int64, len(r.ends))
	hold := func(p part) {
		if p.size != noValue {
			held[p.key] = max(held[p.key], int64(p.size)+1)
		}
	}
	for i := range r.requests {
		r.each(i, hold)
	}
	for _, size := range held {
		if size > 0 {
			items, bytes, largest = items+1, bytes+size-1, max(largest, size-1)
		}
	}
	return items, bytes, largest
}

// each calls visit with the keys and sizes of a request.
func (r *Recording) each(i int, visit func(part)) {
	q := &r.requests[i]
	if q.kind != MultiGet {
		visit(part{q.key, q.size})
		return
	}
	for _, p := range r.parts[q.key : q.key+uint32(q.keys)] {
		visit(p)
	}
}

// key returns the bytes of a key.
func (r *Recording) key(n uint32) []byte {
	from := uint32(0)
	if n > 0 {
		from = r.ends[n-1]
	}
	return r.keys[from:r.ends[n]:r.ends[n]]
}

// Entry fills e with request i. What its slices point to is valid as long as r, the slices are those of e, grown.
func (r *Recording) Entry(i int, e *Entry) {
	q := &r.requests[i]
	e.Class, e.Kind = int(q.class), q.kind
	e.Keys, e.Sizes = e.Keys[:0], e.Sizes[:0]
	r.each(i, func(p part) {
		e.Keys = append(e.Keys, r.key(p.key))
		size := int64(p.size)
		if p.size == noValue {
			size = NoValue
		}
		e.Sizes = append(e.Sizes, size)
	})
}

// Count adds to counts, by class, how many of the requests from one number up to another there are.
func (r *Recording) Count(from, to int, counts []float64) {
	for i := range r.requests[from:to] {
		counts[r.requests[from+i].class]++
	}
}

// Patterns returns what the keys of the classes begin with. The error says which cannot be told apart, or that nothing was said of them.
func (r *Recording) Patterns() ([]string, error) {
	if r.Prefixes == nil {
		return nil, fmt.Errorf("the keys of a log do not say of which class they are, unless every class has a key, which its keys begin with")
	}
	list := make([]string, len(r.Prefixes))
	for i, prefix := range r.Prefixes {
		list[i] = prefix + "*"
	}
	return distinct(list, func(i int) string { return r.Classes[i] })
}

// idOf returns the number that the value of a key follows from.
func idOf(key []byte) uint64 { return hashString(key) }

// CheckPrefixes says which class has a key that does not begin as those of its class shall.
func (r *Recording) CheckPrefixes() error {
	if r.Prefixes == nil {
		return nil
	}
	for i := range r.requests {
		var wrong []byte
		prefix := r.Prefixes[r.requests[i].class]
		r.each(i, func(p part) {
			if key := r.key(p.key); !strings.HasPrefix(string(key), prefix) {
				wrong = key
			}
		})
		if wrong != nil {
			return fmt.Errorf("request %d of class %s asks for the key %s, which does not begin with %q", i+1, r.Classes[r.requests[i].class], wrong, prefix)
		}
	}
	return nil
}
