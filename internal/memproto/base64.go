package memproto

// base64Values has for each letter of the alphabet its value plus one, and for '=', the padding, 1. Others are 0.
var base64Values = func() (values [256]byte) {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	for i := range len(alphabet) {
		values[alphabet[i]] = byte(i) + 1
	}
	values['='] = 1
	return values
}()

// decodeBase64 decodes a key and returns its length, 0 for an error. It is as lenient as memcached, for a key that two servers decode
// differently is two keys: bytes outside the alphabet are passed over, the unused bits of the last letter may be anything, and
// nothing after the padding is looked at. dst must have room for three bytes for each four of src.
func decodeBase64(dst, src []byte) (n int) {
	letters := 0
	for _, b := range src {
		if base64Values[b] != 0 {
			letters++
		}
	}
	if letters == 0 || letters%4 != 0 {
		return 0
	}
	var block [4]byte
	have, padding := 0, 0
	for _, b := range src {
		v := base64Values[b]
		if v == 0 {
			continue
		}
		if b == '=' {
			padding++
		}
		block[have] = v - 1
		if have++; have < 4 {
			continue
		}
		have = 0
		dst[n] = block[0]<<2 | block[1]>>4
		dst[n+1] = block[1]<<4 | block[2]>>2
		dst[n+2] = block[2]<<6 | block[3]
		n += 3
		if padding > 2 {
			return 0
		}
		if padding > 0 {
			return n - padding
		}
	}
	return n
}
