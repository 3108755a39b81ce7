package memproto

import (
	"testing"
	"time"
)

// TestModelGround: a request that says when it was sent gets times to the nanosecond, the instant at which its reply leaves, and its
// opaque even when it is refused.
func TestModelGround(t *testing.T) {
	t.Parallel()
	x := Extras{Queued: 1500*time.Microsecond + 7, Service: 20*time.Microsecond + 340, Credits: 9, Leaves: 123456789}
	c := parse(t, "mg a L100 O5 k\r\n")
	if !c.HasSent || c.Sent != 100 || !c.WantTimings {
		t.Fatalf("%+v", c)
	}
	for text, want := range map[string]bool{"mg a L7,9\r\n": true, "mg a L7,\r\n": false, "mg a L,9\r\n": false, "mg a L7,x\r\n": false, "mg a L-7\r\n": false} {
		if c := parse(t, text); c.HasSent != want || !c.WantTimings || want && (c.Sent != 7 || c.Patience != 9) {
			t.Errorf("%q: %+v", text, c)
		}
	}
	var w Writer
	w.End(&c, x)
	if got, want := flat(&w), "EN L1500.007,20.340,123456789 O5 ka\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	w.Reset()
	w.Overloaded(&c, "codel", x)
	const shed = "SERVER_ERROR overloaded codel L1500.007,20.340,123456789 O5\r\n"
	if got := flat(&w); got != shed {
		t.Errorf("got %q, want %q", got, shed)
	}
	var p ReplyParser
	r, _, ok, err := p.Next([]byte(shed))
	if err != nil || !ok || r.Queued != x.Queued || r.Service != x.Service || r.Leaves != 123456789 || !r.HasOpaque || r.Opaque != 5 {
		t.Errorf("%+v, %v, %v", r, ok, err)
	}
}

func TestTimingsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Reply{
		"HD L1.5,2.25\r\n":              {Queued: 1500, Service: 2250},
		"HD L1,2,x\r\n":                 {Queued: 1000, Service: 2000},
		"HD L1,2,3,4\r\n":               {Queued: 1000, Service: 2000},
		"HD L1.2345,2\r\n":              {Queued: -1, Service: -1},
		"HD L1.,2\r\n":                  {Queued: -1, Service: -1},
		"HD L1\r\n":                     {Queued: -1, Service: -1},
		"HD L1.x,2\r\n":                 {Queued: -1, Service: -1},
		"HD L1,2,5\r\n":                 {Queued: 1000, Service: 2000, Leaves: 5},
		"HD L-1,2\r\n":                  {Queued: -1, Service: -1},
		"HD L9999999999999999999,2\r\n": {Queued: -1, Service: -1},
	} {
		var p ReplyParser
		r, _, ok, err := p.Next([]byte(text))
		if err != nil || !ok || r.Queued != want.Queued || r.Service != want.Service || r.Leaves != want.Leaves {
			t.Errorf("%q: %+v, %v, %v", text, r, ok, err)
		}
	}
}
