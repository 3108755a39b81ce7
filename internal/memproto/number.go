package memproto

import "math"

// The numbers of the classic protocol are whatever C's strtol and strtoul make of them, cut down to 32 bits: signs and leading white
// space are fine, anything may follow the first white space after the digits, and 4294967297 is 1. Clients are known to send
// some of it, so this is the same.

// ParseInt reads a signed number as memcached's safe_strtol does.
func ParseInt(tok []byte) (int32, bool) {
	magnitude, negative, ok := digits(tok)
	switch {
	case !ok, negative && magnitude > 1<<63, !negative && magnitude > math.MaxInt64:
		return 0, false
	case negative:
		return int32(-magnitude), true
	}
	return int32(magnitude), true
}

// ParseUint64 reads an unsigned number as memcached's safe_strtoull does: a minus sign negates modulo 2^64, and is refused only if the
// result looks negative as a signed number.
func ParseUint64(tok []byte) (uint64, bool) {
	v, negative, ok := digits(tok)
	if negative {
		v = -v
	}
	if !ok || negative && int64(v) < 0 {
		return 0, false
	}
	return v, true
}

// ParseUint32 is ParseUint64 cut down to 32 bits.
func ParseUint32(tok []byte) (uint32, bool) {
	v, ok := ParseUint64(tok)
	return uint32(v), ok
}

func digits(tok []byte) (magnitude uint64, negative, ok bool) {
	i := 0
	for i < len(tok) && isSpace(tok[i]) {
		i++
	}
	if i < len(tok) && (tok[i] == '-' || tok[i] == '+') {
		negative = tok[i] == '-'
		i++
	}
	first := i
	for ; i < len(tok) && tok[i] >= '0' && tok[i] <= '9'; i++ {
		d := uint64(tok[i] - '0')
		if magnitude > (math.MaxUint64-d)/10 {
			return 0, false, false
		}
		magnitude = magnitude*10 + d
	}
	return magnitude, negative, i > first && (i == len(tok) || isSpace(tok[i]) || tok[i] == 0)
}

func isSpace(b byte) bool { return b == ' ' || b >= '\t' && b <= '\r' }

// parseDecimal reads a plain decimal number without sign, as our own extensions use. It must fit 63 bits.
func parseDecimal(tok []byte) (int64, bool) {
	if len(tok) == 0 || len(tok) > 18 {
		return 0, false
	}
	var v int64
	for _, b := range tok {
		if b < '0' || b > '9' {
			return 0, false
		}
		v = v*10 + int64(b-'0')
	}
	return v, true
}
