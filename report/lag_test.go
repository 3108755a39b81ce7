package report

import (
	"path/filepath"
	"testing"
)

// TestLagOfASimulation: while a simulation goes on, the files that are written whole may be a hundredth of the points behind, and no point is listed as
// finished that is not in them; in the end nothing is missing.
func TestLagOfASimulation(t *testing.T) {
	t.Parallel()
	for ground, points := range map[string]int{groundSim: 450, "host": 30} {
		m := manifest()
		m.Ground = ground
		dir := filepath.Join(t.TempDir(), ground)
		w, err := NewWriter(dir, m, nil)
		if err != nil {
			t.Fatal(err)
		}
		most := 0
		for i := range points {
			p := point("none", "1", i+1, 0, ms(1)...)
			if err := w.Add(p); err != nil {
				t.Fatal(err)
			}
			if i%7 != 0 { // it takes a while to read
				continue
			}
			in, err := ReadInterrupted(dir)
			if err != nil {
				t.Fatal(err)
			}
			most = max(most, i+1-len(in.Points()))
			rows, err := readPoints(filepath.Join(dir, pointsFile))
			if err != nil || len(rows) < len(in.Points())*len(p.Rows) {
				t.Fatalf("%d rows with %d points finished: %v", len(rows), len(in.Points()), err)
			}
		}
		if ground == groundSim && (most == 0 || most > points/100+1) || ground != groundSim && most > 0 {
			t.Errorf("%s: %d points behind", ground, most)
		}
		if err := w.Close(began, StateCutShort, nil); err != nil {
			t.Fatal(err)
		}
		if in, err := ReadInterrupted(dir); err != nil || len(in.Points()) != points {
			t.Errorf("%s: in the end %d points, %v", ground, len(in.Points()), err)
		}
	}
}
