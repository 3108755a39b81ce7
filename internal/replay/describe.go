package replay

import (
	"fmt"
	"io"
	"slices"
	"time"

	"spillway/internal/dist"
	"spillway/workloads"
)

// ClassSummary is what a log has of one class.
type ClassSummary struct {
	Name     string
	Requests int64
	Kinds    [workloads.NumKinds]int64
	NoValue  int64 // keys without a value
	Bytes    int64 // of all values
	Largest  int64

	sizes []int64 // a sample of them
	seen  int64
}

// Size returns a quantile of the sizes of the class's values, from a sample of them where there are many; 0 when there are none.
func (c *ClassSummary) Size(q float64) int64 {
	if len(c.sizes) == 0 {
		return 0
	}
	slices.Sort(c.sizes)
	return c.sizes[min(int(q*float64(len(c.sizes))), len(c.sizes)-1)]
}

// Summary describes a log.
type Summary struct {
	Requests int64
	Span     time.Duration // from the first request to the last
	Classes  []*ClassSummary
	Bad      []BadRow
	Passed   int64

	// Keys are how many are asked for, Stored how many of them are read before they are written, with the bytes of their values. They are not known,
	// and -1, of a log with more keys than are kept.
	Keys, Stored, StoredBytes int64

	classes  map[string]*ClassSummary
	keyBytes int64   // of those that are followed
	counts   []int64 // of requests by span of time
	grain    time.Duration
}

const (
	mostKeys    = 1 << 24 // that are followed, with no more bytes than a log in memory has of them
	mostClasses = 1000    // more are no classes, but a column that is something else
	sampleSizes = 1 << 14
	mostSpans   = 1 << 12
)

// Describe reads a log, in memory that does not grow with its length, but with its keys.
func Describe(r io.Reader, file string, rules Rules) (*Summary, error) {
	s := &Summary{grain: 1, classes: map[string]*ClassSummary{}}
	seen := map[string]bool{} // by key: whether it need not be stored any more
	rng := dist.Stream(1, "sizes of a log", 0)
	first := time.Duration(-1)
	bad, passed, err := Scan(r, file, rules, func(line int, row *Row) error {
		if first < 0 {
			first = row.At
		}
		c := s.class(row.Class)
		if c == nil {
			return fmt.Errorf("%s:%d: class %q is one more than %d: group the requests into a few (`loadgen trace import --from columns --class …`)", file, line, row.Class, mostClasses)
		}
		s.Requests++
		s.Span = row.At - first
		s.count(s.Span)
		c.Requests++
		c.Kinds[row.Kind]++
		for i, size := range row.Sizes {
			s.follow(seen, row.Keys[i], row.Kind, size)
			if size == workloads.NoValue {
				c.NoValue++
				continue
			}
			c.Bytes += size
			c.Largest = max(c.Largest, size)
			if c.seen++; len(c.sizes) < sampleSizes {
				c.sizes = append(c.sizes, size)
			} else if at := rng.Int64N(c.seen); at < sampleSizes {
				c.sizes[at] = size
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.Bad, s.Passed = bad, passed
	return s, nil
}

// class returns the summary of a class; nil where there would be too many.
func (s *Summary) class(name []byte) *ClassSummary {
	if c := s.classes[string(name)]; c != nil {
		return c
	}
	if len(s.Classes) == mostClasses {
		return nil
	}
	c := &ClassSummary{Name: string(name)}
	s.classes[c.Name] = c
	s.Classes = append(s.Classes, c)
	return c
}

// follow counts keys, and those that a read finds before they are written.
func (s *Summary) follow(seen map[string]bool, key []byte, kind workloads.Kind, size int64) {
	if s.Keys < 0 {
		return
	}
	known, met := seen[string(key)]
	if !met {
		s.keyBytes += int64(len(key))
		if s.Keys++; s.Keys > mostKeys || s.keyBytes > workloads.MaxKeyBytes {
			s.Keys, s.Stored, s.StoredBytes = -1, -1, -1
			clear(seen)
			return
		}
		seen[string(key)] = false
	}
	read := kind == workloads.Get || kind == workloads.MultiGet
	if known || read && size == workloads.NoValue {
		return
	}
	seen[string(key)] = true
	if read {
		s.Stored++
		s.StoredBytes += size
	}
}

// count adds a request to the rate over time. When the spans are too many, two become one.
func (s *Summary) count(at time.Duration) {
	for int64(at/s.grain) >= mostSpans {
		half := s.counts[:0]
		for i := 0; i < len(s.counts); i += 2 {
			sum := s.counts[i]
			if i+1 < len(s.counts) {
				sum += s.counts[i+1]
			}
			half = append(half, sum)
		}
		s.counts, s.grain = half, 2*s.grain
	}
	i := int(at / s.grain)
	for len(s.counts) <= i {
		s.counts = append(s.counts, 0)
	}
	s.counts[i]++
}

// Rates returns the requests per second in n spans of equal length, which follow from finer ones.
func (s *Summary) Rates(n int) []float64 {
	list := make([]float64, n)
	if s.Span == 0 {
		return list
	}
	span := float64(s.Span) / float64(n)
	for i, count := range s.counts {
		// A fine span may lie in two: it is shared out by how much of it does.
		from, to := float64(i)*float64(s.grain), min(float64(i+1)*float64(s.grain), float64(s.Span))
		if to <= from {
			list[n-1] += float64(count) // at the very end
			continue
		}
		for k := int(from / span); k < n && float64(k)*span < to; k++ {
			overlap := min(to, float64(k+1)*span) - max(from, float64(k)*span)
			list[k] += float64(count) * max(overlap, 0) / (to - from)
		}
	}
	for k := range list {
		list[k] /= span / 1e9
	}
	return list
}
