package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/internal/harness"
	"spillway/report"
)

// TestJSONProgress holds every kind of line against its text: the keys are what programs rely on.
func TestJSONProgress(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := (&telling{json: true}).open(&out)
	at := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	p.now = func() time.Time { return at }
	p.started("quickstart", "results/x")
	observe := p.only("quickstart")
	observe(harness.Event{Kind: harness.Noted, Note: "capacity 2000"})
	observe(harness.Event{What: "capacity search", Phase: "probe at 1000/s", Done: 4})
	e := harness.Event{
		What: "codel at 1.5x, repeat 1", Phase: "window", Done: 2, Total: 3, Left: 100 * time.Second,
		Variant: "bus10", Controller: "codel", Load: "1.5x", Repeat: 1,
	}
	observe(e)
	e.Kind, e.Goodput = harness.Live, report.Known(41234.56)
	observe(e)
	at = at.Add(liveEvery / 2)
	observe(e) // too soon
	at = at.Add(liveEvery / 2)
	e.Earlier = true
	e.Kind = harness.Entered
	observe(e)
	observe(harness.Event{Kind: harness.Finished, What: "codel at 1.5x, repeat 1", Done: 3, Total: 3, Goodput: report.Known(0), Valid: false})
	p.ended("quickstart", &harness.Outcome{Dir: "results/x", Points: 3, Invalid: 1}, nil)
	p.ended("quickstart", &harness.Outcome{Dir: "results/x", Points: 1, CutShort: true}, nil)
	disk := errors.New("disk")
	p.ended("quickstart", &harness.Outcome{}, disk)
	for _, err := range []error{failed(disk), failed(errors.New("table")), &exit{code: exitInvalid}} {
		if err := p.spoken(err); err.(*exit).err != nil {
			t.Errorf("%v would be printed as well", err)
		}
	}
	p.close()
	const now, later = `{"time":"2026-08-01T12:00:00.000Z",`, `{"time":"2026-08-01T12:00:01.000Z",`
	const point = `"point":3,"total":3,"what":"codel at 1.5x, repeat 1",`
	const named = point + `"variant":"bus10","controller":"codel","load":"1.5x","repeat":1,"phase":"window",`
	want := []string{
		now + `"event":"start","profile":"quickstart","dir":"results/x"}`,
		now + `"event":"note","profile":"quickstart","note":"capacity 2000"}`,
		now + `"event":"phase","profile":"quickstart","what":"capacity search","phase":"probe at 1000/s"}`,
		now + `"event":"phase","profile":"quickstart",` + named + `"left_s":100}`,
		now + `"event":"live","profile":"quickstart",` + named + `"goodput_rps":41234.6,"goodput_of":"now","left_s":100}`,
		later + `"event":"phase","profile":"quickstart",` + named + `"goodput_rps":41234.6,"goodput_of":"previous","left_s":100}`,
		later + `"event":"point","profile":"quickstart",` + point + `"goodput_rps":0,"goodput_of":"point","valid":false,"left_s":0}`,
		later + `"event":"end","profile":"quickstart","dir":"results/x","state":"complete","points":3,"invalid":1}`,
		later + `"event":"end","profile":"quickstart","dir":"results/x","state":"cut short","points":1,"invalid":0}`,
		later + `"event":"end","profile":"quickstart","state":"failed","points":0,"invalid":0,"error":"disk"}`,
		later + `"event":"failed","error":"table"}`,
	}
	if diff := cmp.Diff(want, strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestJSONProgressIsDocumented wants a row for every key and every event in docs/cli.md.
func TestJSONProgressIsDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "### Progress for machines")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, key := range keys() {
		if !strings.Contains(section, "| `"+key+"` |") {
			t.Errorf("the key %s has no row in docs/cli.md", key)
		}
	}
	for _, event := range []string{"start", "phase", "live", "point", "note", "end", "failed"} {
		if !strings.Contains(section, "`"+event+"`") {
			t.Errorf("the event %s is not in docs/cli.md", event)
		}
	}
}

func keys() (list []string) {
	of := reflect.TypeFor[object]()
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		list = append(list, name)
	}
	return list
}

// TestJSONProgressOfARun reads what whole runs write: objects and nothing else, on standard error and nowhere else, with the figures that the
// results have.
func TestJSONProgressOfARun(t *testing.T) {
	t.Parallel()
	dir, out := binaries(t), filepath.Join(t.TempDir(), "out")
	cmd := exec.Command(filepath.Join(dir, "loadgen"), "run", "model-check", "--on", "sim", "--repeats", "1", "--json-progress", "--out", out)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s%s", err, stdout.Bytes(), stderr.Bytes())
	}
	if strings.Contains(stdout.String(), "{") || !strings.Contains(stdout.String(), "goodput/s") {
		t.Errorf("standard output:\n%s", stdout.Bytes())
	}
	run, err := report.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	points := map[string]float64{}
	var events []string
	for _, line := range strings.Split(strings.TrimSuffix(stderr.String(), "\n"), "\n") {
		var o object
		dec := json.NewDecoder(strings.NewReader(line))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&o); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		events = append(events, o.Event)
		if o.Event == "point" {
			points[report.PointLabel(o.Controller, o.Load, o.Repeat)] = *o.Goodput
		}
	}
	if events[0] != "start" || events[len(events)-1] != "end" || !slices.Contains(events, "phase") {
		t.Errorf("events %v", events)
	}
	n := 0
	for i := range run.Rows {
		if r := &run.Rows[i]; r.Class == report.AllClasses {
			n++
			want, _ := r.GoodputRPS.Get()
			if got := points[r.Point()]; got < want-0.1 || got > want+0.1 {
				t.Errorf("%s: goodput %v, the results have %v", r.Point(), got, want)
			}
		}
	}
	if n == 0 || n != len(points) {
		t.Errorf("%d points were told of, the results have %d", len(points), n)
	}
}
