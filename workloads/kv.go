package workloads

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
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
	ValueSize  dist.Dist // bytes; drawn once a key, so that a key keeps its size
	Popularity string    // "uniform" or "zipf:EXPONENT"; empty means uniform
}

// Mix is the shares of the kinds of operation; they sum to 1.
type Mix struct {
	Get, Set, Delete float64
}

// KV is a key-value workload. The value of a key follows from the key alone, content and size, so a preloaded store can be verified,
// and used again by a run with another seed. It is not safe for concurrent use.
type KV struct {
	classes []kvClass
	noise   []byte // what values are cut from

	sizes *rand.PCG // seeded anew for each key
	draw  *rand.Rand
	key   [maxKey]byte
	value []byte
}

type kvClass struct {
	KVClass
	upTo   float64    // cumulative share
	zipf   *dist.Zipf // nil for uniform
	digits int
	hash   uint64 // of the prefix
}

var (
	_ Workload  = (*KV)(nil)
	_ Preloader = (*KV)(nil)
)

// noiseBytes is the length of the block that values are cut from. Longer values repeat it.
const noiseBytes = 1 << 20

// NewKV returns the workload over classes, or an error that names the class and what is wrong with it.
func NewKV(classes []KVClass) (*KV, error) {
	k := &KV{classes: make([]kvClass, len(classes)), noise: make([]byte, noiseBytes)}
	sum := 0.0
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
		c.upTo = sum
		k.classes[i] = c
	}
	if math.Abs(sum-1) > 1e-6 {
		return nil, fmt.Errorf("the shares of the classes sum to %v, must sum to 1", sum)
	}
	// The last class takes what rounding leaves of the sum; with no class at all the sum was wrong.
	k.classes[len(classes)-1].upTo = math.Inf(1)

	noise := dist.Source(0, "values", 0)
	for i := 0; i < noiseBytes; i += 8 {
		binary.LittleEndian.PutUint64(k.noise[i:], noise.Uint64())
	}
	k.sizes = rand.NewPCG(0, 0)
	k.draw = rand.New(k.sizes)
	return k, nil
}

func newKVClass(c KVClass) (kvClass, error) {
	if c.Name == "" {
		return kvClass{}, fmt.Errorf("has no name")
	}
	if !(c.Share >= 0 && c.Share <= 1) {
		return kvClass{}, fmt.Errorf("share %v: must be between 0 and 1", c.Share)
	}
	if c.Mix == (Mix{}) {
		c.Mix.Get = 1
	}
	if m := c.Mix; !(m.Get >= 0 && m.Set >= 0 && m.Delete >= 0) || math.Abs(m.Get+m.Set+m.Delete-1) > 1e-6 {
		return kvClass{}, fmt.Errorf("mix of get %v, set %v, delete %v: must sum to 1, none negative", m.Get, m.Set, m.Delete)
	}
	if c.Keys < 1 {
		return kvClass{}, fmt.Errorf("keys: must be at least 1")
	}
	if c.ValueSize == nil {
		return kvClass{}, fmt.Errorf("has no value size")
	}
	if c.KeyPrefix == "" {
		c.KeyPrefix = c.Name + "-"
	}
	k := kvClass{KVClass: c, digits: defaultDigits, hash: hashString(c.KeyPrefix)}
	if strings.ContainsFunc(c.KeyPrefix, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return kvClass{}, fmt.Errorf("key prefix %q: must not hold spaces or control characters", c.KeyPrefix)
	}
	if c.KeySize != 0 {
		k.digits = c.KeySize - len(c.KeyPrefix)
	}
	if need := len(strconv.FormatUint(c.Keys-1, 10)); k.digits < need || len(c.KeyPrefix)+k.digits > maxKey {
		return kvClass{}, fmt.Errorf("key size %d with prefix %q: %d keys need %d to %d bytes",
			len(c.KeyPrefix)+k.digits, c.KeyPrefix, c.Keys, len(c.KeyPrefix)+need, maxKey)
	}
	var err error
	k.zipf, err = parsePopularity(c.Popularity, c.Keys)
	return k, err
}

