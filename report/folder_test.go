package report

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestPoolDividesByAllWindows pools two repeats of a second each. In the second nothing of the class "get" arrived, which is a part of its
// rate: four requests in two seconds.
func TestPoolDividesByAllWindows(t *testing.T) {
	t.Parallel()
	some, none := point("none", "1", 1, 0, ms(1, 1, 1, 1)...), point("none", "1", 2, 0)
	none.Rows[1].Fates.OK, none.Rows[1].OfferedRPS = 10, Known(10) // of another class
	for name, facts := range map[string][]PointFacts{"by the rows": nil, "by the manifest": {some.Facts, none.Facts}} {
		run := &Run{Manifest: Manifest{Points: facts}, Rows: append(append([]Row{}, some.Rows...), none.Rows...)}
		run.Rows = append(run.Rows, Row{Controller: "other", Class: "x"})
		p := run.Pool()[0]
		if p.Class != "get" || p.Goodput.with(Value.rate) != "2.00 (0–4.00)" || p.Offered.Value.String() != "2" {
			t.Errorf("%s: class %s, goodput %s, offered %s; want 2", name, p.Class, p.Goodput.with(Value.rate), p.Offered.Value)
		}
	}
}

// TestFormulasAreRefused reads a file that was made elsewhere and would run in a spreadsheet.
func TestFormulasAreRefused(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := CSV(&out, point("none", "1", 1, 0, ms(1)...).Rows[:1]); err != nil {
		t.Fatal(err)
	}
	for _, class := range []string{"=cmd|x", "+1", "-1", "@sum(1)", "\"\t=1\""} {
		text := strings.Replace(out.String(), ",get,", ","+class+",", 1)
		if _, err := ReadCSV(strings.NewReader(text), "x.csv"); err == nil || !strings.HasPrefix(err.Error(), "x.csv:2: class: ") {
			t.Errorf("%s: error %v", class, err)
		}
	}
}

// TestFolderWithoutPoints: a folder is whole from the beginning, so one without points has lost them.
func TestFolderWithoutPoints(t *testing.T) {
	t.Parallel()
	w, err := NewWriter(filepath.Join(t.TempDir(), "r"), manifest(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if run, err := ReadDir(w.Dir()); err != nil || len(run.Rows) != 0 {
		t.Errorf("a run that has just begun: %v", err)
	}
	if err := os.Remove(filepath.Join(w.Dir(), pointsFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadDir(w.Dir()); err == nil || !strings.Contains(err.Error(), "has no points.csv") {
		t.Errorf("error %v", err)
	}
}

func TestDiscard(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	made := filepath.Join(dir, "made")
	w, err := NewWriter(made, manifest(), nil)
	if err != nil {
		t.Fatal(err)
	}
	w.Discard()
	if _, err := os.Stat(made); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
	if err := os.Mkdir(made, 0o777); err != nil {
		t.Fatal(err)
	}
	if w, err = NewWriter(made, manifest(), nil); err != nil {
		t.Fatal(err)
	}
	// What package document may have written goes too.
	if err := os.Mkdir(filepath.Join(made, "plots"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{PageFile, ReportFile, "plots/goodput-all.svg"} {
		if err := os.WriteFile(filepath.Join(made, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	w.Discard()
	if entries, err := os.ReadDir(made); err != nil || len(entries) != 0 {
		t.Errorf("of a folder that was there before is left: %v, %v", entries, err)
	}
}

// TestReserve: room is held while the run goes on and given back before its last words are written.
func TestReserve(t *testing.T) {
	t.Parallel()
	w, err := NewWriter(filepath.Join(t.TempDir(), "r"), manifest(), nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(w.Dir(), reserveFile)
	if info, err := os.Stat(path); err != nil || info.Size() < reserveBytes-9 {
		t.Errorf("reserve: %v, %v", info, err)
	}
	if err := w.Close(began, StateComplete, nil); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(w.Dir(), "*"+partial)); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestOneCauseIsSaidOnce(t *testing.T) {
	t.Parallel()
	full := func(name string) error { return fmt.Errorf("results: %s: %w", name, syscall.ENOSPC) }
	err := once(full("a"), errors.Join(full("b"), errors.New("other")), nil, full("c"), fmt.Errorf("d: %w", syscall.EIO))
	if got, want := err.Error(), full("a").Error()+"\nother\nd: "+syscall.EIO.Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if once(nil, nil) != nil {
		t.Error("an error of none")
	}
	if err := Further(full("a"), full("b"), errors.New("other")); err == nil || err.Error() != "other" {
		t.Errorf("after the full disk is said: %v", err)
	}
	if err := Further(full("a"), full("b"), nil); err != nil {
		t.Errorf("nothing is new, and yet: %v", err)
	}
}

// TestFindingsAreShown: what happened to the server stands under the table though the point is valid, and drift, which every overload without
// control has, does not.
func TestFindingsAreShown(t *testing.T) {
	t.Parallel()
	p := point("none", "1", 1, 0, ms(1)...)
	for i := range p.Rows {
		p.Rows[i].Warnings = []string{"drift", "server_died", "unsent"}
		p.Rows[i].Fates.Failed = 1
	}
	p.Facts.Notes = map[string]string{"server_died": "signal: killed"}
	run := &Run{Manifest: Manifest{Points: []PointFacts{p.Facts}}, Rows: p.Rows}
	var out bytes.Buffer
	if err := Terminal(&out, run); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"found on the way:\n", "  server_died (1): ", "none at 1x, repeat 1: signal: killed\n", "  unsent (1): ", "50.0 %"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "drift") {
		t.Errorf("drift is shown:\n%s", out.String())
	}
}

// TestRemarksOnTheCapacity: an answer that is not certain is not called one that held.
func TestRemarksOnTheCapacity(t *testing.T) {
	t.Parallel()
	run := &Run{Manifest: manifest()}
	run.Manifest.Capacity.Uncertain = true
	run.Manifest.Capacity.Remarks = []string{"not certain: nothing was seen to hold"}
	var out bytes.Buffer
	if err := Markdown(&out, []*Run{run}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"20.0, **which held in a short probe only**, and", "\n- not certain: nothing was seen to hold\n\n| probe |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}
