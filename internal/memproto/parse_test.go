package memproto

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// transcript parses input, fed in the given pieces, and tells what came out, one line a command.
func transcript(pieces ...[]byte) (out []string) {
	p := Parser{MaxItem: 1 << 20}
	var buf, block []byte
	var c Command
	want := 0 // bytes of a block that is being gathered
	report := func(s Status) {
		switch s {
		case Ready:
			out = append(out, describe(&c))
		case Refused, Close:
			out = append(out, fmt.Sprintf("%v %q", map[Status]string{Refused: "refused", Close: "close"}[s], c.Error))
		}
	}
	for _, piece := range pieces {
		buf = append(buf, piece...)
		for {
			if want > 0 {
				n := min(want-len(block), len(buf))
				block = append(block, buf[:n]...)
				buf = buf[n:]
				if len(block) < want {
					break
				}
				want = 0
				report(c.SetBlock(block))
				continue
			}
			n, s := p.Parse(buf, &c)
			if s == Block {
				c.Hold(nil)
				want, block = c.Length+2, nil
			}
			if s == Ready && c.Value != nil {
				c.Value = bytes.Clone(c.Value)
			}
			report(s)
			buf = buf[n:]
			if s == Close {
				return out
			}
			if s == NeedMore {
				break
			}
		}
	}
	return out
}

func describe(c *Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v", c.Verb)
	switch c.Verb {
	case Get, Gets, Gat, Gats:
		if c.Exptime != 0 {
			fmt.Fprintf(&b, " exptime=%d", c.Exptime)
		}
		for key := range c.ItemKeys {
			fmt.Fprintf(&b, " %q", key)
		}
		return b.String()
	}
	fmt.Fprintf(&b, " key=%q args=%q flags=%d exptime=%d value=%.20q/%d cas=%d demand=%d", c.Key, bytes.TrimSpace(c.Args),
		c.ClientFlags, c.Exptime, c.Value, c.Length, c.CAS, c.Demand)
	if c.HasPriority {
		fmt.Fprintf(&b, " priority=%d", c.Priority)
	}
	if c.HasSent {
		fmt.Fprintf(&b, " sent=%d", c.Sent)
	}
	if c.Delta != 0 || c.Initial != 0 {
		fmt.Fprintf(&b, " delta=%d initial=%d", c.Delta, c.Initial)
	}
	if c.HasVivify || c.HasRecache {
		fmt.Fprintf(&b, " vivify=%d recache=%d", c.Vivify, c.Recache)
	}
	if c.Mode != 0 {
		fmt.Fprintf(&b, " mode=%c", c.Mode)
	}
	if c.NoReply {
		b.WriteString(" noreply")
	}
	for _, f := range []struct {
		name string
		on   bool
	}{{"quiet", c.Quiet}, {"toolarge", c.TooLarge}, {"binary", c.BinaryKey}, {"v", c.WantValue}, {"L", c.WantTimings},
		{"P", c.HasDemand}, {"C", c.HasCAS}, {"T", c.HasTTL}, {"u", c.NoUpdate}, {"N", c.HasVivify}, {"R", c.HasRecache}, {"I", c.Stale},
		{"longopaque", c.LongOpaque}} {
		if f.on {
			b.WriteString(" " + f.name)
		}
	}
	return b.String()
}