// parsePopularity returns nil for uniform.
func parsePopularity(text string, keys uint64) (*dist.Zipf, error) {
	if text == "" || text == "uniform" {
		return nil, nil
	}
	exponent, found := strings.CutPrefix(text, "zipf:")
	s, err := strconv.ParseFloat(exponent, 64)
	if !found || err != nil {
		return nil, fmt.Errorf("popularity %q: write uniform or zipf:EXPONENT, such as zipf:0.99", text)
	}
	return dist.NewZipf(keys, s)
}

// compatible says why two classes cannot stand side by side.
func (c *kvClass) compatible(o *kvClass) error {
	if c.Name == o.Name {
		return fmt.Errorf("class %q: there are two of that name", c.Name)
	}
	if c.KeyPrefix == o.KeyPrefix && (c.digits != o.digits || fmt.Sprint(c.ValueSize) != fmt.Sprint(o.ValueSize)) {
		return fmt.Errorf("classes %q and %q share the keys %q but not their key and value sizes", c.Name, o.Name, c.KeyPrefix)
	}
	return nil
}

// Next draws one operation.
func (k *KV) Next(rng *rand.Rand, op *Op) {
	u := rng.Float64()
	i := 0
	for u >= k.classes[i].upTo {
		i++
	}
	c := &k.classes[i]
	op.Class = uint16(i)
	op.Kind = c.Mix.pick(rng)
	var index uint64
	if c.zipf != nil {
		index = c.zipf.Sample(rng)
	} else {
		index = rng.Uint64N(c.Keys)
	}
	k.fill(op, c, index)
}

// pick draws a kind. A mix of one kind takes no random number.
func (m Mix) pick(rng *rand.Rand) Kind {
	switch {
	case m.Get == 1:
		return Get
	case m.Set == 1:
		return Set
	case m.Delete == 1:
		return Delete
	}
	switch u := rng.Float64(); {
	case u < m.Get:
		return Get
	case u < m.Get+m.Set || m.Delete == 0:
		return Set
	default:
		return Delete
	}
}

// Preload yields a Set of every key, class by class. Classes that share a prefix are stored once, with the larger number of keys.
func (k *KV) Preload() iter.Seq[*Op] {
	return func(yield func(*Op) bool) {
		var op Op
		for i := range k.classes {
			c := &k.classes[i]
			for index := range k.stored(i) {
				op.Class, op.Kind = uint16(i), Set
				k.fill(&op, c, index)
				if !yield(&op) {
					return
				}
			}
		}
	}
}

// stored returns how many keys Preload stores for class i: none if another class with the same prefix stores them.
func (k *KV) stored(i int) uint64 {
	c := &k.classes[i]
	for j := range k.classes {
		o := &k.classes[j]
		if o.KeyPrefix == c.KeyPrefix && (o.Keys > c.Keys || o.Keys == c.Keys && j < i) {
			return 0
		}
	}
	return c.Keys
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

// fill writes key and, for a Set, value of key number index into op.
func (k *KV) fill(op *Op, c *kvClass, index uint64) {
	n := copy(k.key[:], c.KeyPrefix)
	var digits [maxDigits]byte
	number := strconv.AppendUint(digits[:0], index, 10)
	for range c.digits - len(number) {
		k.key[n] = '0'
		n++
	}
	n += copy(k.key[n:], number)
	op.Key = k.key[:n]
	op.Value = nil
	if op.Kind == Set {
		op.Value = k.valueOf(c, index)
	}
}

// valueOf returns the value of a key: a cut from the noise at a place that the key decides, with the key's hash in front so that no
// two values of eight bytes and more are alike.
func (k *KV) valueOf(c *kvClass, index uint64) []byte {
	id := dist.Mix(c.hash ^ dist.Mix(index))
	k.sizes.Seed(id, c.hash)
	size := int(min(max(math.Round(c.ValueSize.Sample(k.draw)), 0), maxValue))
	if cap(k.value) < size {
		k.value = make([]byte, size+size/4)
	}
	value := k.value[:size]
	for n, from := 0, int(id%noiseBytes); n < size; from = 0 {
		n += copy(value[n:], k.noise[from:])
	}
	var head [8]byte
	binary.LittleEndian.PutUint64(head[:], id)
	copy(value, head[:])
	return value
}

func hashString(s string) uint64 {
	h := uint64(len(s))
	for i := range len(s) {
		h = dist.Mix(h ^ uint64(s[i])<<56)
	}
	return h
}
