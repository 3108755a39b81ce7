package workloads

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/internal/frames"
	"spillway/machine"
)

// frameMix is a workload with a class of each sort.
func frameMix(t *testing.T, rows int) *DataFrame {
	t.Helper()
	d, err := NewDataFrame([]FrameClass{
		{Name: "cpu", Share: 0.7, Op: "max/close"}, {Name: "long", Share: 0.2, Op: "mid/1440"}, {Name: "memory", Share: 0.1, Op: "decay/5"},
	}, rows)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDataFrameAsksByShares(t *testing.T) {
	d := frameMix(t, 0)
	rng := rand.New(rand.NewPCG(1, 1))
	counts := map[string]int{}
	var op Op
	allocs := testing.AllocsPerRun(10_000, func() {
		d.Next(rng, &op)
		if op.Kind != Get || string(op.Key) != d.classes[op.Class].Op {
			t.Fatalf("class %d asks %q", op.Class, op.Key)
		}
		counts[d.classes[op.Class].Name]++
	})
	if allocs > 0 {
		t.Errorf("%v allocations a request", allocs)
	}
	for name, want := range map[string]int{"cpu": 7000, "long": 2000, "memory": 1000} {
		if n := counts[name]; n < want-200 || n > want+200 { // more than four standard deviations
			t.Errorf("%s was asked %d times, want about %d", name, n, want)
		}
	}
	if got, err := d.Patterns(); err != nil || !cmp.Equal(got, []string{"max/close*", "mid/1440*", "decay/5*"}) {
		t.Errorf("patterns %v, %v", got, err)
	}
}

func TestDataFrameMistakes(t *testing.T) {
	t.Parallel()
	class := func(op string) []FrameClass { return []FrameClass{{Name: "a", Share: 1, Op: op}} }
	for name, c := range map[string]struct {
		classes []FrameClass
		want    string
	}{
		"no class":        {nil, "needs at least one class"},
		"no operation":    {class(""), `class "a": op "": no operation: want max`},
		"a wrong one":     {class("max/price"), `class "a": op "max/price": column "price"`},
		"a long window":   {class("mid/1001"), "there are 1000 rows"},
		"a long key":      {class("max#" + strings.Repeat("x", 250)), "a key holds 250"},
		"shares":          {[]FrameClass{{Name: "a", Share: 0.5, Op: "max"}}, "sum to 0.5"},
		"a negative one":  {[]FrameClass{{Name: "a", Share: -1, Op: "max"}}, "must not be negative"},
		"too much of all": {class("kmeans/64/1000"), ""},
	} {
		_, err := NewDataFrame(c.classes, 1000)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	d, err := NewDataFrame([]FrameClass{{Name: "a", Share: 0.5, Op: "ad"}, {Name: "b", Share: 0.5, Op: "ad"}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Patterns(); err == nil || !strings.Contains(err.Error(), "classes a and b ask for the same keys") {
		t.Errorf("two classes of one operation: %v", err)
	}
}

// TestFrameCosts: compute is in proportion to steps, bytes to rows; who is bound by memory works in the memory section.
func TestFrameCosts(t *testing.T) {
	t.Parallel()
	const rows = 1000
	compute := func(d time.Duration) machine.Step { return machine.Step{Kind: machine.Compute, Duration: d} }
	stream := func(n int64) machine.Step { return machine.Step{Kind: machine.Stream, Bytes: n, Rate: 3e9} }
	enter, leave := machine.Step{Kind: machine.Enter}, machine.Step{Kind: machine.Leave}
	c := FrameCost{Compute: 5 * time.Microsecond, ComputePerStep: 0.5, MovedPerRow: 10, At: 3e9}
	cached := c
	cached.CachedBelow = 16_001 // decay and max over 1000 rows go over 16 000 B and 8000 B
	for _, tt := range []struct {
		cost FrameCost
		key  string
		want []machine.Step
	}{
		{c, "max", []machine.Step{compute(5500), stream(10_000)}},
		{cached, "max", []machine.Step{compute(5500)}},
		{c, "decay", []machine.Step{compute(5000), enter, compute(500), stream(10_000), leave}},
		{cached, "decay", []machine.Step{compute(5000), enter, compute(500), leave}},
		{c, "kmeans", []machine.Step{compute(27_000), stream(10_000)}},      // 4·11 distances a row
		{c, "kmeans/2/21", []machine.Step{compute(27_000), stream(20_000)}}, // as many distances, and twice as many rounds
		{FrameCost{}, "max", nil},
	} {
		q, err := frames.ParseQuery([]byte(tt.key))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, tt.cost.Steps(nil, &q, rows)); diff != "" {
			t.Errorf("%s of %+v (-want +got):\n%s", tt.key, tt.cost, diff)
		}
	}
}

// TestMeanFrameCosts: what the optimum is told is what requests cost.
func TestMeanFrameCosts(t *testing.T) {
	t.Parallel()
	d := frameMix(t, 2000)
	table := map[string]FrameCost{
		"max": {Compute: 1000, ComputePerStep: 1}, "mid": {ComputePerStep: 2, MovedPerRow: 8}, "decay": {Compute: 500, ComputePerStep: 1, MovedPerRow: 24},
	}
	c, err := NewFrameCosts(d, 2000, table)
	if err != nil {
		t.Fatal(err)
	}
	demands, shares := c.Mean(machine.Bus{Total: 4e9, PerCore: 1e9})
	want := []machine.Demand{{Core: 3000}, {Core: 4000 + 16_000, Bytes: 16_000}, {Core: 2500 + 48_000, Bytes: 48_000}}
	if diff := cmp.Diff(want, demands); diff != "" || !cmp.Equal(shares, []float64{0.7, 0.2, 0.1}) {
		t.Errorf("shares %v, demands (-want +got):\n%s", shares, diff)
	}
	if steps, bytes := c.Steps(nil, &Op{Class: 2}); len(steps) != 5 || bytes != 48_000 {
		t.Errorf("decay: %v, %d bytes", steps, bytes)
	}
	delete(table, "mid")
	if _, err := NewFrameCosts(d, 2000, table); err == nil || err.Error() != "there is no cost of the operation mid, which class long asks for" {
		t.Errorf("without a cost: %v", err)
	}
}
