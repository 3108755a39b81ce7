package memproto

// AppendGet appends a classic get of several keys, which a server takes as one command: it answers with a ReplyItem for each key that it
// has and then with END, which is a ReplyOther, or with one error or refusal for all of them. There is no opaque, and no meta command
// that reads several keys as one.
func AppendGet(dst, key []byte, more [][]byte) []byte {
	dst = append(dst, "get "...)
	dst = append(dst, key...)
	for _, k := range more {
		dst = append(dst, ' ')
		dst = append(dst, k...)
	}
	return append(dst, "\r\n"...)
}

// parseItem parses the rest of a VALUE line: key, flags, size and perhaps the number of a compare-and-swap.
func (r *Reply) parseItem(rest, line []byte) error {
	r.Kind = ReplyItem
	_, rest = token(rest)
	_, rest = token(rest)
	size, _ := token(rest)
	v, ok := parseDecimal(size)
	if !ok || v > maxReplyValue {
		return errNotMemcached(line)
	}
	r.Size = int(v)
	return nil
}

// maxReplyValue bounds the length of a value that a reply may announce.
const maxReplyValue = 1<<31 - 1
