package bandit

// Reward turns a bandwidth into the reward of a capacity: what share of the greatest bandwidth it reached, less what cores it kept busy with
// that (Svalinn):
//
//	α·min(bw/max, target)/target − (1−α)·capacity/N
//
// One more core pays as long as it raises the bandwidth by more than (1−α)/(α·N) of the maximum.
type Reward struct {
	alpha, target float64
	arms          int
	greatest      windowedMax
}

// NewReward returns a Reward for N arms. The maximum is that of the last window samples; with a window of 0 it never falls.
func NewReward(alpha, target float64, arms, window int) *Reward {
	return &Reward{alpha: alpha, target: target, arms: arms, greatest: newWindowedMax(window)}
}

// Of returns the reward of a capacity under which the bandwidth was bw, in any unit that stays the same.
func (r *Reward) Of(capacity int, bw float64) float64 {
	share := 0.0
	if most := r.greatest.add(bw); most > 0 {
		share = min(bw/most, r.target) / r.target
	}
	return r.alpha*share - (1-r.alpha)*float64(capacity)/float64(r.arms)
}

// windowedMax is the greatest of the last so many values. It keeps only those that can still become the greatest: each is greater than
// all that came after it.
type windowedMax struct {
	window int
	ring   []sample // with a window of 0: one, the greatest ever
	head   int
	n      int
	added  int
}

type sample struct {
	number int
	value  float64
}

func newWindowedMax(window int) windowedMax {
	return windowedMax{window: window, ring: make([]sample, max(window, 1))}
}

// add takes in a value and returns the greatest of the window.
func (m *windowedMax) add(value float64) float64 {
	if m.window == 0 {
		m.ring[0].value = max(m.ring[0].value, value)
		return m.ring[0].value
	}
	m.added++
	if m.n > 0 && m.ring[m.head].number <= m.added-m.window {
		m.head = (m.head + 1) % m.window
		m.n--
	}
	for m.n > 0 && m.ring[(m.head+m.n-1)%m.window].value <= value {
		m.n--
	}
	m.ring[(m.head+m.n)%m.window] = sample{number: m.added, value: value}
	m.n++
	return m.ring[m.head].value
}
