package memproto

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// parse returns the one command of a text.
func parse(t testing.TB, text string) Command {
	t.Helper()
	var p Parser
	var c Command
	if n, s := p.Parse([]byte(text), &c); s != Ready || n != len(text) {
		t.Fatalf("%q: status %v, error %q, %d of %d bytes", text, s, c.Error, n, len(text))
	}
	c.Hold(nil)
	return c
}

// flat returns what a Writer holds as it goes over the wire.
func flat(w *Writer) string {
	var b strings.Builder
	at := 0
	for _, ref := range w.Refs {
		b.Write(w.Buf[at:ref.At])
		b.Write(ref.Data)
		at = ref.At
	}
	b.Write(w.Buf[at:])
	return b.String()
}

func TestReplies(t *testing.T) {
	t.Parallel()
	item := Item{Key: []byte("a"), Value: []byte("xyz"), Flags: 5, CAS: 19, TTL: -1, Idle: 2}
	binary := item
	binary.BinaryKey, binary.Fetched, binary.TTL = true, true, 7
	hit := func(it Item) func(*Writer, *Command) { return func(w *Writer, c *Command) { w.Hit(c, it) } }
	result := func(r Result) func(*Writer, *Command) { return func(w *Writer, _ *Command) { w.Result(r, 33) } }
	miss := func(*Writer, *Command) {}
	for _, tc := range []struct {
		command string
		do      func(*Writer, *Command)
		want    string
	}{
		{"get a\r\n", hit(item), "VALUE a 5 3\r\nxyz\r\nEND\r\n"},
		{"gets a\r\n", hit(item), "VALUE a 5 3 19\r\nxyz\r\nEND\r\n"},
		{"get a\r\n", miss, "END\r\n"},
		{"mg a\r\n", hit(item), "HD\r\n"},
		{"mg a q v s f c t k O123 h l\r\n", hit(item), "VA 3 s3 f5 c19 t-1 ka O123 h0 l2\r\nxyz\r\n"},
		{"mg YQ== b k h t\r\n", hit(binary), "HD kYQ== b h1 t7\r\n"},
		{"mg a k\r\n", hit(binary), "HD kYQ== b\r\n"},
		{"mg a v L P O1\r\n", hit(item), "VA 3 L1500,20 O1\r\nxyz\r\n"},
		{"mg a P3 L\r\n", hit(item), "HD P9 L1500,20\r\n"},
		{"mg a k O12 L\r\n", miss, "EN ka O12 L1500,20\r\n"},
		{"mg YQ== b k\r\n", miss, "EN kYQ== b\r\n"},
		{"mg a q\r\n", miss, ""},
		{"set a 0 0 1\r\nx\r\n", result(Stored), "STORED\r\n"},
		{"set a 0 0 1 noreply\r\nx\r\n", result(Stored), ""},
		{"delete a\r\n", result(NotFound), "NOT_FOUND\r\n"},
		{"delete a\r\n", result(Done), "DELETED\r\n"},
		{"ms a 1 c O5 k s f\r\nx\r\n", result(Stored), "HD c33 O5 ka\r\n"},
		{"ms a 1 q\r\nx\r\n", result(Stored), ""},
		{"ms a 1 q C1\r\nx\r\n", result(Exists), "EX\r\n"},
		{"md a q\r\n", result(Done), ""},
		{"md a q O1\r\n", result(NotFound), "NF O1\r\n"},
	} {
		c := parse(t, tc.command)
		var w Writer
		tc.do(&w, &c)
		w.End(&c, Extras{Queued: 1500 * time.Microsecond, Service: 20 * time.Microsecond, Credits: 9})
		if got := flat(&w); got != tc.want {
			t.Errorf("%q: got %q, want %q", tc.command, got, tc.want)
		}
	}
}

func TestHeaderOnly(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"get a\r\n":       "VALUE a 0 0\r\n\r\nEND\r\n",
		"mg a s v O1\r\n": "HD s3 O1\r\n",
	} {
		c := parse(t, command)
		w := Writer{HeaderOnly: true}
		w.Hit(&c, Item{Key: []byte("a"), Value: []byte("xyz")})
		w.End(&c, Extras{})
		if got := flat(&w); got != want {
			t.Errorf("%q: got %q, want %q", command, got, want)
		}
	}
}

func TestOverloaded(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"get a\r\n":                    "SERVER_ERROR overloaded codel\r\n",
		"mg a v q O1\r\n":              "SERVER_ERROR overloaded codel\r\n",
		"mg a L P4\r\n":                "SERVER_ERROR overloaded codel P7 L3,0\r\n",
		"set a 0 0 1 noreply\r\nx\r\n": "",
	} {
		c := parse(t, command)
		var w Writer
		w.Overloaded(&c, "codel", Extras{Queued: 3 * time.Microsecond, Credits: 7})
		if got := flat(&w); got != want {
			t.Errorf("%q: got %q, want %q", command, got, want)
		}
	}
}

