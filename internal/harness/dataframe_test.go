//go:build linux

package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spillway/report"
)

const frameText = `name: f
on: sim
machine: {cores: 4, bus: {total: 8GB, per_core: 4GB}}
server: {kind: dataframe, settings: {rows: 200000}}
workload:
  kind: dataframe
  connections: 8
  classes:
    - {name: cpu, share: 0.9, slo: 5ms, op: max}
    - {name: memory, share: 0.1, slo: 5ms, op: decay}
load: {of_capacity: [0.5, 2]}
controllers: [{name: none}, {name: svalinn}]
warmup: 20ms
window: 100ms
repeats: 1
`

// TestDataFrameOnTheModel: what a simulated data frame serves is what its cost table says, and its memory section is in use.
func TestDataFrameOnTheModel(t *testing.T) {
	t.Parallel()
	p := parsed(t, frameText)
	if got := Grounds(p); !slices.Equal(got, []string{groundSim, groundModel, groundHost}) {
		t.Errorf("it can be run on %v", got)
	}
	m, err := newModelled(p)
	if err != nil {
		t.Fatal(err)
	}
	// Of 200 000 rows max computes 24 us and 240 us; decay 24 us and 246 us, and moves 4.8 MB, which takes a core 1.2 ms. So a request takes
	// a core 384.6 us on average.
	if got, want := m.capacity.RPS, 4/384.6e-6; got < 0.9999*want || got > 1.0001*want || m.capacity.Bottleneck != "cores" {
		t.Errorf("capacity %v, bottleneck %s; want %v", got, m.capacity.Bottleneck, want)
	}
	if diff := cmp.Diff([]streaming{{}, {bytes: 4.8e6, seconds: 0.001446}}, m.streams(), cmp.AllowUnexported(streaming{})); diff != "" {
		t.Errorf("in the memory section (-want +got):\n%s", diff)
	}
	run := simulate(t, p, 2)
	for _, r := range run.Rows {
		if r.Class == report.AllClasses && r.Controller == "none" && (r.Fates.Failed > 0 || r.Fates.OK+r.Fates.Late == 0 || !r.Valid) {
			t.Errorf("%+v, valid %v", r.Fates, r.Valid)
		}
	}
	if names := traceNames(t, run.Dir); names["memsem_inside"] == 0 {
		t.Errorf("the trace has %v", names)
	}
}

func TestDataFrameMistakes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ old, new, want string }{
		"rows":              {"rows: 200000", "rows: 3", "rows must be between 16 and"},
		"no rows":           {"rows: 200000", "rows: many", "is not a whole number"},
		"no number":         {"rows: 200000", "volatility: high", "is not a number"},
		"variance":          {"rows: 200000", "shock: 0.5, persistence: 0.6", "below 1 together"},
		"reply":             {"rows: 200000", "reply: header", "it is summary or full"},
		"a form of no file": {"rows: 200000", "dates: dmy", "server.settings.dates is about the file"},
		"a wrong form":      {"rows: 200000", "csv: a.csv, dates: ydm", "there are auto, ymd, dmy, mdy"},
		"a wrong delimiter": {"rows: 200000", "csv: a.csv, delimiter: and", "must be one character"},
		"both":              {"rows: 200000", "csv: a.csv, rows: 100", "leave one of them out"},
		"standard input":    {"rows: 200000", `csv: "-"`, "minute bars are read from a file here"},
		"no such file":      {"rows: 200000", "csv: no/such.csv", "no such file"},
		"a setting":         {"rows: 200000", "row: 200000", `did you mean "rows"?`},
		"an operation":      {"op: decay", "op: mid/200001", "there are 200000 rows"},
		"too much":          {"op: decay", "op: kmeans/64/1000", "steps over 200000 rows"},
		"no bus":            {", bus: {total: 8GB, per_core: 4GB}", "", "moves bytes over a memory bus, and this machine has none"},
		"another workload":  {"kind: dataframe, settings: {rows: 200000}", "kind: graph", "a server of the kind graph does not answer that; one of the kind dataframe does"},
	} {
		text := strings.Replace(frameText, c.old, c.new, 1)
		if text == frameText {
			t.Fatalf("%s: nothing was replaced", name)
		}
		p := parsed(t, text)
		err := refuse(p)
		if err == nil {
			_, err = newModelled(p)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestDataFrameOfAFile: rows are counted in the file, and its form is passed on to the server.
func TestDataFrameOfAFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "bars.csv")
	var text strings.Builder
	for i := range 50 {
		fmt.Fprintf(&text, "02.01.2018 17:%02d;1,2;1,3;1,1;1,25;5\n", i)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	p := parsed(t, strings.Replace(frameText, "rows: 200000", fmt.Sprintf("csv: %q, delimiter: \";\", dates: dmy, reply: full", path), 1))
	if n, err := frameRows(p); n != 50 || err != nil {
		t.Errorf("%d rows, %v", n, err)
	}
	flags, err := serverFlags(p)
	if want := []string{"--csv", path, "--dates", "dmy", "--delimiter", ";", "--reply", "full"}; err != nil || !slices.Equal(flags, want) {
		t.Errorf("flags %q, %v; want %q", flags, err, want)
	}
	if _, err := newModelled(p); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(text.String(), "1,3", "0")), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := newModelled(p); err == nil || !strings.Contains(err.Error(), "there is not one bar in it") {
		t.Errorf("a file of bad rows: %v", err)
	}
}
