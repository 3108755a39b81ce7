//go:build linux

package httptarget

import (
	"bytes"
	"iter"
	"time"
)

// token are the bytes that the name of a header may have (RFC 9110, section 5.6.2).
var token = func() (set [256]bool) {
	for b := byte('0'); b <= '9'; b++ {
		set[b] = true
	}
	for b := byte('a'); b <= 'z'; b++ {
		set[b], set[b-'a'+'A'] = true, true
	}
	for _, b := range []byte("!#$%&'*+-.^_`|~") {
		set[b] = true
	}
	return set
}()

// plain are the bytes that a segment of a path may have as they are (RFC 3986, section 3.3). All others are escaped.
var plain = func() (set [256]bool) {
	for b := byte('0'); b <= '9'; b++ {
		set[b] = true
	}
	for b := byte('a'); b <= 'z'; b++ {
		set[b], set[b-'a'+'A'] = true, true
	}
	for _, b := range []byte("-._~!$&'()*+,;=:@") {
		set[b] = true
	}
	return set
}()

// appendSegment appends a key as one segment of a path.
func appendSegment(dst, key []byte) []byte {
	const digits = "0123456789ABCDEF"
	for _, b := range key {
		if plain[b] {
			dst = append(dst, b)
		} else {
			dst = append(dst, '%', digits[b>>4], digits[b&15])
		}
	}
	return dst
}

// trim removes spaces and tabs from both ends.
func trim(b []byte) []byte { return bytes.Trim(b, " \t") }

// words yields the parts of a header's value that are separated by commas.
func words(value []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(value) > 0 {
			word, rest, _ := bytes.Cut(value, []byte(","))
			if !yield(trim(word)) {
				return
			}
			value = rest
		}
	}
}

// number reads digits and nothing else.
func number(text []byte) (n int64, ok bool) {
	const most = 18 // digits of what fits an int64
	if len(text) == 0 || len(text) > most {
		return 0, false
	}
	for _, d := range text {
		if d < '0' || d > '9' {
			return 0, false
		}
		n = 10*n + int64(d-'0')
	}
	return n, true
}

// milliseconds reads a decimal number of milliseconds, to the nanosecond.
func milliseconds(text []byte) (d time.Duration, ok bool) {
	whole, part, _ := bytes.Cut(text, []byte("."))
	n, ok := number(whole)
	const longest = int64(24 * time.Hour / time.Millisecond)
	if !ok || n > longest {
		return 0, false
	}
	unit := time.Millisecond
	d = time.Duration(n) * unit
	for _, c := range part {
		if c < '0' || c > '9' {
			return 0, false
		}
		unit /= 10
		d += time.Duration(c-'0') * unit
	}
	return d, true
}

func hexDigit(b byte) (v int64, ok bool) {
	switch {
	case b >= '0' && b <= '9':
		return int64(b - '0'), true
	case b >= 'a' && b <= 'f':
		return int64(b-'a') + 10, true
	case b >= 'A' && b <= 'F':
		return int64(b-'A') + 10, true
	}
	return 0, false
}
