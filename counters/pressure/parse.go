//go:build linux

package pressure

import "math"

// The parsers take bytes and do not allocate: they run a hundred times a second beside what is being measured. A number that is not there, or is not
// one, is NaN.

// line cuts the first line off.
func line(b []byte) (first, rest []byte) {
	for i, c := range b {
		if c == '\n' {
			return b[:i], b[i+1:]
		}
	}
	return b, nil
}

// field cuts the first word off; there is none when it is empty.
func field(b []byte) (word, rest []byte) {
	i := 0
	for i < len(b) && (b[i] == ' ' || b[i] == '\t') {
		i++
	}
	b = b[i:]
	for i, c := range b {
		if c == ' ' || c == '\t' || c == '\n' {
			return b[:i], b[i:]
		}
	}
	return b, nil
}

// number reads a decimal number without a sign.
func number(b []byte) float64 {
	if len(b) == 0 || len(b) > 20 {
		return math.NaN()
	}
	v := 0.0
	for _, c := range b {
		if c < '0' || c > '9' {
			return math.NaN()
		}
		v = 10*v + float64(c-'0')
	}
	return v
}

// nth returns the n-th word of a line, from 0.
func nth(b []byte, n int) []byte {
	var word []byte
	for range n + 1 {
		word, b = field(b)
	}
	return word
}

// keyed returns the number on the line that begins with key, as in cpu.stat.
func keyed(b []byte, key string) float64 {
	for len(b) > 0 {
		var l []byte
		l, b = line(b)
		if word, rest := field(l); string(word) == key {
			value, _ := field(rest)
			return number(value)
		}
	}
	return math.NaN()
}

// psiTotal returns the total, in µs, of the line some or full of a file of /proc/pressure.
func psiTotal(b []byte, which string) float64 {
	for len(b) > 0 {
		var l []byte
		l, b = line(b)
		word, rest := field(l)
		if string(word) != which {
			continue
		}
		const key = "total="
		for len(rest) > 0 {
			if word, rest = field(rest); len(word) > len(key) && string(word[:len(key)]) == key {
				return number(word[len(key):])
			}
		}
	}
	return math.NaN()
}
