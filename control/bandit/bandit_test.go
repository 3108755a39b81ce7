package bandit_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"spillway/clock"
	"spillway/control/bandit"
)

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// published are the constants of the Svalinn paper.
func published(name string, arms int, seed uint64) bandit.Config {
	c := bandit.Config{Name: name, Arms: arms, Omega: 0.8, Epsilon: 0.3, Rand: rng(seed)}
	switch name {
	case "fixed":
		c.Capacity = 16
	case "oracle":
		c.Oracle = func(clock.Instant) int { return 16 }
	}
	return c
}

func build(t testing.TB, c bandit.Config) bandit.Bandit {
	t.Helper()
	b, err := bandit.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The update rule by hand: ω weighs the new reward, values begin at 0, of equal ones the first wins (Svalinn, and m_semaphore of its
// artifact).
func TestEGreedyFollowsItsRule(t *testing.T) {
	t.Parallel()
	c := published("egreedy", 4, 1)
	c.Epsilon = 0
	b := build(t, c)
	for i, step := range []struct {
		arm    int
		reward float64
		next   int
	}{
		{1, 0.5, 1},  // Q = .4 0 0 0
		{2, 0.6, 2},  // Q = .4 .48
		{2, 0.1, 1},  // Q = .4 .176
		{1, -0.9, 2}, // Q = -.64 .176
		{2, -1, 3},   // Q = -.64 -.7648 0 0: never tried counts as 0, and the first of those wins
		{3, -0.1, 4}, // Q[3] = -.08
		{4, -0.1, 3}, // the first of two equal ones
		{3, 0.02, 3}, // Q[3] = -.016 + .016 = 0
	} {
		b.Reward(step.arm, step.reward)
		if got := b.Choose(0); got != step.next {
			t.Errorf("step %d: arm %d, want %d", i, got, step.next)
		}
	}
}

// With probability ε it plays a neighbour of the best arm, either with the same chance, and stays within bounds.
func TestEGreedyExploresNeighbours(t *testing.T) {
	t.Parallel()
	for best, want := range map[int]map[int]float64{
		1: {1: 0.85, 2: 0.15},
		3: {2: 0.15, 3: 0.7, 4: 0.15},
		5: {4: 0.15, 5: 0.85},
	} {
		b := build(t, published("egreedy", 5, 1))
		b.Reward(best, 1)
		const n = 20_000
		count := map[int]float64{}
		for range n {
			count[b.Choose(0)] += 1. / n
		}
		for arm := range 7 {
			if math.Abs(count[arm]-want[arm]) > 0.01 {
				t.Errorf("best %d: arm %d is played %.3f of the time, want %.2f", best, arm, count[arm], want[arm])
			}
		}
	}
}

// The posterior of Thompson sampling shows in how often an arm is chosen: that of two arms with normal posteriors, n rewards known in
// each, variance 1/(1/625 + n/25) and mean variance·(80/625 + Σ/25).
func TestThompsonPosterior(t *testing.T) {
	t.Parallel()
	c := published("thompson", 2, 1)
	c.Epsilon = 0
	b := build(t, c)
	for range 12 { // the window forgets two of them
		b.Reward(1, 0.6)
	}
	b.Reward(2, 0.55)
	moments := func(n, sum float64) (mean, variance float64) {
		variance = 1 / (1./625 + n/25)
		return variance * (80./625 + sum/25), variance
	}
	m1, v1 := moments(10, 600)
	m2, v2 := moments(1, 55)
	want := 0.5 * math.Erfc((m1-m2)/math.Sqrt2/math.Sqrt(v1+v2)) // that arm 2 draws the greater
	const n = 40_000
	second := 0
	for range n {
		if b.Choose(0) == 2 {
			second++
		}
	}
	if got := float64(second) / n; math.Abs(got-want) > 0.01 {
		t.Errorf("arm 2 is chosen %.3f of the time, want %.3f", got, want)
	}
}

// With probability ε Thompson sampling looks at arms no greater than the current one, by softmax(mean/30).
func TestThompsonLooksBelow(t *testing.T) {
	t.Parallel()
	c := published("thompson", 4, 1)
	c.Epsilon = 0.5
	b := build(t, c)
	var weights [5]float64
	total := 0.0
	for arm, reward := range map[int]float64{1: 0.2, 2: 0.5, 3: 0.8, 4: -1} { // samples of the posteriors hardly overlap: 3 wins
		for range 10 {
			b.Reward(arm, reward)
		}
		if arm <= 3 {
			weights[arm] = math.Exp((80./625 + 1000*reward/25) / (1./625 + 10./25) / 30)
			total += weights[arm]
		}
	}
	const n = 100_000
	after, next := 0., map[int]float64{} // the choice 3
	for arm := 0; after < n; {
		chosen := b.Choose(0)
		if arm == 3 {
			after++
			next[chosen] += 1. / n
		}
		arm = chosen
	}
	for arm := 1; arm <= 4; arm++ {
		want := 0.5 * weights[arm%4] / total
		if arm == 3 {
			want += 0.5
		}
		if math.Abs(next[arm]-want) > 0.01 {
			t.Errorf("arm %d follows arm 3 in %.3f of the cases, want %.3f", arm, next[arm], want)
		}
	}
}

func TestFixedAndOracle(t *testing.T) {
	t.Parallel()
	if got := build(t, published("fixed", 18, 1)).Choose(0); got != 16 {
		t.Errorf("fixed chooses %d, want 16", got)
	}
	if got := build(t, published("fixed", 4, 1)).Choose(0); got != 4 {
		t.Errorf("fixed chooses %d of 4 arms", got)
	}
	c := published("oracle", 18, 1)
	c.Oracle = func(now clock.Instant) int { return int(now) }
	b := build(t, c)
	for now, want := range map[clock.Instant]int{0: 1, 7: 7, 100: 18} {
		if got := b.Choose(now); got != want {
			t.Errorf("oracle chooses %d at %d, want %d", got, now, want)
		}
	}
	for name, learns := range map[string]bool{"egreedy": true, "thompson": true, "ucb": true, "fixed": false, "oracle": false} {
		if got := bandit.Learns(build(t, published(name, 18, 1))); got != learns {
			t.Errorf("%s learns: %v", name, got)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]func(*bandit.Config){
		"bandit is":               func(c *bandit.Config) { c.Name = "greedy" },
		"omega is 0":              func(c *bandit.Config) { c.Omega = 0 },
		"epsilon is -1":           func(c *bandit.Config) { c.Epsilon = -1 },
		"epsilon is NaN":          func(c *bandit.Config) { c.Epsilon = math.NaN() },
		"omega is NaN":            func(c *bandit.Config) { c.Omega = math.NaN() },
		"at least one arm":        func(c *bandit.Config) { c.Arms = 0 },
		"capacity is 0":           func(c *bandit.Config) { c.Name, c.Capacity = "fixed", 0 },
		"which only bandit fixed": func(c *bandit.Config) { c.Capacity = 3 },
		"grounds sim and model":   func(c *bandit.Config) { c.Name = "oracle" },
	} {
		config := published("egreedy", 4, 1)
		c(&config)
		if _, err := bandit.New(config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one about %q", err, want)
		}
	}
}

// What a bandit does not have need not be given, and is not looked at.
func TestOnlyOwnConstantsCount(t *testing.T) {
	t.Parallel()
	for _, c := range []bandit.Config{
		{Name: "ucb"}, {Name: "ucb", Omega: math.NaN(), Epsilon: 7}, {Name: "fixed", Capacity: 2}, {Name: "thompson", Epsilon: 0.3, Rand: rng(1)},
	} {
		c.Arms = 4
		if _, err := bandit.New(c); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Whatever rewards it gets, a bandit chooses one of its arms.
func TestChoicesAreArms(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		arms := rapid.IntRange(1, 64).Draw(t, "arms")
		c := published(rapid.SampledFrom(bandit.Names()).Draw(t, "name"), arms, rapid.Uint64().Draw(t, "seed"))
		b, err := bandit.New(c)
		if err != nil {
			t.Fatal(err)
		}
		arm := 1
		for range 200 {
			b.Reward(arm, rapid.Float64Range(-1, 1).Draw(t, "reward"))
			if arm = b.Choose(0); arm < 1 || arm > arms {
				t.Fatalf("arm %d of %d", arm, arms)
			}
		}
	})
}

// The reward by hand, and its maximum: of the window, or of all times.
func TestReward(t *testing.T) {
	t.Parallel()
	forever, windowed := bandit.NewReward(0.7, 1, 10, 0), bandit.NewReward(0.7, 1, 10, 3)
	for i, c := range []struct {
		bw                float64
		capacity          int
		forever, windowed float64 // share of the maximum
	}{
		{0, 1, 0, 0}, {50, 2, 1, 1}, {100, 4, 1, 1}, {40, 4, 0.4, 0.4}, {80, 3, 0.8, 0.8}, {60, 3, 0.6, 0.75}, {60, 3, 0.6, 0.75}, {60, 3, 0.6, 1},
	} {
		cost := 0.3 * float64(c.capacity) / 10
		if got := forever.Of(c.capacity, c.bw); math.Abs(got-(0.7*c.forever-cost)) > 1e-12 {
			t.Errorf("sample %d: reward %v, want %v − %v", i, got, 0.7*c.forever, cost)
		}
		if got := windowed.Of(c.capacity, c.bw); math.Abs(got-(0.7*c.windowed-cost)) > 1e-12 {
			t.Errorf("sample %d, windowed: reward %v, want %v − %v", i, got, 0.7*c.windowed, cost)
		}
	}
	enough := bandit.NewReward(0.5, 0.8, 10, 0)
	enough.Of(1, 100)
	for bw, share := range map[float64]float64{100: 1, 80: 1, 40: 0.5} {
		if got := enough.Of(1, bw); math.Abs(got-(0.5*share-0.05)) > 1e-12 {
			t.Errorf("target 0.8, bandwidth %v: reward %v, want 0.5·%v − 0.05", bw, got, share)
		}
	}
}

// The windowed maximum against the obvious one.
func TestWindowedMaximum(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		window := rapid.IntRange(1, 8).Draw(t, "window")
		values := rapid.SliceOfN(rapid.Float64Range(1, 10), 1, 60).Draw(t, "values")
		r := bandit.NewReward(1, 1, 1, window)
		for i, v := range values {
			most := slices.Max(values[max(0, i+1-window) : i+1])
			if got := r.Of(1, v); math.Abs(got-v/most) > 1e-12 {
				t.Fatalf("value %d: share %v of %v, want that of %v", i, got, values[:i+1], most)
			}
		}
	})
}

func TestStepsDoNotAllocate(t *testing.T) {
	for _, name := range bandit.Names() {
		b, r := build(t, published(name, 45, 1)), bandit.NewReward(0.7, 1, 45, 50)
		arm := 1
		if n := testing.AllocsPerRun(1000, func() {
			b.Reward(arm, r.Of(arm, float64(arm)))
			arm = b.Choose(0)
		}); n != 0 {
			t.Errorf("%s: %v allocations a step", name, n)
		}
	}
}

func BenchmarkStep(b *testing.B) {
	for _, name := range bandit.Names() {
		b.Run(name, func(b *testing.B) {
			bandits, r := build(b, published(name, 18, 1)), bandit.NewReward(0.7, 1, 18, 50)
			arm := 1
			b.ReportAllocs()
			for b.Loop() {
				bandits.Reward(arm, r.Of(arm, float64(min(arm, 6))))
				arm = bandits.Choose(0)
			}
		})
	}
}
