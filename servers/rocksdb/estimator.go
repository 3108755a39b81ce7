//go:build linux && cgo && !norocksdb

package rocksdb

import "time"

// work is how much of the time of a whole Load each phase takes, for an estimate: what is stored is written twice, by its flush and by the
// compaction, and read once.
var work = map[string]float64{PhaseStore: 0.45, PhaseCompact: 0.35, PhaseVerify: 0.2}

// estimator tells how long a Load will go on.
type estimator struct {
	began time.Time
	total int64
	tell  func(Progress)
	told  time.Time
}

// tellEvery is how often a Load says how far it is.
const tellEvery = 200 * time.Millisecond

// at takes note that a phase has come as far as done bytes.
func (e *estimator) at(now time.Time, phase string, done int64) {
	if e.tell == nil || now.Sub(e.told) < tellEvery && done > 0 && done < e.total {
		return
	}
	e.told = now
	share := 0.0
	switch phase {
	case PhaseCompact:
		share = work[PhaseStore]
	case PhaseVerify:
		share = work[PhaseStore] + work[PhaseCompact]
	}
	share += work[phase] * float64(done) / float64(max(e.total, 1))
	p := Progress{Phase: phase, Done: done, Total: e.total, Left: -1}
	if gone := now.Sub(e.began); share > 0.02 && gone > 0 {
		p.Left = time.Duration(float64(gone) * (1 - share) / share)
	}
	e.tell(p)
}
