package memproto

import "strconv"

// The Append functions render commands of a client. A key is 1 to MaxKey bytes without spaces and control characters; that is for the
// caller to see to. The opaque comes back in the reply as a check that replies and requests are still in step.

// Asks is what a request asks of our servers and tells them, in tokens that memcached ignores. The zero value is nothing.
type Asks struct {
	Timings bool // L: the server's queueing delay and service time are to come with the reply

	// On the model ground the request says when it was sent, and asks for timings with that.
	Timed    bool
	Sent     int64 // modelled instant, ns
	Patience int64 // how much later than it is due the reply may be read without a difference to what the client does, modelled ns

	// P: Demand is how many more requests the client would like to send, and asks for credits; Priority is as in control.Request.
	HasDemand   bool
	HasPriority bool
	Demand      uint32
	Priority    uint16
}

// AppendMetaGet appends a get that asks for size and value.
func AppendMetaGet(dst, key []byte, opaque uint64, asks Asks) []byte {
	dst = append(dst, "mg "...)
	dst = append(dst, key...)
	dst = append(dst, " s v"...)
	return appendEnd(dst, opaque, asks)
}

// AppendMetaSet appends a set. exptime is as in Command.Exptime.
func AppendMetaSet(dst, key, value []byte, exptime int64, opaque uint64, asks Asks) []byte {
	dst = append(dst, "ms "...)
	dst = append(dst, key...)
	dst = append(dst, ' ')
	dst = strconv.AppendInt(dst, int64(len(value)), 10)
	if exptime != 0 {
		dst = append(dst, " T"...)
		dst = strconv.AppendInt(dst, exptime, 10)
	}
	dst = appendEnd(dst, opaque, asks)
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}

// AppendMetaDelete appends a deletion.
func AppendMetaDelete(dst, key []byte, opaque uint64, asks Asks) []byte {
	dst = append(dst, "md "...)
	dst = append(dst, key...)
	return appendEnd(dst, opaque, asks)
}

// AppendMetaNoop appends a command that does nothing but be answered, with ReplyNoop. With a demand it is a question for credits: one of our
// servers answers once it has some for this client.
func AppendMetaNoop(dst []byte, asks Asks) []byte {
	return append(appendAsks(append(dst, "mn"...), &asks), "\r\n"...)
}

func appendEnd(dst []byte, opaque uint64, asks Asks) []byte {
	dst = append(dst, " O"...)
	dst = strconv.AppendUint(dst, opaque, 16)
	return append(appendAsks(dst, &asks), "\r\n"...)
}

func appendAsks(dst []byte, asks *Asks) []byte {
	if asks.Timings || asks.Timed {
		dst = append(dst, " L"...)
	}
	if asks.Timed {
		dst = strconv.AppendInt(dst, asks.Sent, 10)
		if asks.Patience > 0 {
			dst = append(dst, ',')
			dst = strconv.AppendInt(dst, asks.Patience, 10)
		}
	}
	if !asks.HasDemand && !asks.HasPriority {
		return dst
	}
	dst = append(dst, " P"...)
	if asks.HasDemand {
		dst = strconv.AppendUint(dst, uint64(asks.Demand), 10)
	}
	if asks.HasPriority {
		dst = append(dst, '.')
		dst = strconv.AppendUint(dst, uint64(asks.Priority), 10)
	}
	return dst
}
