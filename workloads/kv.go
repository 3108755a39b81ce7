package workloads

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"spillway/internal/dist"
)

// Bounds of the memcached protocol.
const (
	maxKey   = 250
	maxValue = 128 << 20 // the largest item size that servers are set up for (-I 128m)
)

// defaultDigits is the length of the number in a key, as in the Svalinn experiments.
const defaultDigits = 16

// maxDigits is the length of the largest uint64.
const maxDigits = 20

// KVClass is one kind of request to a key-value store, over a set of keys of its own.
type KVClass struct {
	Name  string
	Share float64       // of all requests; the shares of all classes sum to 1
	SLO   time.Duration // latency limit, 0 for none; carried for the user's sake, it has no influence on what is asked
	Mix   Mix           // what is done; the zero Mix means gets only

	Keys       uint64    // how many keys there are
	KeyPrefix  string    // before the number in each key; empty means Name and a dash. Classes with one prefix share their keys
	KeySize    int       // length of each key, the number padded with zeros; 0 means the prefix and 16 digits
	KeySizes   dist.Dist // where lengths differ: bytes, drawn once a key, at least what the number needs. Instead of KeySize
	ValueSize  dist.Dist // bytes; drawn once a key, so that a key keeps its size
	Popularity string    // one of dist.RankForms; empty means uniform

	Batch     int           // keys of a MultiGet, 2 to 255; 0 means DefaultBatch
	Expire    time.Duration // whole seconds that what is set lives for; 0 for ever
	WriteBack string        // the class that the Set after a miss belongs to; empty for none. Its share may be 0
}

// DefaultBatch is how many keys a MultiGet asks for when the class does not say.
const DefaultBatch = 10

// Mix is the shares of the kinds of operation; they sum to 1.
type Mix struct {
	Get, Set, Delete, MultiGet float64
}

// maxBatch is what a record can count. maxExpire is where the protocol begins to take a number of seconds for a date.
const (
	maxBatch  = 255
	maxExpire = 30 * 24 * time.Hour
)

// KV is a key-value workload. The value of a key follows from the key alone, content and size, so a preloaded store can be verified,
// and used again by a run with another seed. It is not safe for concurrent use.
type KV struct {
	upTo
	classes []kvClass
	noise   noise // what values are cut from

	valueless bool // Next leaves values out

	sizes *rand.PCG // seeded anew for each key
	draw  *rand.Rand
	refs  [maxBatch]uint64 // numbers of the keys asked for
	keys  []byte           // the keys, one after the other
	more  [][]byte
}

type kvClass struct {
	KVClass
	ranks  dist.Ranks
	digits int
	hash   uint64 // of the prefix
	back   int    // index of the class that misses write back to; -1 for none
}

var (
	_ Workload  = (*KV)(nil)
	_ Preloader = (*KV)(nil)
	_ Skipper   = (*KV)(nil)
	_ Refiller  = (*KV)(nil)
	_ Varying   = (*KV)(nil)
)

// NewKV returns the workload over classes, or an error that names the class and what is wrong with it.
func NewKV(classes []KVClass) (*KV, error) {
	k := &KV{classes: make([]kvClass, len(classes)), noise: newNoise()}
	sum, shares := 0.0, make([]float64, len(classes))
	for i := range classes {
		c, err := newKVClass(classes[i])
		if err != nil {
			return nil, fmt.Errorf("class %q: %w", classes[i].Name, err)
		}
		for j := range i {
			if err := k.classes[j].compatible(&c); err != nil {
				return nil, err
			}
		}
		sum += c.Share
		shares[i] = c.Share
		k.classes[i] = c
	}
	if math.Abs(sum-1) > 1e-6 {
		return nil, fmt.Errorf("the shares of the classes sum to %v, must sum to 1", sum)
	}
	k.set(shares)
	if err := k.resolve(); err != nil {
		return nil, err
	}

	k.sizes = rand.NewPCG(0, 0)
	k.draw = rand.New(k.sizes)
	return k, nil
}

// Vary has the shares of the classes change with time.
func (k *KV) Vary(s *Shares) error { return k.vary(s) }

func newKVClass(c KVClass) (kvClass, error) {
	if c.Mix == (Mix{}) {
		c.Mix.Get = 1
	}
	if c.KeyPrefix == "" {
		c.KeyPrefix = c.Name + "-"
	}
	if c.Batch == 0 {
		c.Batch = DefaultBatch
	}
	k := kvClass{KVClass: c, digits: defaultDigits, hash: hashString(c.KeyPrefix), back: -1}
	if c.KeySize != 0 {
		k.digits = c.KeySize - len(c.KeyPrefix)
	}
	if err := k.check(); err != nil {
		return kvClass{}, err
	}
	var err error
	k.ranks, err = dist.ParseRanks(c.Popularity, c.Keys)
	return k, err
}

