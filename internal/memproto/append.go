package memproto

import "strconv"

// The Append functions render commands of a client. A key is 1 to MaxKey bytes without spaces and control characters; that is for the
// caller to see to. The opaque comes back in the reply as a check that replies and requests are still in step. timings asks for
// the L token, which our servers answer and memcached ignores.

// Timings says whether a request asks for the server's timings, and on the model ground when it was sent.
type Timings struct {
	ask, timed     bool
	sent, patience int64
}

// The Timings that are no instant.
var (
	NoTimings  = Timings{}          // do not ask
	AskTimings = Timings{ask: true} // ask, without an instant of sending
)

// SentAt is for a request on the model ground that was sent at a modelled instant, in nanoseconds. patience, likewise, is how much later
// than it is due its reply may be read without a difference to what the client does.
func SentAt(instant, patience int64) Timings {
	return Timings{ask: true, timed: true, sent: instant, patience: patience}
}

// AppendMetaGet appends a get that asks for size and value.
func AppendMetaGet(dst, key []byte, opaque uint64, timings Timings) []byte {
	dst = append(dst, "mg "...)
	dst = append(dst, key...)
	dst = append(dst, " s v"...)
	return appendEnd(dst, opaque, timings)
}

// AppendMetaSet appends a set. exptime is as in Command.Exptime.
func AppendMetaSet(dst, key, value []byte, exptime int64, opaque uint64, timings Timings) []byte {
	dst = append(dst, "ms "...)
	dst = append(dst, key...)
	dst = append(dst, ' ')
	dst = strconv.AppendInt(dst, int64(len(value)), 10)
	if exptime != 0 {
		dst = append(dst, " T"...)
		dst = strconv.AppendInt(dst, exptime, 10)
	}
	dst = appendEnd(dst, opaque, timings)
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}

// AppendMetaDelete appends a deletion.
func AppendMetaDelete(dst, key []byte, opaque uint64, timings Timings) []byte {
	dst = append(dst, "md "...)
	dst = append(dst, key...)
	return appendEnd(dst, opaque, timings)
}

// AppendMetaNoop appends a command that does nothing but be answered, with ReplyNoop.
func AppendMetaNoop(dst []byte) []byte { return append(dst, "mn\r\n"...) }

func appendEnd(dst []byte, opaque uint64, timings Timings) []byte {
	dst = append(dst, " O"...)
	dst = strconv.AppendUint(dst, opaque, 16)
	if timings.ask {
		dst = append(dst, " L"...)
	}
	if timings.timed {
		dst = strconv.AppendInt(dst, timings.sent, 10)
		if timings.patience > 0 {
			dst = append(dst, ',')
			dst = strconv.AppendInt(dst, timings.patience, 10)
		}
	}
	return append(dst, "\r\n"...)
}