// TestParse has one line a case. The refusals are those of memcached 1.6.18; servers/memcached compares them with the real one.
func TestParse(t *testing.T) {
	t.Parallel()
	k250, k251 := strings.Repeat("k", 250), strings.Repeat("k", 251)
	format, unknown := `refused "CLIENT_ERROR bad command line format"`, `refused "ERROR"`
	for _, tc := range []struct {
		in   string
		want []string
	}{
		{"get a\r\n", []string{`get "a"`}},
		{"  get  a   b \n", []string{`get "a" "b"`}},
		{"gets a b\r\n", []string{`gets "a" "b"`}},
		{"get\r\n", []string{unknown}},
		{"get " + k250 + "\r\n", []string{`get "` + k250 + `"`}},
		{"get a " + k251 + "\r\n", []string{format}},
		{"\r\n", []string{unknown}},
		{"GET a\r\n", []string{unknown}},
		{"get a\x00b\r\n", []string{`get "a"`}},
		{"set a 5 0 3\r\nxyz\r\n", []string{`set key="a" args="" flags=5 exptime=0 value="xyz"/3 cas=0 demand=0`}},
		{"set a 5 -1 0 noreply\r\n\r\n", []string{`set key="a" args="" flags=5 exptime=-1 value=""/0 cas=0 demand=0 noreply`}},
		{"set a 4294967296 99999999999 1\nx\r\n", []string{`set key="a" args="" flags=0 exptime=1215752191 value="x"/1 cas=0 demand=0`}},
		{"set a 0 0\r\n", []string{unknown}},
		{"set a 0 0 x\r\nx\r\n", []string{format, unknown}},
		{"set a 0 0 x noreply\r\n", []string{`refused ""`}},
		{"set a 0 0 noreply\r\n", []string{`refused ""`}},
		{"set a -1 0 1\r\n", []string{format}},
		{"set a 0 0 -1\r\n", []string{format}},
		{"set a 0 0 2147483646\r\n", []string{format}},
		{"set " + k251 + " 0 0 1\r\nx\r\n", []string{format, unknown}},
		{"set a 0 0 1 noreply x\r\nz\r\n", []string{unknown, unknown}},
		{"set a 0 0 3\r\nxyzz\r\nget a\r\n", []string{`refused "CLIENT_ERROR bad data chunk"`, unknown, `get "a"`}},
		{"set a 0 0 1048576\r\n" + strings.Repeat("x", 1048576) + "\r\nget a\r\n",
			[]string{`set key="a" args="" flags=0 exptime=0 value=""/1048576 cas=0 demand=0 toolarge`, `get "a"`}},
		{"delete a\r\n", []string{`delete key="a" args="" flags=0 exptime=0 value=""/0 cas=0 demand=0`}},
		{"delete a 0 noreply\r\n", []string{`delete key="a" args="" flags=0 exptime=0 value=""/0 cas=0 demand=0 noreply`}},
		{"delete a 5\r\n", []string{`refused "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]"`}},
		{"delete a b c d\r\n", []string{unknown}},
		{"mg a v s O12 k q L P7 t\r\n",
			[]string{`mg key="a" args="v s O12 k q L P7 t" flags=0 exptime=0 value=""/0 cas=0 demand=7 quiet v L P`}},
		{"mg YWJj b\r\n", []string{`mg key="abc" args="b" flags=0 exptime=0 value=""/0 cas=0 demand=0 binary`}},
		{"mg a P L\r\n", []string{`mg key="a" args="P L" flags=0 exptime=0 value=""/0 cas=0 demand=0 L`}},
		{"mg a v v\r\n", []string{`refused "CLIENT_ERROR duplicate flag"`}},
		{"mg a Z\r\n", []string{`refused "CLIENT_ERROR invalid flag"`}},
		{"mg a Tx\r\n", []string{`refused "CLIENT_ERROR bad token in command line format"`}},
		{"md a O" + strings.Repeat("1", 32) + "\r\n", []string{`refused "CLIENT_ERROR opaque token too long"`}},
		{"mg a O" + strings.Repeat("1", 32) + "\r\n", // judged when it is answered
			[]string{`mg key="a" args="O11111111111111111111111111111111" flags=0 exptime=0 value=""/0 cas=0 demand=0 longopaque`}},
		{"ms a 2 F9 T-1 C5 E\r\nzz\r\nget a\r\n", []string{`refused "CLIENT_ERROR invalid flag"`, `get "a"`}},
		{"ms a 2 F9 T-1 C5 q I ME\r\nzz\r\n", []string{`ms key="a" args="F9 T-1 C5 q I ME" flags=9 exptime=-1 value="zz"/2 cas=5 demand=0 mode=E quiet C T I`}},
		{"mg a N30 R5\r\nmg a Nx\r\n", []string{`mg key="a" args="N30 R5" flags=0 exptime=0 value=""/0 cas=0 demand=0 vivify=30 recache=5 N R`,
			`refused "CLIENT_ERROR bad token in command line format"`}},
		{"ma a\r\nma a MD D5 J7 N0 v\r\n", []string{`ma key="a" args="" flags=0 exptime=0 value=""/0 cas=0 demand=0 delta=1 initial=0 mode=+`,
			`ma key="a" args="MD D5 J7 N0 v" flags=0 exptime=0 value=""/0 cas=0 demand=0 delta=5 initial=7 vivify=0 recache=0 mode=- v N`}},
		{"ma a MX\r\nma a D\r\nma\r\n", []string{`refused "CLIENT_ERROR invalid mode for ma M token"`, `refused "CLIENT_ERROR invalid or duplicate flag"`, unknown}},
		{"me\r\nme YQ== b\r\nme ! b\r\n", []string{format, `me key="a" args="" flags=0 exptime=0 value=""/0 cas=0 demand=0 binary`, format}},
		{"gat 5 a b\r\ngats 0 a\r\ngat 5\r\ngat x a\r\ngat\r\n", []string{`gat exptime=5 "a" "b"`, `gats "a"`, `gat exptime=5`,
			`refused "CLIENT_ERROR invalid exptime argument"`, unknown}},
		{"cas a 1 2 1 99 noreply\r\nx\r\ncas a 1 2 1\r\n", []string{`cas key="a" args="" flags=1 exptime=2 value="x"/1 cas=99 demand=0 noreply C`, unknown}},
		{"cas a 1 2 1 noreply\r\ncas a 1 2 1 x\r\n", []string{`refused ""`, format}},
		{"prepend a 0 0 1\r\nx\r\nreplace a 0 0\r\n", []string{`prepend key="a" args="" flags=0 exptime=0 value="x"/1 cas=0 demand=0`, unknown}},
		{"incr a 5\r\ndecr a 5 noreply\r\nincr a x\r\nincr a\r\n", []string{`incr key="a" args="" flags=0 exptime=0 value=""/0 cas=0 demand=0 delta=5 initial=0`,
			`decr key="a" args="" flags=0 exptime=0 value=""/0 cas=0 demand=0 delta=5 initial=0 noreply`, `refused "CLIENT_ERROR invalid numeric delta argument"`, unknown}},
		{"touch a 5\r\ntouch a x\r\ntouch a\r\n", []string{`touch key="a" args="" flags=0 exptime=5 value=""/0 cas=0 demand=0`,
			`refused "CLIENT_ERROR invalid exptime argument"`, unknown}},
		{"flush_all\r\nflush_all 5 noreply\r\nflush_all x\r\nflush_all 1 2 3\r\n", []string{`flush_all key="" args="" flags=0 exptime=0 value=""/0 cas=0 demand=0`,
			`flush_all key="" args="" flags=0 exptime=5 value=""/0 cas=0 demand=0 noreply T`, `refused "CLIENT_ERROR invalid exptime argument"`, unknown}},
		{"verbosity 1\r\nwatch\r\n", []string{`verbosity key="" args="1" flags=0 exptime=0 value=""/0 cas=0 demand=0`,
			`watch key="" args="" flags=0 exptime=0 value=""/0 cas=0 demand=0`}},
		{"ms a\r\n", []string{format}},
		{"ms a x\r\n", []string{format}},
		{"ms a 2 MX\r\nzz\r\nget a\r\n", []string{`refused "CLIENT_ERROR invalid mode for ms M token"`, `get "a"`}},
		{"md a k k\r\n", []string{`refused "CLIENT_ERROR invalid or duplicate flag"`}},
		{"mg a P7.300\r\nmg a P.128\r\nmg a P0.65535\r\n", []string{`mg key="a" args="P7.300" flags=0 exptime=0 value=""/0 cas=0 demand=7 priority=300 P`,
			`mg key="a" args="P.128" flags=0 exptime=0 value=""/0 cas=0 demand=0 priority=128`,
			`mg key="a" args="P0.65535" flags=0 exptime=0 value=""/0 cas=0 demand=0 priority=65535 P`}},
		{"mg a P7.\r\nmg a P.\r\nmg a P7.x\r\nmg a P7.65536\r\nmg a Px.7\r\nmg a P-7\r\nmg a P1.2.3\r\n", []string{ // tokens of somebody else
			`mg key="a" args="P7." flags=0 exptime=0 value=""/0 cas=0 demand=0`, `mg key="a" args="P." flags=0 exptime=0 value=""/0 cas=0 demand=0`,
			`mg key="a" args="P7.x" flags=0 exptime=0 value=""/0 cas=0 demand=0`, `mg key="a" args="P7.65536" flags=0 exptime=0 value=""/0 cas=0 demand=0`,
			`mg key="a" args="Px.7" flags=0 exptime=0 value=""/0 cas=0 demand=0`, `mg key="a" args="P-7" flags=0 exptime=0 value=""/0 cas=0 demand=0`,
			`mg key="a" args="P1.2.3" flags=0 exptime=0 value=""/0 cas=0 demand=0`}},
		{"ms a 2 P3.4 T5\r\nzz\r\nmd a P1\r\nma a P2.9\r\n", []string{`ms key="a" args="P3.4 T5" flags=0 exptime=5 value="zz"/2 cas=0 demand=3 priority=4 mode=S P T`,
			`md key="a" args="P1" flags=0 exptime=0 value=""/0 cas=0 demand=1 P`,
			`ma key="a" args="P2.9" flags=0 exptime=0 value=""/0 cas=0 demand=2 priority=9 delta=1 initial=0 mode=+ P`}},
		{"mn P4\r\nmn P4.5 L100\r\nmn L\r\nmn k P P9 v  \r\n", []string{`mn key="" args="P4" flags=0 exptime=0 value=""/0 cas=0 demand=4 P`,
			`mn key="" args="P4.5 L100" flags=0 exptime=0 value=""/0 cas=0 demand=4 priority=5 sent=100 L P`,
			`mn key="" args="L" flags=0 exptime=0 value=""/0 cas=0 demand=0 L`,
			`mn key="" args="k P P9 v" flags=0 exptime=0 value=""/0 cas=0 demand=9 P`}},
		{"mn x\r\nmx\r\n", []string{`mn key="" args="x" flags=0 exptime=0 value=""/0 cas=0 demand=0`, unknown}},
		{"stats  items \r\n", []string{`stats key="" args="items" flags=0 exptime=0 value=""/0 cas=0 demand=0`}},
		{"foo HTTP/1.1\r\nget a\r\n", []string{`close ""`}},
		{"gfoo HTTP/1.1\r\nget a\r\n", []string{unknown, `get "a"`}},
		{"\x80\x00", []string{`close "` + BinaryText + `"`}},
		{"get a\r\n\x80\r\n", []string{`get "a"`, unknown}},
		{strings.Repeat("x", MaxLine), nil},
		{strings.Repeat("x", MaxLine+1), []string{`close ""`}},
		{" get " + strings.Repeat("k ", MaxLine), nil},
		{"get " + strings.Repeat("k ", MaxGet/2), []string{`close ""`}},
		{"mg " + strings.Repeat("x", MaxLine), []string{`close ""`}},
	} {
		if diff := cmp.Diff(tc.want, transcript([]byte(tc.in))); diff != "" {
			t.Errorf("%.60q: (-want +got)\n%s", tc.in, diff)
		}
	}
}