func TestLargeValuesAreNotCopied(t *testing.T) {
	t.Parallel()
	c := parse(t, "get a b c\r\n")
	big := bytes.Repeat([]byte("v"), CopyBytes)
	var first, w Writer
	first.Line("BEFORE")
	for key := range c.ItemKeys {
		w.Hit(&c, Item{Key: key, Value: big})
	}
	w.End(&c, Extras{})
	first.Append(&w)
	if len(first.Refs) != 3 || len(first.Buf) > 200 {
		t.Fatalf("%d references, %d bytes copied", len(first.Refs), len(first.Buf))
	}
	block := func(key string) string { return "VALUE " + key + " 0 4096\r\n" + string(big) + "\r\n" }
	if got, want := flat(&first), "BEFORE\r\n"+block("a")+block("b")+block("c")+"END\r\n"; got != want {
		t.Errorf("got %.80q...", got)
	}
	if first.Size() != len(flat(&first)) {
		t.Errorf("size %d, have %d bytes", first.Size(), len(flat(&first)))
	}
}

func TestWriterAllocatesNothing(t *testing.T) {
	item := Item{Key: []byte("a"), Value: []byte("xyz"), BinaryKey: true}
	get, set, shed := parse(t, "mg YQ== b k s v f c t h l O12 L P5\r\n"), parse(t, "set a 0 0 1\r\nx\r\n"), parse(t, "mg a L\r\n")
	w := Writer{Buf: make([]byte, 0, 512)}
	if n := testing.AllocsPerRun(100, func() {
		w.Reset()
		w.Hit(&get, item)
		w.End(&get, Extras{Queued: time.Second, Service: time.Second, Credits: 5})
		w.Result(Stored, 1)
		w.End(&set, Extras{})
		w.Overloaded(&shed, "codel", Extras{})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestNoopAnswersQuestions: mn says of credits what it was asked for, and an instant only to who said one.
func TestNoopAnswersQuestions(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		in   string
		x    Extras
		want string
	}{
		{"mn\r\n", Extras{Credits: 3}, "MN\r\n"},
		{"mn P4\r\n", Extras{Credits: 3}, "MN P3\r\n"},
		{"mn P4\r\n", Extras{Credits: 0}, "MN P0\r\n"},
		{"mn P4\r\n", Extras{Credits: -1}, "MN\r\n"}, // by a server that hands out none
		{"mn P4.7 L\r\n", Extras{Credits: 3}, "MN P3\r\n"},
		{"mn P4 L5\r\n", Extras{Credits: 3, Leaves: 99}, "MN P3 L0.000,0.000,99\r\n"},
	} {
		c := parse(t, tc.in)
		var w Writer
		w.End(&c, tc.x)
		if got := flat(&w); got != tc.want {
			t.Errorf("%q: got %q, want %q", tc.in, got, tc.want)
		}
		var p ReplyParser
		r, _, ok, err := p.Next([]byte(tc.want))
		if err != nil || !ok || r.Kind != ReplyNoop || r.Leaves != tc.x.Leaves {
			t.Errorf("%q: %+v, %v, %v", tc.want, r, ok, err)
		}
	}
}

// TestWriterIsUsedAgainAfterAppend: a reply whose value lies elsewhere is moved, and the Writer that it was rendered with renders the next one.
func TestWriterIsUsedAgainAfterAppend(t *testing.T) {
	t.Parallel()
	var all, one Writer
	want := ""
	for i := range 3 {
		for _, text := range []string{"mg k v s O1\r\n", "get k\r\n"} {
			c := parse(t, text)
			value := bytes.Repeat([]byte{'a' + byte(i)}, CopyBytes)
			one.Hit(&c, Item{Key: c.Key, Size: 2 * len(value)})
			one.Piece(&c, value, true)
			one.Piece(&c, value, true)
			one.EndHit(&c)
			one.End(&c, Extras{Credits: -1})
			all.Append(&one)
			both := string(value) + string(value)
			if c.Verb == MetaGet {
				want += "VA 8192 s8192 O1\r\n" + both + "\r\n"
			} else {
				want += "VALUE k 0 8192\r\n" + both + "\r\nEND\r\n"
			}
		}
	}
	if got := flat(&all); got != want {
		t.Errorf("%d bytes, want %d; the first is %.20q", len(got), len(want), got)
	}
}
