//go:build linux

package harness

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"spillway/control"
	"spillway/internal/load"
)

func TestShedByReason(t *testing.T) {
	t.Parallel()
	classes := make([]load.ClassTally, 2)
	classes[0].Name, classes[1].Name = "cpu", "memory"
	var all load.ClassTally
	if got := shedByReason(classes, &all); got != nil {
		t.Errorf("nothing was shed, and there are reasons: %v", got)
	}
	classes[0].Reasons[control.QueueFull], classes[0].Reasons[control.NoReason], all.Reasons[control.QueueFull], all.Reasons[control.NoReason] = 3, 2, 3, 2
	want := map[string]map[string]int64{"cpu": {"queue_full": 3, "refused": 2}, "all": {"queue_full": 3, "refused": 2}}
	if diff := cmp.Diff(want, shedByReason(classes, &all)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
