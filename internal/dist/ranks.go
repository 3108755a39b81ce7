package dist

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Ranks draws ranks 0 … n−1: which of n things is asked for.
type Ranks interface {
	Sample(rng *rand.Rand) uint64
}

// RankForms lists the text forms that ParseRanks takes, for messages.
const RankForms = "uniform, zipf:0.99, hotspot:0.9@0.1 (share of requests @ share of keys), sequential"

// ParseRanks reads how n ranks are drawn; empty means uniform. The forms are:
//
//	uniform            each as often as any other
//	zipf:0.99          rank k in proportion to (k+1)^−0.99
//	hotspot:0.9@0.1    nine tenths of the draws go to the first tenth of the ranks, evenly; the others share the rest
//	sequential         one after the other, and again from the first
func ParseRanks(text string, n uint64) (Ranks, error) {
	form, rest, _ := strings.Cut(text, ":")
	switch {
	case n < 1:
		return nil, fmt.Errorf("popularity over no keys")
	case text == "" || text == "uniform":
		return uniformRanks{n}, nil
	case text == "sequential":
		return &sequentialRanks{n: n}, nil
	case form == "zipf":
		if s, err := strconv.ParseFloat(rest, 64); err == nil {
			return NewZipf(n, s)
		}
	case form == "hotspot":
		asked, part, found := strings.Cut(rest, "@")
		share, err1 := strconv.ParseFloat(asked, 64)
		keys, err2 := strconv.ParseFloat(part, 64)
		if found && err1 == nil && err2 == nil {
			return newHotspot(n, share, keys)
		}
	}
	return nil, fmt.Errorf("popularity %q: write one of %s", text, RankForms)
}

type uniformRanks struct{ n uint64 }

// Sample draws a rank.
func (u uniformRanks) Sample(rng *rand.Rand) uint64 { return rng.Uint64N(u.n) }

type sequentialRanks struct{ n, next uint64 }

// Sample returns the rank whose turn it is.
func (s *sequentialRanks) Sample(*rand.Rand) uint64 {
	rank := s.next
	if s.next++; s.next == s.n {
		s.next = 0
	}
	return rank
}

type hotspot struct {
	n, hot uint64 // all ranks, hot ranks
	share  float64
}

func newHotspot(n uint64, share, keys float64) (hotspot, error) {
	if !(share >= 0 && share <= 1) || !(keys > 0 && keys <= 1) {
		return hotspot{}, fmt.Errorf("popularity hotspot:%v@%v: both are shares between 0 and 1, of requests and of keys", share, keys)
	}
	h := hotspot{n: n, hot: min(max(uint64(keys*float64(n)), 1), n), share: share}
	if h.hot == n {
		h.share = 1
	}
	return h, nil
}

// Sample draws a rank.
func (h hotspot) Sample(rng *rand.Rand) uint64 {
	if h.share == 1 || rng.Float64() < h.share {
		return rng.Uint64N(h.hot)
	}
	return h.hot + rng.Uint64N(h.n-h.hot)
}
