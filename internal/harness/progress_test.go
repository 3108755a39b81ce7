//go:build linux

package harness

import (
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"spillway/clock"
	"spillway/internal/drive"
)

// TestLiveGoodput feeds snapshots of a load whose goodput doubles: the figure follows within a second, in modelled time where time is stretched.
func TestLiveGoodput(t *testing.T) {
	t.Parallel()
	stretched, err := clock.NewStretched(100)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		clock clock.Clock
		scale float64
	}{"real": {clock.NewReal(), 1}, "stretched": {stretched, 100}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var phases []string
			var figures []float64
			p := Point{observe: func(phase string) { phases = append(phases, phase) }, live: func(rps float64) { figures = append(figures, rps) }}
			tell := p.progress(tt.clock)
			tell(drive.Snapshot{})
			ok := int64(0)
			for i := range 20 {
				phase := drive.WarmingUp
				if i >= 10 {
					phase = drive.Measuring
				}
				tell(drive.Snapshot{Phase: phase, Elapsed: time.Duration(i) * 200 * time.Millisecond, OK: ok})
				ok += 20
				if i >= 10 {
					ok += 20
				}
			}
			if len(phases) != 2 || phases[0] != "warm-up" || phases[1] != "window" {
				t.Errorf("phases %v", phases)
			}
			first, last := figures[0], figures[len(figures)-1]
			if math.Abs(first-100*tt.scale) > 1e-6 || math.Abs(last-200*tt.scale) > 1e-6 {
				t.Errorf("goodput %v to %v, want %v to %v", first, last, 100*tt.scale, 200*tt.scale)
			}
			for _, f := range figures {
				if f < 100*tt.scale-1e-6 || f > 200*tt.scale+1e-6 {
					t.Errorf("goodput %v, which it never was", f)
				}
			}
		})
	}
}

// TestFollow counts on a fake clock: a hundred a second.
func TestFollow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		var figures []float64
		p := Point{live: func(rps float64) { figures = append(figures, rps) }}
		stop := p.follow(&n)
		ticker := time.NewTicker(10 * time.Millisecond)
		for range 300 {
			<-ticker.C
			n.Add(1)
		}
		stop()
		if len(figures) < 10 || math.Abs(figures[len(figures)-1]-100) > 2 {
			t.Errorf("figures %v, want about 100", figures)
		}
	})
}

// TestLiveGoodputAllocatesNothing: it is worked out beside a measurement.
func TestLiveGoodputAllocatesNothing(t *testing.T) {
	p := Point{observe: func(string) {}, live: func(float64) {}}
	tell := p.progress(clock.NewReal())
	var s drive.Snapshot
	if n := testing.AllocsPerRun(1000, func() {
		s.Phase, s.Elapsed, s.OK = drive.Measuring, s.Elapsed+time.Millisecond, s.OK+1
		tell(s)
	}); n != 0 {
		t.Errorf("%v allocations a snapshot", n)
	}
}