// TestNumbers follows strtol and strtoul of C.
func TestNumbers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		in     string
		signed int32
		ok     bool
		wide   uint64
		okWide bool
	}{
		{"0", 0, true, 0, true},
		{"+1", 1, true, 1, true},
		{"-1", -1, true, 0, false},
		{"\t12\tx", 12, true, 12, true},
		{"12x", 0, false, 0, false},
		{"", 0, false, 0, false},
		{"-", 0, false, 0, false},
		{"--1", 0, false, 0, false},
		{"4294967297", 1, true, 4294967297, true},
		{"9223372036854775807", -1, true, 9223372036854775807, true},
		{"9223372036854775808", 0, false, 9223372036854775808, true},
		{"-9223372036854775808", 0, true, 0, false},
		{"-9223372036854775809", 0, false, 9223372036854775807, true},
		{"18446744073709551615", 0, false, 18446744073709551615, true},
		{"18446744073709551616", 0, false, 0, false},
		{"-18446744073709551615", 0, false, 1, true},
	} {
		if v, ok := ParseInt([]byte(tc.in)); v != tc.signed || ok != tc.ok {
			t.Errorf("ParseInt(%q) = %d, %v, want %d, %v", tc.in, v, ok, tc.signed, tc.ok)
		}
		if v, ok := ParseUint64([]byte(tc.in)); v != tc.wide || ok != tc.okWide {
			t.Errorf("ParseUint64(%q) = %d, %v, want %d, %v", tc.in, v, ok, tc.wide, tc.okWide)
		}
	}
}

