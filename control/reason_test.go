package control_test

import (
	"testing"

	"spillway/control"
)

func TestReasons(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for r := control.NoReason + 1; r < control.NumReasons; r++ {
		name := r.String()
		if name == "" || seen[name] {
			t.Errorf("reason %d is called %q", r, name)
		}
		seen[name] = true
		if back, ok := control.ParseReason([]byte(name)); !ok || back != r {
			t.Errorf("%q is read as %v, %v", name, back, ok)
		}
		if r.Shed() == control.NotShed {
			t.Errorf("%v belongs to no fate", r)
		}
	}
	for _, name := range []string{"none", "unknown", "", "Limit"} {
		if r, ok := control.ParseReason([]byte(name)); ok {
			t.Errorf("%q is read as %v", name, r)
		}
	}
	for r, want := range map[control.Reason]control.Shed{
		control.NoReason: control.NotShed, control.QueueFull: control.ShedRejected, control.Budget: control.ShedRejected,
		control.CoDel: control.ShedDropped, control.Cancelled: control.ShedDropped, control.Expired: control.ShedExpired,
		control.NumReasons: control.NotShed,
	} {
		if got := r.Shed(); got != want {
			t.Errorf("%v amounts to %d, want %d", r, got, want)
		}
	}
}
