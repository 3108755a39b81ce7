package hist

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"sort"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// sparse is a histogram that was read from a file: its buckets that hold something, by rising index. A report has tens of thousands of histograms at a
// time, of a few hundred buckets each; as arrays of 33 000 counters they would fill the memory of a computer.
type sparse struct {
	index []int32
	upTo  []int64 // how many values are in this bucket and in those below it
}

// The shape of our histograms: 2048 buckets of one nanosecond, then 1024 of each double width.
const (
	halfBits = 10
	half     = 1 << halfBits
)

// span returns the lowest value of a bucket and how many values it has.
func span(index int32) (low, width int64) {
	shift := index>>halfBits - 1
	if shift < 0 {
		return int64(index), 1
	}
	return int64(index&(half-1)|half) << shift, 1 << shift
}

// indexOf returns the bucket of a value.
func indexOf(value int64) int32 {
	shift := max(bits.Len64(uint64(value))-halfBits-1, 0)
	if shift == 0 {
		return int32(value)
	}
	return int32(shift+1)<<halfBits | int32(value>>shift)&(half-1)
}

func (s *sparse) count() int64 {
	if len(s.upTo) == 0 {
		return 0
	}
	return s.upTo[len(s.upTo)-1]
}

// at returns the largest value of the bucket that has the rank-th value, from 1.
func (s *sparse) at(rank int64) int64 {
	i := sort.Search(len(s.upTo), func(i int) bool { return s.upTo[i] >= rank })
	low, width := span(s.index[min(i, len(s.index)-1)])
	return low + width - 1
}

// each visits every bucket that holds something: its lowest value, its width and its count.
func (s *sparse) each(visit func(low, width, count int64)) {
	below := int64(0)
	for i, index := range s.index {
		low, width := span(index)
		visit(low, width, s.upTo[i]-below)
		below = s.upTo[i]
	}
}

// The second version of the format of histograms, and the head of one: cookie, length, offset, digits, lowest and highest value, ratio.
const (
	compressedCookie = 0x1c849304
	plainCookie      = 0x1c849303
	wordSize         = 0xf0 // bits of a cookie that say how wide counters are; in this version they are varints whatever it says
	headBytes        = 40
)

var errDamaged = errors.New("the histogram is damaged")

// decoder reads histograms one after another, with the buffers of the one before.
type decoder struct {
	in   io.ReadCloser
	body bytes.Buffer
}

// decode reads a histogram as a log has it. Those of another shape than ours go through the library.
func (d *decoder) decode(text string) (*sparse, error) {
	packed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	if len(packed) < 8 || binary.BigEndian.Uint32(packed)&^wordSize != compressedCookie {
		return decodeOther(text)
	}
	body, err := d.inflate(packed[8:])
	if err != nil {
		return nil, err
	}
	if len(body) < headBytes || binary.BigEndian.Uint32(body)&^wordSize != plainCookie {
		return decodeOther(text)
	}
	field := func(at int) int64 { return int64(binary.BigEndian.Uint64(body[at:])) }
	offset, digits := binary.BigEndian.Uint32(body[8:]), binary.BigEndian.Uint32(body[12:])
	if offset != 0 || digits != significantDigits || field(16) != 1 || field(24) != int64(Highest) {
		return decodeOther(text)
	}
	length := int(binary.BigEndian.Uint32(body[4:]))
	if length < 0 || length > len(body)-headBytes {
		return nil, errDamaged
	}
	return counters(body[headBytes : headBytes+length])
}

// inflate unpacks at most what all counters of our shape can take. What it returns is good until it is called again.
func (d *decoder) inflate(packed []byte) (body []byte, err error) {
	const most = 1 << 20
	if d.in == nil {
		d.in, err = zlib.NewReader(bytes.NewReader(packed))
	} else {
		err = d.in.(zlib.Resetter).Reset(bytes.NewReader(packed), nil)
	}
	if err != nil {
		return nil, err
	}
	d.body.Reset()
	n, err := d.body.ReadFrom(io.LimitReader(d.in, most+1))
	if err == nil && n > most {
		err = fmt.Errorf("%w: it is larger than any", errDamaged)
	}
	return d.body.Bytes(), err
}

// counters reads counts as zigzag varints; a negative one is that many empty buckets.
func counters(body []byte) (*sparse, error) {
	s := &sparse{}
	last := indexOf(int64(Highest))
	sum := int64(0)
	for index := int64(0); len(body) > 0; {
		n, size := varint(body)
		if size <= 0 {
			return nil, errDamaged
		}
		body = body[size:]
		switch {
		case n < 0:
			if index -= n; index < 0 {
				return nil, errDamaged
			}
			continue
		case n > 0:
			if sum += n; index > int64(last) || sum < 0 {
				return nil, errDamaged
			}
			s.index, s.upTo = append(s.index, int32(index)), append(s.upTo, sum)
		}
		index++
	}
	return &sparse{index: slices.Clip(s.index), upTo: slices.Clip(s.upTo)}, nil
}

// varint reads a zigzag varint of the format, whose ninth byte has eight bits; size is 0 where there is none.
func varint(body []byte) (n int64, size int) {
	var v uint64
	for i, b := range body[:min(len(body), 9)] {
		if i == 8 {
			v |= uint64(b) << 56
			return int64(v>>1) ^ -int64(v&1), 9
		}
		v |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			return int64(v>>1) ^ -int64(v&1), i + 1
		}
	}
	return 0, 0
}

// decodeOther has the library read what is not of our shape.
func decodeOther(text string) (*sparse, error) {
	h, err := hdrhistogram.Decode([]byte(text))
	if err != nil {
		return nil, err
	}
	counts := map[int32]int64{}
	for _, bar := range h.Distribution() {
		if bar.Count > 0 {
			counts[indexOf(min(bar.From, int64(Highest)))] += bar.Count
		}
	}
	s := &sparse{}
	for index := range counts {
		s.index = append(s.index, index)
	}
	slices.Sort(s.index)
	sum := int64(0)
	for _, index := range s.index {
		sum += counts[index]
		s.upTo = append(s.upTo, sum)
	}
	return s, nil
}