// check says what is wrong with a class, taken by itself.
func (c *kvClass) check() error {
	m := c.Mix
	switch {
	case c.Name == "":
		return fmt.Errorf("has no name")
	case !(c.Share >= 0 && c.Share <= 1):
		return fmt.Errorf("share %v: must be between 0 and 1", c.Share)
	case !(m.Get >= 0 && m.Set >= 0 && m.Delete >= 0 && m.MultiGet >= 0) || math.Abs(m.Get+m.Set+m.Delete+m.MultiGet-1) > 1e-6:
		return fmt.Errorf("mix of get %v, set %v, delete %v, multiget %v: must sum to 1, none negative", m.Get, m.Set, m.Delete, m.MultiGet)
	case c.Keys < 1:
		return fmt.Errorf("keys: must be at least 1")
	case c.ValueSize == nil:
		return fmt.Errorf("has no value size")
	case strings.ContainsFunc(c.KeyPrefix, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return fmt.Errorf("key prefix %q: must not hold spaces or control characters", c.KeyPrefix)
	case c.Batch < 2 || c.Batch > maxBatch:
		return fmt.Errorf("batch of %d keys: must be between 2 and %d", c.Batch, maxBatch)
	case c.Expire < 0 || c.Expire%time.Second != 0 || c.Expire > maxExpire:
		return fmt.Errorf("expire %v: must be whole seconds up to %v, beyond which servers take the number for a date", c.Expire, maxExpire)
	case c.KeySize != 0 && c.KeySizes != nil:
		return fmt.Errorf("has both one key size and a distribution of them")
	}
	need := len(strconv.FormatUint(c.Keys-1, 10))
	if c.KeySizes != nil {
		c.digits = need
	}
	if c.digits < need || len(c.KeyPrefix)+c.digits > maxKey {
		return fmt.Errorf("key size %d with prefix %q: %d keys need %d to %d bytes",
			len(c.KeyPrefix)+c.digits, c.KeyPrefix, c.Keys, len(c.KeyPrefix)+need, maxKey)
	}
	return nil
}

// resolve finds the classes that misses write back to.
func (k *KV) resolve() error {
	for i := range k.classes {
		c := &k.classes[i]
		if c.WriteBack == "" {
			continue
		}
		c.back = slices.IndexFunc(k.classes, func(o kvClass) bool { return o.Name == c.WriteBack })
		switch {
		case c.back < 0:
			return fmt.Errorf("class %q: writes back to class %q, which there is not", c.Name, c.WriteBack)
		case c.KeyPrefix != k.classes[c.back].KeyPrefix:
			return fmt.Errorf("class %q: writes back to class %q, which has other keys; give both the same key", c.Name, c.WriteBack)
		case c.Mix.MultiGet > 0:
			return fmt.Errorf("class %q: a read of several keys cannot write back; use single reads", c.Name)
		}
	}
	return nil
}

// compatible says why two classes cannot stand side by side.
func (c *kvClass) compatible(o *kvClass) error {
	if c.Name == o.Name {
		return fmt.Errorf("class %q: there are two of that name", c.Name)
	}
	if c.KeyPrefix == o.KeyPrefix && (c.digits != o.digits || fmt.Sprint(c.ValueSize, c.KeySizes) != fmt.Sprint(o.ValueSize, o.KeySizes)) {
		return fmt.Errorf("classes %q and %q share the keys %q but not their key and value sizes", c.Name, o.Name, c.KeyPrefix)
	}
	return nil
}

// Preload yields a Set of every key, class by class. Classes that share a prefix are stored once, with the larger number of keys. Keys
// that misses write back are not stored: filling the cache is then what the load does.
func (k *KV) Preload() iter.Seq[*Op] {
	return func(yield func(*Op) bool) {
		var op Op
		for i := range k.classes {
			c := &k.classes[i]
			for index := range k.stored(i) {
				op.Class, op.Kind = uint16(i), Set
				k.refs[0] = index
				k.spell(&op, c)
				op.Value = k.valueOf(c, index)
				op.Expire = c.expire()
				if !yield(&op) {
					return
				}
			}
		}
	}
}

// stored returns how many keys Preload stores for class i: none if another class with the same prefix stores them
// or writes them back.
func (k *KV) stored(i int) uint64 {
	c := &k.classes[i]
	for j := range k.classes {
		o := &k.classes[j]
		if o.KeyPrefix == c.KeyPrefix && o.WriteBack != "" {
			return 0
		}
		if o.KeyPrefix == c.KeyPrefix && (o.Keys > c.Keys || o.Keys == c.Keys && j < i) {
			return 0
		}
	}
	return c.Keys
}

// Stored returns how many keys of each class Preload stores.
func (k *KV) Stored() []uint64 {
	list := make([]uint64, len(k.classes))
	for i := range k.classes {
		list[i] = k.stored(i)
	}
	return list
}

// mostSized bounds the keys that Largest looks at, which takes it a tenth of a second.
const mostSized = 1_000_000

// Largest returns the size of the largest value that Preload stores, as far as the first million keys of each class tell.
func (k *KV) Largest() (bytes int64) {
	for i := range k.classes {
		c := &k.classes[i]
		for index := range min(k.stored(i), mostSized) {
			bytes = max(bytes, k.sizeOf(c, index))
		}
	}
	return bytes
}

// Footprint returns how many keys Preload stores and, to be expected, how many bytes their values have in all.
func (k *KV) Footprint() (items, bytes int64) {
	for i := range k.classes {
		n := k.stored(i)
		items += int64(n)
		bytes += int64(float64(n) * k.classes[i].ValueSize.Mean())
	}
	return items, bytes
}
