package html

import "testing"

// TestShortCellsAreNotBroken: between a phone and a wide screen, where columns have to share what room there is, whose figure is held against whose still
// stands on one line.
func TestShortCellsAreNotBroken(t *testing.T) {
	b := newTab(t, 760)
	b.open(written(t, claiming(t)), "")
	if got := eval[[]string](b, brokenCells); got[0] != "6" || len(got) > 1 {
		t.Errorf("of %s cells are broken: %q", got[0], got[1:])
	}
	b.clean()
}