func TestBase64(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"YWJj": "abc", "YQ==": "a", "YWI=": "ab", "YR==": "a", "Y:W!Jj": "abc", "YQ==YQ==": "a", "+/+/": "\xfb\xff\xbf",
		"": "", "YWJ": "", "!!!": "", "====": "", "Y===": "", "YWJjZA===": "",
	} {
		dst := make([]byte, MaxKey)
		if got := dst[:decodeBase64(dst, []byte(in))]; string(got) != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// TestSplitAnywhere: however the bytes come in, the same commands come out.
func TestSplitAnywhere(t *testing.T) {
	t.Parallel()
	lines := rapid.SampledFrom([]string{
		"get a\r\n", "gets a b c\r\n", "set a 0 0 5\r\nhello\r\n", "set a 0 0 5 noreply\r\nhel\r\n\r\n", "set a 0 0 1\r\nxy\r\n", "set b 0 0 x\r\n",
		"ms a 3 T1 F2\r\n\r\n\r\r\n", "ms a 3 Z\r\nxyz\r\n", "ms big 1048577\r\n", "mg a v s O1 L P3\r\n", "md a q\r\n", "mn\r\n", "mn P4\r\n", "mn P4.5 L7,8\r\n", "mg a P1.2\r\n", "md b P.9\r\n", "\r\n", "\n", "stats x\r\n",
		"bogus\r\n", "cas a 1 2 3 4\r\nabc\r\n", "append b 0 0 2 noreply\r\nxy\r\n", "ma c N0 J5 D2\r\n", "incr a 1\r\n", "gat 1 a b\r\n", "flush_all 3\r\n", "mg YWJj b k\r\n", "get \x00\r\n", "delete a 0\r\n", "quit\r\n", "x HTTP/1.1\r\n", "\x80\r\n", "no end",
	})
	rapid.Check(t, func(t *rapid.T) {
		in := []byte(strings.Join(rapid.SliceOfN(lines, 1, 12).Draw(t, "lines"), ""))
		var pieces [][]byte
		for rest := in; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			pieces = append(pieces, rest[:n])
			rest = rest[n:]
		}
		if diff := cmp.Diff(transcript(in), transcript(pieces...)); diff != "" {
			t.Fatalf("%q in pieces (-whole +pieces)\n%s", in, diff)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"get a\r\nset a 0 0 1\r\nx\r\n", "ms a 2 T1 C2 F3 b\r\nzz\r\n", "mg YWJj b k O1 L P9\r\n", "\x80", "get a\x00\r\n",
		"set a 0 0 99999\r\n", "mn P4.300 L12,3\r\nmn P\r\n", "ms a 1 P7.65536 O1\r\nx\r\nmd a P.7\r\nma b P7.\r\n"} {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, in []byte, at int) {
		whole := transcript(in)
		if len(in) == 0 || len(in) > MaxLine { // a long line is judged by what has come of it
			return
		}
		at = ((at % len(in)) + len(in)) % len(in)
		if diff := cmp.Diff(whole, transcript(in[:at], in[at:])); diff != "" {
			t.Errorf("split at %d (-whole +pieces)\n%s", at, diff)
		}
	})
}

func TestHoldOutlivesTheBuffer(t *testing.T) {
	t.Parallel()
	buf := []byte("mg YWJj b k O12\r\n")
	var p Parser
	var c Command
	if _, s := p.Parse(buf, &c); s != Ready {
		t.Fatal(s)
	}
	c.Hold(nil)
	clear(buf)
	clear(p.key[:])
	if string(c.Key) != "abc" || string(bytes.TrimSpace(c.Args)) != "b k O12" {
		t.Errorf("key %q args %q", c.Key, c.Args)
	}
}

func TestParseAllocatesNothing(t *testing.T) {
	in := []byte("get a b\r\nset a 1 2 3 noreply\r\nxyz\r\nmg YWJj b k O12 s v L P5\r\nms abc 3 T5 O2 F7\r\nxyz\r\nmd a q\r\nmn\r\nbogus\r\nmg a Z\r\n")
	var p Parser
	var c Command
	mem := make([]byte, 0, 128)
	if n := testing.AllocsPerRun(100, func() {
		commands := 0
		for buf := in; len(buf) > 0; commands++ {
			n, s := p.Parse(buf, &c)
			if s == NeedMore {
				t.Fatal(n, s)
			}
			mem = c.Hold(mem)
			buf = buf[n:]
		}
		if commands != 8 {
			t.Fatal(commands)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
