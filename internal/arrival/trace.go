package arrival

import (
	"bufio"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"spillway/clock"
	"spillway/internal/dist"
)

// maxTrace bounds the arrivals of a file, which are all held in memory: reading it while sending would make the sender wait for a disk.
const maxTrace = 1 << 26

// readInstants reads an arrival a line: a duration such as 1.5ms, or a plain number of seconds. Empty lines and those that begin with #
// are skipped. Instants must not fall.
func readInstants(path string) ([]time.Duration, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []time.Duration
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		at, err := parseInstant(text)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: line %d: %w", path, n, err)
		case len(all) > 0 && at < all[len(all)-1]:
			return nil, fmt.Errorf("%s: line %d: %s is before the instant above it; sort the file", path, n, text)
		case len(all) == maxTrace:
			return nil, fmt.Errorf("%s: has more than %d arrivals", path, maxTrace)
		}
		all = append(all, at)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: holds no arrivals", path)
	}
	return all, nil
}

func parseInstant(text string) (time.Duration, error) {
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return dist.ParseDuration(text)
	}
	if !(seconds >= 0 && seconds < math.MaxInt64/2/1e9) {
		return 0, fmt.Errorf("%q: an arrival is a number of seconds, not negative, or a duration", text)
	}
	return time.Duration(math.Round(seconds * 1e9)), nil
}

// unitTrace repeats the gaps of a file at a mean rate of 1. One more gap, the mean, lies between the last arrival and the first of the
// next round.
type unitTrace struct {
	at    []float64
	k     int
	round float64
}

func newUnitTrace(instants []time.Duration) (*unitTrace, error) {
	n := len(instants)
	span := float64(instants[n-1] - instants[0])
	if n < 2 || span == 0 {
		return nil, fmt.Errorf("a trace needs two arrivals at different instants to have a rate")
	}
	u := &unitTrace{at: make([]float64, n)}
	for i, at := range instants {
		u.at[i] = float64(at-instants[0]) / span * float64(n-1)
	}
	return u, nil
}

func (u *unitTrace) next(*rand.Rand) float64 {
	at := u.round + u.at[u.k]
	if u.k++; u.k == len(u.at) {
		u.k, u.round = 0, u.round+float64(len(u.at))
	}
	return at
}

// replay yields the instants of a file once.
type replay struct {
	start    clock.Instant
	instants []time.Duration
}

// Next yields the next instant.
func (r *replay) Next(*rand.Rand) clock.Instant {
	if len(r.instants) == 0 {
		return clock.Never
	}
	at := r.instants[0]
	r.instants = r.instants[1:]
	return r.start.Add(at)
}
