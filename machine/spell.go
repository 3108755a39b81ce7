package machine

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
)

// A list of steps has a text form, short enough for a memcached key and without spaces, so that any memcached client can ask a
// synthetic server for any work:
//
//	c72us              compute
//	s819200            stream so many bytes; s819200@3000000000 at no more than so many bytes per second
//	l0:10us            hold lock 0
//	d1ms               delay
//	m1048576           hold so many bytes of memory
//	e0 … x0            enter and leave section 0
//
// Steps are joined by commas. What follows a # is a comment: it makes keys distinct.

var spelled = [...]byte{Compute: 'c', Stream: 's', Lock: 'l', Delay: 'd', Memory: 'm', Enter: 'e', Leave: 'x'}

// AppendSteps appends the text form of steps to dst.
func AppendSteps(dst []byte, steps []Step) []byte {
	for i, s := range steps {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, spelled[s.Kind])
		switch s.Kind {
		case Compute, Delay:
			dst = appendDuration(dst, s.Duration)
		case Stream:
			dst = strconv.AppendInt(dst, s.Bytes, 10)
			if s.Rate > 0 {
				dst = strconv.AppendFloat(append(dst, '@'), s.Rate, 'f', -1, 64)
			}
		case Memory:
			dst = strconv.AppendInt(dst, s.Bytes, 10)
		case Lock:
			dst = strconv.AppendUint(dst, uint64(s.Index), 10)
			dst = appendDuration(append(dst, ':'), s.Duration)
		case Enter, Leave:
			dst = strconv.AppendUint(dst, uint64(s.Index), 10)
		}
	}
	return dst
}

// appendDuration writes whole milliseconds, microseconds or nanoseconds: time.Duration's own form has fractions and a non-ASCII µ.
func appendDuration(dst []byte, d time.Duration) []byte {
	switch {
	case d%time.Millisecond == 0:
		return append(strconv.AppendInt(dst, int64(d/time.Millisecond), 10), "ms"...)
	case d%time.Microsecond == 0:
		return append(strconv.AppendInt(dst, int64(d/time.Microsecond), 10), "us"...)
	default:
		return append(strconv.AppendInt(dst, int64(d), 10), "ns"...)
	}
}

// ParseSteps appends the steps that text spells to dst. The error says which step is wrong and how it is written.
func ParseSteps(dst []Step, text []byte) ([]Step, error) {
	text, _, _ = bytes.Cut(text, []byte{'#'})
	if len(text) == 0 {
		return dst, nil
	}
	for more := true; more; {
		var word []byte
		word, text, more = bytes.Cut(text, []byte{','})
		s, err := parseStep(word)
		if err != nil {
			return dst, fmt.Errorf("step %q: %w", word, err)
		}
		dst = append(dst, s)
	}
	return dst, nil
}

func parseStep(word []byte) (s Step, err error) {
	kind := -1
	if len(word) > 0 {
		kind = bytes.IndexByte(spelled[:], word[0])
	}
	if kind < 0 {
		return s, fmt.Errorf("a step begins with one of %q, for example c72us, s819200, l0:10us, d1ms, m4096, e0, x0", spelled)
	}
	s.Kind = StepKind(kind)
	rest := word[1:]
	switch s.Kind {
	case Compute, Delay:
		s.Duration, err = parseDuration(rest)
	case Memory:
		s.Bytes, err = parseBytes(rest)
	case Stream:
		amount, rate, limited := bytes.Cut(rest, []byte{'@'})
		if s.Bytes, err = parseBytes(amount); err == nil && limited {
			s.Rate, err = strconv.ParseFloat(string(rate), 64)
			if err != nil || !(s.Rate > 0 && s.Rate < 1e18) {
				err = fmt.Errorf("a rate is a number of bytes per second above 0")
			}
		}
	case Lock:
		index, hold, _ := bytes.Cut(rest, []byte{':'})
		if s.Index, err = parseIndex(index); err == nil {
			s.Duration, err = parseDuration(hold)
		}
	case Enter, Leave:
		s.Index, err = parseIndex(rest)
	}
	return s, err
}

// Bounds of a step that comes over the wire: a typing error must not occupy a server for a year.
const (
	maxStepDuration = time.Hour
	maxStepBytes    = 1 << 40
	// MaxIndex is the highest number of a lock or section in a text form.
	MaxIndex = 63
)

func parseDuration(b []byte) (time.Duration, error) {
	if d, ok := parseWhole(b); ok && d <= maxStepDuration {
		return d, nil
	}
	d, err := time.ParseDuration(string(b))
	if err != nil || d < 0 || d > maxStepDuration {
		return 0, fmt.Errorf("a duration is written like 72us, at most %v", maxStepDuration)
	}
	return d, nil
}

// parseWhole reads what appendDuration writes. It allocates nothing, which time.ParseDuration does for every text.
func parseWhole(b []byte) (time.Duration, bool) {
	n, i := int64(0), 0
	for ; i < len(b) && b[i] >= '0' && b[i] <= '9' && i < 15; i++ {
		n = n*10 + int64(b[i]-'0')
	}
	if i == 0 {
		return 0, false
	}
	unit := time.Duration(0)
	switch string(b[i:]) {
	case "ns":
		unit = time.Nanosecond
	case "us":
		unit = time.Microsecond
	case "ms":
		unit = time.Millisecond
	}
	if unit == 0 || n > int64(maxStepDuration/unit) {
		return 0, false
	}
	return time.Duration(n) * unit, true
}

func parseBytes(b []byte) (int64, error) {
	n, err := strconv.ParseUint(string(b), 10, 63)
	if err != nil || n > maxStepBytes {
		return 0, fmt.Errorf("an amount is a whole number of bytes, at most %d", int64(maxStepBytes))
	}
	return int64(n), nil
}

func parseIndex(b []byte) (uint16, error) {
	n, err := strconv.ParseUint(string(b), 10, 16)
	if err != nil || n > MaxIndex {
		return 0, fmt.Errorf("locks and sections have numbers from 0 to %d", MaxIndex)
	}
	return uint16(n), nil
}
