//go:build linux

package main

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestOverCommitment offers three times what twenty connections can do, for two seconds: all are done in the end, none holds more than there is,
// and those that wait are unprocessed. Time is that of a bubble, so the figures do not depend on the speed of the computer.
func TestOverCommitment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, err := newPool(200<<20, 20)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		n := p.submitAll(t.Context(), 4000, 500*time.Microsecond)
		took := time.Since(began)
		stats := p.guard.Stats()
		p.close()
		t.Logf("%+v in %v, at most %d MB and %d connections, %d unprocessed", n, took, p.most.Load()>>20, p.mostTaken.Load(), stats.MaxQueued)
		if n.done+n.turnedAway != 4000 || n.turnedAway > 0 {
			t.Errorf("%+v, want all done", n)
		}
		if p.most.Load() > 200<<20 || p.mostTaken.Load() > 20 {
			t.Errorf("at most %d MB and %d connections: more than there are", p.most.Load()>>20, p.mostTaken.Load())
		}
		if stats.MaxQueued < 1000 {
			t.Errorf("%d were unprocessed at most, want most of what came", stats.MaxQueued)
		}
		if most := 10 * time.Second; took > most {
			t.Errorf("it took %v, more than %v", took, most)
		}
	})
}
