package memproto

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestAppendThenParse: what the client renders, the server's parser reads back.
func TestAppendThenParse(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SliceOfN(rapid.ByteRange('!', '~'), 1, MaxKey).Draw(t, "key")
		value := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "value")
		exptime := rapid.Int32().Draw(t, "exptime")
		opaque := rapid.Uint64().Draw(t, "opaque")
		asked := rapid.SampledFrom([]Asks{{}, {Timings: true}, {Timed: true}, {Timed: true, Sent: 1, Patience: 5},
			{Timed: true, Sent: 1e18 - 1, Patience: 1e18 - 1}}).Draw(t, "timings")
		timings := asked != Asks{}
		if asked.HasDemand = rapid.Bool().Draw(t, "has a demand"); asked.HasDemand {
			asked.Demand = rapid.Uint32Max(1<<31).Draw(t, "demand")
		}
		if asked.HasPriority = rapid.Bool().Draw(t, "has a priority"); asked.HasPriority {
			asked.Priority = rapid.Uint16().Draw(t, "priority")
		}
		verb := rapid.SampledFrom([]Verb{MetaGet, MetaSet, MetaDelete}).Draw(t, "verb")
		var text []byte
		switch verb {
		case MetaGet:
			text = AppendMetaGet(nil, key, opaque, asked)
		case MetaSet:
			text = AppendMetaSet(nil, key, value, int64(exptime), opaque, asked)
		case MetaDelete:
			text = AppendMetaDelete(nil, key, opaque, asked)
		}
		var p Parser
		var c Command
		n, s := p.Parse(text, &c)
		if s != Ready || n != len(text) || c.Verb != verb || !bytes.Equal(c.Key, key) || c.WantTimings != timings ||
			c.HasSent != asked.Timed || c.Sent != asked.Sent || c.Patience != asked.Patience ||
			c.HasDemand != asked.HasDemand || c.Demand != asked.Demand || c.HasPriority != asked.HasPriority || c.Priority != asked.Priority {
			t.Fatalf("%q: status %v, %d bytes, %+v", text, s, n, c)
		}
		if verb == MetaSet && (!bytes.Equal(c.Value, value) || c.Exptime != exptime || c.HasTTL != (exptime != 0)) {
			t.Fatalf("%q: %+v", text, c)
		}
		// And the server's reply is what the client's parser reads back, however it is cut.
		var w Writer
		x := Extras{Queued: time.Duration(rapid.Uint32().Draw(t, "queued")) * time.Microsecond, Service: 5 * time.Microsecond, Credits: rapid.Int32Min(-1).Draw(t, "credits")}
		if x.Leaves = rapid.Int64Range(0, 1e18-1).Draw(t, "leaves"); x.Leaves > 0 {
			x.Queued, x.Service = x.Queued/1000, x.Service+7 // to the nanosecond, on the model ground
		}
		want := Reply{Kind: ReplyOK, Opaque: opaque, HasOpaque: true, Size: -1}
		if verb == MetaGet {
			w.Hit(&c, Item{Key: key, Value: value})
			want.Kind, want.Size = ReplyValue, len(value)
		} else {
			w.Result(Done, 0)
		}
		w.End(&c, x)
		r := readCut(t, flat(&w), rapid.IntRange(0, w.Size()).Draw(t, "cut"))
		queued, service, leaves, credits := time.Duration(-1), time.Duration(-1), int64(0), int32(-1)
		if asked.HasDemand { // nobody is told of credits who has not asked
			credits = x.Credits
		}
		if timings {
			queued, service = x.Queued, x.Service
		}
		if timings && x.Leaves > 0 {
			leaves = x.Leaves
		}
		if r.Kind != want.Kind || r.Opaque != opaque || !r.HasOpaque || r.Size != want.Size || r.Queued != queued || r.Service != service || r.Leaves != leaves ||
			r.Credits != credits || verb == MetaGet && !bytes.Equal(r.Value, value) {
			t.Fatalf("%q: %+v", flat(&w), r)
		}
	})
}

// readCut parses one reply that comes in two pieces.
func readCut(t interface{ Fatalf(string, ...any) }, text string, cut int) Reply {
	p := ReplyParser{Keep: true}
	buf := []byte(text[:cut])
	for _, more := range []string{"", text[cut:]} {
		buf = append(buf, more...)
		r, n, ok, err := p.Next(buf)
		if err != nil {
			t.Fatalf("%q cut at %d: %v", text, cut, err)
		}
		buf = buf[n:]
		if ok {
			if len(buf) != 0 && more != "" {
				t.Fatalf("%q: %d bytes left over", text, len(buf))
			}
			return r
		}
	}
	t.Fatalf("%q cut at %d: no reply", text, cut)
	return Reply{}
}

