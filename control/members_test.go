package control_test

import (
	"testing"

	"spillway/control"
)

func TestMembers(t *testing.T) {
	t.Parallel()
	one := control.None{}
	if got := control.Members(one); len(got) != 1 || got[0] != control.Controller(one) {
		t.Errorf("%v", got)
	}
	if got := control.Members(control.NewChain(one, one, one)); len(got) != 3 {
		t.Errorf("%d of 3 members", len(got))
	}
}
