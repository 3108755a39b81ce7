package workloads

import (
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"spillway/internal/dist"
)

// Next draws one operation.
func (k *KV) Next(rng *rand.Rand, op *Op) {
	k.fill(op, k.choose(rng, op))
}

// Skip draws one operation without its keys and values.
func (k *KV) Skip(rng *rand.Rand, op *Op) { k.choose(rng, op) }

// Refill makes the Set that follows a miss.
func (k *KV) Refill(class uint16, ref uint64, op *Op) {
	op.Class, op.Kind, op.Ref, op.WriteBack = uint16(k.classes[class].back), Set, ref, false
	k.refs[0] = ref
	k.fill(op, &k.classes[op.Class])
}

// choose draws class, kind and numbers of the keys.
func (k *KV) choose(rng *rand.Rand, op *Op) *kvClass {
	i := k.pick(rng.Float64())
	c := &k.classes[i]
	op.Class = uint16(i)
	op.Kind = c.Mix.pick(rng)
	op.WriteBack = c.back >= 0 && op.Kind == Get
	k.refs[0] = c.ranks.Sample(rng)
	op.Ref = k.refs[0]
	if op.Kind == MultiGet {
		for n := 1; n < c.Batch; n++ {
			k.refs[n] = c.ranks.Sample(rng)
			op.Ref = dist.Mix(op.Ref ^ k.refs[n])
		}
	}
	return c
}

// pick draws a kind. A mix of one kind takes no random number.
func (m *Mix) pick(rng *rand.Rand) Kind {
	switch {
	case m.Get == 1:
		return Get
	case m.Set == 1:
		return Set
	case m.Delete == 1:
		return Delete
	case m.MultiGet == 1:
		return MultiGet
	}
	u := rng.Float64()
	common, most := Get, 0.0
	for kind := range NumKinds {
		share := m.share(kind)
		if u < share {
			return kind
		}
		u -= share
		if share > most {
			common, most = kind, share
		}
	}
	return common // takes what rounding leaves
}

// share returns the share of a kind of operation.
func (m *Mix) share(k Kind) float64 {
	switch k {
	case Get:
		return m.Get
	case Set:
		return m.Set
	case Delete:
		return m.Delete
	case MultiGet:
		return m.MultiGet
	}
	return 0
}

// fill writes the keys numbered k.refs and, for a Set, the value into op.
func (k *KV) fill(op *Op, c *kvClass) {
	k.spell(op, c)
	op.Value, op.Expire = nil, 0
	if op.Kind == Set {
		op.Expire = c.expire()
		if !k.valueless {
			op.Value = k.valueOf(c, k.refs[0])
		}
	}
}

// spell writes the keys numbered k.refs into op.
func (k *KV) spell(op *Op, c *kvClass) {
	n := 1
	if op.Kind == MultiGet {
		n = c.Batch
	}
	k.keys, k.more = k.keys[:0], k.more[:0]
	if cap(k.keys) < n*maxKey { // keys must not move while op points to them
		k.keys = make([]byte, 0, n*maxKey)
	}
	for i, ref := range k.refs[:n] {
		from := len(k.keys)
		k.keys = k.appendKey(k.keys, c, ref)
		if key := k.keys[from:len(k.keys):len(k.keys)]; i == 0 {
			op.Key = key
		} else {
			k.more = append(k.more, key)
		}
	}
	op.More = k.more
}

// appendKey appends the key of a number: the prefix and the number, with zeros in between for its length.
func (k *KV) appendKey(dst []byte, c *kvClass, index uint64) []byte {
	dst = append(dst, c.KeyPrefix...)
	var text [maxDigits]byte
	number := strconv.AppendUint(text[:0], index, 10)
	digits := c.digits
	if c.KeySizes != nil {
		k.sizes.Seed(c.id(index), ^c.hash) // not the stream that the value's size comes from
		digits = int(min(math.Round(c.KeySizes.Sample(k.draw)), maxKey)) - len(c.KeyPrefix)
	}
	for range digits - len(number) {
		dst = append(dst, '0')
	}
	return append(dst, number...)
}

// expire returns the lifetime of what is set, in seconds.
func (c *kvClass) expire() uint32 { return uint32(c.Expire / time.Second) }

// valueOf returns the value of a key.
func (k *KV) valueOf(c *kvClass, index uint64) []byte {
	return k.noise.cut(c.id(index), int(k.sizeOf(c, index)))
}

// id returns the number that everything about a key follows from.
func (c *kvClass) id(index uint64) uint64 { return dist.Mix(c.hash ^ dist.Mix(index)) }

// sizeOf returns the size of the value of a key.
func (k *KV) sizeOf(c *kvClass, index uint64) int64 {
	k.sizes.Seed(c.id(index), c.hash)
	return int64(min(max(math.Round(c.ValueSize.Sample(k.draw)), 0), maxValue))
}

// WithoutValues makes k leave Op.Value empty in what Next draws: a simulated server only needs to know how large it would be (see Size),
// and megabytes of it would be most of the work of simulating.
func (k *KV) WithoutValues() { k.valueless = true }

func hashString[T string | []byte](s T) uint64 {
	h := uint64(len(s))
	for i := range len(s) {
		h = dist.Mix(h ^ uint64(s[i])<<56)
	}
	return h
}
