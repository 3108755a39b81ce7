package workloads

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/internal/dist"
	"spillway/machine"
)

// mailClasses are mailboxes, and a rival that takes 150 MB for 4 s.
func mailClasses() []MailboxClass {
	return []MailboxClass{
		{Name: "mail", Share: 0.9, Boxes: 50_000},
		{Name: "rival", Share: 0.1, Bytes: dist.Constant{Unit: dist.Bytes, Value: 150e6}, Hold: dist.Constant{Value: 4e9}},
	}
}

// The server knows mailboxes by their names alone: whoever asks, however often, finds the same.
func TestMailboxFollowsFromItsName(t *testing.T) {
	t.Parallel()
	a, err := NewMailboxes(DefaultMailboxes())
	if err != nil {
		t.Fatal(err)
	}
	l, err := NewMailboxLoad(DefaultMailboxes(), mailClasses())
	if err != nil {
		t.Fatal(err)
	}
	rng := dist.Stream(1, "test", 0)
	var op Op
	seen := map[uint16]int{}
	for range 5000 {
		l.Next(rng, &op)
		seen[op.Class]++
		box, ok := a.Of(op.Key)
		if !ok || op.Kind != Get {
			t.Fatalf("%q names no mailbox", op.Key)
		}
		if diff := cmp.Diff(a.Steps(nil, box), op.Steps); diff != "" {
			t.Fatalf("%q (-server +workload):\n%s", op.Key, diff)
		}
		if op.Class == 1 && (string(op.Key) != "!150000000:4000ms" || box != Mailbox{Bytes: 150e6, Hold: 4 * time.Second}) {
			t.Fatalf("the rival asks with %q for %+v", op.Key, box)
		}
	}
	if seen[0] < 4400 || seen[1] < 400 {
		t.Errorf("asked %v times", seen)
	}
	c := DefaultMailboxes()
	c.Seed = 2
	other, err := NewMailboxes(c)
	if err != nil {
		t.Fatal(err)
	}
	one, _ := a.Of([]byte("mail-1"))
	if two, _ := other.Of([]byte("mail-1")); one == two {
		t.Error("another seed makes the same mailbox")
	}
}

// Sizes are log-normal with the quantiles asked for, and no larger than the largest; the mean is what Mean counts with.
func TestMailboxSizes(t *testing.T) {
	t.Parallel()
	c := DefaultMailboxes()
	c.Largest = 5_000_000
	l, err := NewMailboxLoad(c, mailClasses())
	if err != nil {
		t.Fatal(err)
	}
	rng := dist.Stream(1, "test", 0)
	var op Op
	var below [2]float64
	sum, n := 0.0, 0.0
	for range 50_000 {
		l.Next(rng, &op)
		if op.Class != 0 {
			continue
		}
		b := op.Steps[0].Bytes
		if b > c.Largest || b < 1 {
			t.Fatalf("a mailbox of %d bytes", b)
		}
		for i, q := range []int64{300_000, 1_400_000} {
			if b <= q {
				below[i]++
			}
		}
		if want := c.Latency + time.Duration(float64(b)/c.Rate*1e9); op.Steps[2].Duration != want || op.Steps[2].Kind != machine.Delay {
			t.Fatalf("%d bytes are held for %v, want %v", b, op.Steps[2].Duration, want)
		}
		sum += float64(op.Steps[1].Duration)
		n++
	}
	if math.Abs(below[0]/n-0.5) > 0.01 || math.Abs(below[1]/n-0.9) > 0.01 {
		t.Errorf("%.3f are no larger than the median, %.3f than the 90th percentile", below[0]/n, below[1]/n)
	}
	demands, shares := l.Mean(machine.Bus{})
	if got := float64(demands[0].Core); math.Abs(got/(sum/n)-1) > 0.02 || shares[1] != 0.1 {
		t.Errorf("mean work %v, drawn %v; shares %v", time.Duration(got), time.Duration(sum/n), shares)
	}
}

func TestMailboxKeys(t *testing.T) {
	t.Parallel()
	m, err := NewMailboxes(DefaultMailboxes())
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]bool{
		"x": true, "": true, "!1:0ms": true, "!1099511627776:1h": true,
		"!": false, "!1": false, "!:1s": false, "!0:1s": false, "!-1:1s": false, "!1:-1s": false, "!1:2h": false, "!1099511627777:1s": false, "!1:1": false,
	} {
		if _, ok := m.Of([]byte(key)); ok != want {
			t.Errorf("%q: %v, want %v", key, ok, want)
		}
	}
}

func TestMailboxLoadRefuses(t *testing.T) {
	t.Parallel()
	constant := dist.Constant{Value: 1}
	for name, classes := range map[string][]MailboxClass{
		"no classes":          nil,
		"shares":              {{Name: "a", Share: 0.5, Boxes: 1}},
		"negative":            {{Name: "a", Share: 2, Boxes: 1}, {Name: "b", Share: -1, Boxes: 1}},
		"no boxes":            {{Name: "a", Share: 1}},
		"memory for no time":  {{Name: "a", Share: 1, Bytes: constant}},
		"both":                {{Name: "a", Share: 1, Boxes: 1, Bytes: constant, Hold: constant}},
		"popularity":          {{Name: "a", Share: 1, Boxes: 1, Popularity: "none"}},
		"prefix with a space": {{Name: "a", Share: 1, Boxes: 1, Prefix: "a b"}},
		"prefix that spells":  {{Name: "a", Share: 1, Boxes: 1, Prefix: "!"}},
	} {
		if _, err := NewMailboxLoad(DefaultMailboxes(), classes); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for name, spoil := range map[string]func(*MailboxConfig){
		"no size": func(c *MailboxConfig) { c.Size = nil }, "no largest": func(c *MailboxConfig) { c.Largest = 0 },
		"no rate": func(c *MailboxConfig) { c.Rate = 0 }, "negative": func(c *MailboxConfig) { c.Latency = -1 },
	} {
		c := DefaultMailboxes()
		spoil(&c)
		if _, err := NewMailboxes(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestMailboxLoadAllocatesNothing(t *testing.T) {
	l, err := NewMailboxLoad(DefaultMailboxes(), mailClasses())
	if err != nil {
		t.Fatal(err)
	}
	rng := dist.Stream(1, "test", 0)
	var op Op
	for range 100 {
		l.Next(rng, &op)
	}
	if n := testing.AllocsPerRun(1000, func() { l.Next(rng, &op) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