func TestReplyKinds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Reply{
		"EN\r\n":                  {Kind: ReplyMiss, Size: -1, Credits: -1, Queued: -1, Service: -1},
		"NF O1f\r\n":              {Kind: ReplyNotFound, Opaque: 31, HasOpaque: true, Size: -1, Credits: -1, Queued: -1, Service: -1},
		"NS\r\n":                  {Kind: ReplyNotStored, Size: -1, Credits: -1, Queued: -1, Service: -1},
		"EX\r\n":                  {Kind: ReplyExists, Size: -1, Credits: -1, Queued: -1, Service: -1},
		"MN\r\n":                  {Kind: ReplyNoop, Size: -1, Credits: -1, Queued: -1, Service: -1},
		"HD s7 L1,2 P3 W\r\n":     {Kind: ReplyOK, Size: 7, Credits: 3, Queued: time.Microsecond, Service: 2 * time.Microsecond},
		"ERROR\r\n":               {Kind: ReplyError, Size: -1, Credits: -1, Queued: -1, Service: -1},
		"CLIENT_ERROR bad\r\n":    {Kind: ReplyClientError, Size: -1, Credits: -1, Queued: -1, Service: -1},
		"SERVER_ERROR no mem\r\n": {Kind: ReplyServerError, Size: -1, Credits: -1, Queued: -1, Service: -1},
		"VERSION 1.6.18\n":        {Kind: ReplyOther, Size: -1, Credits: -1, Queued: -1, Service: -1},
		"SERVER_ERROR overloaded queue_full P4 L9,0\r\n": {Kind: ReplyOverloaded, Size: -1, Credits: 4, Queued: 9 * time.Microsecond,
			Reason: []byte("queue_full")},
	} {
		var p ReplyParser
		r, n, ok, err := p.Next([]byte(text))
		if err != nil || !ok || n != len(text) || string(r.Text)+"\r\n" != text && string(r.Text)+"\n" != text {
			t.Errorf("%q: %d %v %v, text %q", text, n, ok, err, r.Text)
		}
		reason := r.Reason
		r.Text, r.Reason = nil, nil
		if string(reason) != string(want.Reason) {
			t.Errorf("%q: reason %q", text, reason)
		}
		want.Reason = nil
		if fmt.Sprint(r) != fmt.Sprint(want) {
			t.Errorf("%q: got %+v, want %+v", text, r, want)
		}
	}
}

func TestWrongServers(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"HTTP/1.1 400 Bad Request\r\n", "-ERR unknown command\r\n", "-ERR", "\x15\x03\x01", "SSH-2.0-OpenSSH\r\n", "VA x\r\n",
		"VA -1\r\n", "VA 3 s3\r\nabcde", "HD Oxyz\r\n", "A" + string(bytes.Repeat([]byte("B"), maxReplyLine))} {
		var p ReplyParser
		if _, _, ok, err := p.Next([]byte(text)); err == nil || ok {
			t.Errorf("%.40q was taken for a reply (%v)", text, err)
		}
	}
	p := ReplyParser{} // the same mistake, seen when the end of the value comes alone
	if _, _, _, err := p.Next([]byte("VA 3\r\nabc")); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := p.Next([]byte("de")); err == nil {
		t.Error("a value without a line end was accepted")
	}
}

func FuzzReply(f *testing.F) {
	for _, s := range []string{"VA 3 s3 O1 L1,2\r\nabc\r\n", "HD\r\n", "SERVER_ERROR overloaded codel P1 L2,3\r\n", "EN k"} {
		f.Add([]byte(s), 5)
	}
	f.Fuzz(func(t *testing.T, in []byte, at int) {
		read := func(pieces ...[]byte) (out []string) {
			p := ReplyParser{Keep: true}
			var buf []byte
			for _, piece := range pieces {
				buf = append(buf, piece...)
				for {
					r, n, ok, err := p.Next(buf)
					if err != nil {
						return append(out, "error")
					}
					buf = buf[n:]
					if !ok {
						break
					}
					r.Text = nil // not kept when a value comes in pieces
					out = append(out, fmt.Sprintf("%+v", r))
				}
			}
			return out
		}
		if len(in) == 0 || len(in) > maxReplyLine {
			return
		}
		at = ((at % len(in)) + len(in)) % len(in)
		whole, cut := read(in), read(in[:at], in[at:])
		if fmt.Sprint(whole) != fmt.Sprint(cut) {
			t.Errorf("split at %d: %q and %q", at, whole, cut)
		}
	})
}

func TestClientAllocatesNothing(t *testing.T) {
	buf := make([]byte, 0, 1024)
	replies := []byte("VA 3 s3 O1 L1,2\r\nabc\r\nHD O2\r\nSERVER_ERROR overloaded codel P1 L2,3\r\nVA 100000 s100000\r\nabc")
	key, value := []byte("key"), []byte("value")
	var p ReplyParser
	if n := testing.AllocsPerRun(100, func() {
		buf = AppendMetaGet(buf[:0], key, 1<<60, Asks{Timings: true, HasDemand: true, Demand: 3, HasPriority: true, Priority: 300})
		buf = AppendMetaSet(buf, key, value, 60, 2, Asks{Timed: true, Sent: 1e15})
		buf = AppendMetaDelete(buf, key, 3, Asks{})
		buf = AppendMetaNoop(buf, Asks{HasDemand: true, Demand: 5})
		p = ReplyParser{}
		for in := replies; len(in) > 0; {
			_, n, _, err := p.Next(in)
			if err != nil {
				t.Fatal(err)
			}
			in = in[n:]
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
