package memproto

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func TestAppendGetIsOneCommand(t *testing.T) {
	t.Parallel()
	text := AppendGet(nil, []byte("a"), [][]byte{[]byte("bb"), []byte("c")})
	if string(text) != "get a bb c\r\n" {
		t.Errorf("%q", text)
	}
	var p Parser
	var c Command
	n, s := p.Parse(text, &c)
	var keys []string
	for key := range c.ItemKeys {
		keys = append(keys, string(key))
	}
	if s != Ready || n != len(text) || c.Verb != Get || fmt.Sprint(keys) != "[a bb c]" {
		t.Errorf("parsed as %v of %v", c.Verb, keys)
	}
}

// TestItemsInPieces: hits of a classic get come in pieces of any size, as all replies do.
func TestItemsInPieces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var stream []byte
		var want []string
		for i := range rapid.IntRange(0, 5).Draw(t, "hits") {
			value := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "value")
			cas := rapid.SampledFrom([]string{"", " 12345"}).Draw(t, "cas")
			stream = fmt.Appendf(stream, "VALUE key%d 0 %d%s\r\n%s\r\n", i, len(value), cas, value)
			want = append(want, fmt.Sprintf("VALUE %d", len(value)))
		}
		stream = append(stream, "END\r\n"...)
		want = append(want, "other -1")
		var p ReplyParser
		var got []string
		var buf []byte
		for len(stream) > 0 {
			n := rapid.IntRange(1, len(stream)).Draw(t, "piece")
			buf = append(buf, stream[:n]...)
			stream = stream[n:]
			for {
				r, used, ok, err := p.Next(buf)
				if err != nil {
					t.Fatal(err)
				}
				buf = buf[used:]
				if ok {
					got = append(got, fmt.Sprintf("%v %d", r.Kind, r.Size))
				} else if used == 0 {
					break
				}
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%v, want %v", got, want)
		}
	})
	for _, bad := range []string{"VALUE k 0\r\n", "VALUE k 0 x\r\n", "VALUE k 0 99999999999\r\n"} {
		var p ReplyParser
		if _, _, _, err := p.Next([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	if !bytes.HasSuffix(AppendGet([]byte("x"), []byte("k"), nil), []byte("get k\r\n")) {
		t.Error("a get of one key")
	}
}
