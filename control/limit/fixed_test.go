package limit_test

import (
	"testing"

	"spillway/control"
	"spillway/control/limit"
)

func TestFixedLimitFromCores(t *testing.T) {
	t.Parallel()
	g := control.NewGate(limit.NewFixed(limit.DefaultFixed(), 3), control.GateConfig{})
	for id := range uint64(10) {
		g.Arrive(0, control.Request{ID: id}, nil)
	}
	if s := g.Stats(); s.InService != 3 || s.Queued != 7 {
		t.Errorf("%d in service, %d queued; want 3 and 7", s.InService, s.Queued)
	}
}

func TestFixedRefusesWrongSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []limit.FixedConfig{{Limit: -1}, {Limit: 1, Queue: -1}, {}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v without cores: no panic", c)
				}
			}()
			limit.NewFixed(c, 0)
		}()
	}
}
