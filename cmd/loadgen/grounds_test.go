package main

import (
	"bytes"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"spillway/report"
)

const (
	testScale    = 200 // twice the default: tests share their computer with others
	maxTestScale = 600 // beyond it a test would take minutes
)

// TestModelAgreesWithSim runs model-check on both modelled grounds, with the same arrivals and work, and holds them against each other: the
// goodput of every class within 5 %, and the p99 of what bounds its queue within 15 %. Windows are short here; `loadgen run model-check --on
// model` is the long form. What this computer could not keep up with is measured once more with the time scale that it asks for, and is
// never compared with wider bounds.
func TestModelAgreesWithSim(t *testing.T) {
	g := &grounds{t: t, bin: binaries(t), dir: t.TempDir()}
	loads := []string{"0.7", "0.9", "1.5"}
	if testing.Short() {
		loads = loads[2:]
	}
	controllers := []string{"none", "fixed", "codel"}
	simulated := g.run("sim", controllers, loads)
	if len(simulated) != len(controllers)*len(loads) {
		t.Fatalf("%d points on sim", len(simulated))
	}
	modelled := g.run("model", controllers, loads, "--time-scale", strconv.Itoa(testScale))
	slow := g.compare(simulated, modelled, false)
	if slow == nil {
		return
	}
	scale := min(max(slow.scale, testScale), maxTestScale)
	t.Logf("this computer did not keep up at %d points; once more with the time scale %d", len(slow.points), scale)
	again := g.run("model", slow.controllers, slow.loads, "--time-scale", strconv.Itoa(scale))
	for tag := range simulated {
		if !slices.Contains(slow.points, tag) {
			delete(simulated, tag)
		}
	}
	if slow = g.compare(simulated, again, true); slow != nil && !t.Failed() {
		t.Skipf("this computer is too slow or too busy for the model ground: %s were not compared; the time scale would have to be %d",
			strings.Join(slow.points, ", "), slow.scale)
	}
}

// grounds runs model-check.
type grounds struct {
	t        *testing.T
	bin, dir string
	runs     int
}

// point is the rows of one point, and the time scale that it would have needed; 0 when it had it.
type point struct {
	rows  []report.Row
	scale int
}

// run measures and returns the points by controller and load.
func (g *grounds) run(on string, controllers, loads []string, more ...string) map[string]*point {
	g.t.Helper()
	g.runs++
	out := filepath.Join(g.dir, strconv.Itoa(g.runs))
	args := append([]string{
		"run", "model-check", "--on", on, "--out", out, "--quiet", "--repeats", "1", "--warmup", "3ms", "--window", "10ms", "--set", "drain=5ms",
		"--set", "timeout=10ms", "--controllers", strings.Join(controllers, ","), "--set", "load={of_capacity: [" + strings.Join(loads, ", ") + "]}",
	}, more...)
	cmd := exec.Command(filepath.Join(g.bin, "loadgen"), args...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	// Points that are not valid are dealt with below.
	if err := cmd.Run(); err != nil && cmd.ProcessState.ExitCode() != exitInvalid {
		g.t.Fatalf("%v: %v\n%s", cmd.Args, err, said.String())
	}
	run, err := report.ReadDir(out)
	if err != nil {
		g.t.Fatal(err)
	}
	points := map[string]*point{}
	for i := range run.Rows {
		tag := run.Rows[i].Controller + " at " + run.Rows[i].Load()
		if points[tag] == nil {
			points[tag] = &point{}
		}
		points[tag].rows = append(points[tag].rows, run.Rows[i])
	}
	for i := range run.Manifest.Points {
		f := &run.Manifest.Points[i]
		points[f.Controller+" at "+f.Load].scale = f.SmallestScale
	}
	return points
}

// tooSlow is what could not be compared because the computer did not keep up.
type tooSlow struct {
	points, controllers, loads []string
	scale                      int
}

// compare holds the points on the two grounds against each other, and returns those for which that cannot be done. The last time, a point
// without the server's figures is wrong: they are read whether or not the computer is busy, if not always in time.
func (g *grounds) compare(simulated, modelled map[string]*point, last bool) (slow *tooSlow) {
	note := func(list *[]string, s string) {
		if !slices.Contains(*list, s) {
			*list = append(*list, s)
		}
	}
	for tag, s := range simulated {
		m := modelled[tag]
		if m == nil || len(s.rows) != len(m.rows) {
			g.t.Errorf("%s was measured on sim and not on model", tag)
			continue
		}
		// A generator that is late for its SLO is late because the computer is busy, as a message is.
		// So is whoever reads the server's figures, who then has none from near the ends of the window.
		_, read := m.rows[0].CPURatio.Get()
		if w := m.rows[0].Warnings; slices.Contains(w, "scale_too_small") || slices.Contains(w, "send_lag") || !read && !last {
			if slow == nil {
				slow = &tooSlow{}
			}
			note(&slow.points, tag)
			note(&slow.controllers, s.rows[0].Controller)
			note(&slow.loads, s.rows[0].LoadFactor)
			slow.scale = max(slow.scale, m.scale)
			continue
		}
		for i := range s.rows {
			agree(g.t, &s.rows[i], &m.rows[i])
		}
	}
	return slow
}

// agree holds one class of one point on the two grounds against each other.
func agree(t *testing.T, s, m *report.Row) {
	where := fmt.Sprintf("%s at %s, class %s", s.Controller, s.Load(), s.Class)
	if !m.Valid || !s.Valid {
		t.Errorf("%s is not valid: sim %v, model %v", where, s.Warnings, m.Warnings)
	}
	if s.Tag() != m.Tag() || s.Fates.Arrivals() != m.Fates.Arrivals() {
		t.Errorf("%s: %d arrivals on sim, %d on model (%s)", where, s.Fates.Arrivals(), m.Fates.Arrivals(), m.Tag())
	}
	within := func(what string, sim, model report.Value, bound float64) {
		a, known1 := sim.Get()
		b, known2 := model.Get()
		if known1 != known2 || math.Abs(a-b) > bound*max(a, b) {
			t.Errorf("%s: %s is %v on sim and %v on model, more than %.0f %% apart", where, what, sim, model, 100*bound)
		}
		t.Logf("%s: %s %v on sim, %v on model", where, what, sim, model)
	}
	within("goodput", s.GoodputRPS, m.GoodputRPS, 0.05)
	if s.Controller != "none" {
		within("p99", s.Latency.P99, m.Latency.P99, 0.15)
	}
	for name, pair := range map[string][2]report.Value{
		"optimum": {s.OptimumRPS, m.OptimumRPS}, "ceiling": {s.CeilingRPS, m.CeilingRPS}, "target": {s.OfferedTargetRPS, m.OfferedTargetRPS},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %s is %v on sim and %v on model", where, name, pair[0], pair[1])
		}
	}
	if _, known := m.CPURatio.Get(); !known || m.MemBWSource != "model" {
		t.Errorf("%s: cpu_ratio %v and membw %v (%s) on model", where, m.CPURatio, m.MemBWBytesPerS, m.MemBWSource)
	}
}
