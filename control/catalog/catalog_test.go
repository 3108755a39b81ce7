package catalog_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/clock"
	"spillway/control"
	"spillway/control/catalog"
)

var env = catalog.Env{Cores: 2, SLO: 500 * time.Microsecond}

// inside compares what types do not export; noFuncs leaves out functions, which cannot be compared.
var (
	inside  = cmp.Exporter(func(reflect.Type) bool { return true })
	noFuncs = cmp.FilterPath(func(p cmp.Path) bool { return p.Last().Type().Kind() == reflect.Func }, cmp.Ignore())
)

func TestEveryEntryIsDocumented(t *testing.T) {
	t.Parallel()
	for _, name := range catalog.Names() {
		e, ok := catalog.Describe(name)
		if !ok || e.Name != name || e.Summary == "" {
			t.Errorf("%s: described as %+v", name, e)
		}
		for _, s := range e.Settings {
			if s.Name == "" || s.Type == "" || s.Default == "" || s.Doc == "" {
				t.Errorf("%s: setting %+v is not fully described", name, s)
			}
		}
	}
	if e, ok := catalog.Describe("nobody"); ok {
		t.Errorf("described a controller that does not exist: %+v", e)
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	e, _ := catalog.Describe("fixed")
	want := []catalog.Setting{
		{Name: "limit", Type: "int", Default: "0", Unit: "requests", Doc: "at most this many in service at once; 0 stands for the number of cores"},
		{Name: "queue", Type: "int", Default: "128", Unit: "requests", Doc: "at most this many waiting; one more is rejected on arrival"},
	}
	if diff := cmp.Diff(want, e.Settings[:e.Common]); diff != "" {
		t.Error(diff)
	}
}

// The printed default of every setting must be what it says: given back as text, it builds the same controller.
func TestDefaultsAreAccepted(t *testing.T) {
	t.Parallel()
	for _, name := range catalog.Names() {
		e, _ := catalog.Describe(name)
		var list []string
		for _, s := range e.Settings {
			list = append(list, s.Name+"="+s.Default)
		}
		settings, err := catalog.ParseSettings(list)
		if err != nil {
			t.Fatal(err)
		}
		explicit, err := catalog.New(name, settings, env)
		if err != nil {
			t.Fatal(err)
		}
		implicit, err := catalog.New(name, nil, env)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(explicit, implicit, inside, noFuncs); diff != "" {
			t.Errorf("%s: with its defaults given (-) and without (+):\n%s", name, diff)
		}
	}
}

// TestEveryControllerHasATranscript holds contributors to the readable specification that CONTRIBUTING asks for.
func TestEveryControllerHasATranscript(t *testing.T) {
	t.Parallel()
	var all bytes.Buffer
	control := os.DirFS("..")
	err := fs.WalkDir(control, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.Contains(path, "testdata/") || !strings.HasSuffix(path, ".txt") {
			return err
		}
		text, err := fs.ReadFile(control, path)
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range catalog.Names() {
		if !bytes.Contains(all.Bytes(), []byte("\n"+name+"\n")) && !bytes.Contains(all.Bytes(), []byte("\n"+name+" ")) {
			t.Errorf("no file under control/**/testdata shows what %s does", name)
		}
	}
}

func TestNewTakesYAMLValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		settings map[string]any
		want     string
	}{
		{"fixed", map[string]any{"limit": 7, "queue": uint64(9)}, "&{limit:7 queue:9 waiting:0 inService:0}"},
		{"fixed", map[string]any{"queue": int64(0)}, "&{limit:2 queue:0 waiting:0 inService:0}"},
		{"codel", map[string]any{"target": "200us", "interval": 4 * time.Millisecond}, "{Target:200000 Interval:4000000}"},
	} {
		got, err := catalog.New(c.name, c.settings, env)
		if err != nil {
			t.Errorf("%s %v: %v", c.name, c.settings, err)
		} else if s := fmt.Sprintf("%+v", got.Controller); !strings.Contains(s, c.want) {
			t.Errorf("%s %v is %s, want %s", c.name, c.settings, s, c.want)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		settings map[string]any
		want     string
	}{
		{"codle", nil, `unknown controller "codle"; did you mean "codel"?`},
		{"", nil, `unknown controller ""; known are ` + strings.Join(catalog.Names(), ", ")},
		{"zzzzzzzz", nil, `unknown controller "zzzzzzzz"; known are ` + strings.Join(catalog.Names(), ", ")},
		{"codel", map[string]any{"traget": "5ms"}, `controller codel: unknown setting "traget"; did you mean "target"?`},
		{"codel", map[string]any{"Target": "5ms"}, `controller codel: unknown setting "Target"; did you mean "target"?`},
		{"codel", map[string]any{"zzz": 1, "aaaaaa": 1}, `controller codel: unknown setting "aaaaaa"; known are target, interval, section, bandit, alpha, omega, epsilon, period, bw_window, capacity, section_target`},
		{"none", map[string]any{"limit": 1}, `controller none: unknown setting "limit"; known are section, bandit, alpha, omega, epsilon, period, bw_window, capacity, target`},
		{"codel", map[string]any{"target": 5}, `controller codel: target is 5, must be a duration with a unit, such as 200us, 5ms or 1.5s`},
		{"codel", map[string]any{"target": "5"}, `controller codel: target is "5", must be a duration such as 200us, 5ms or 1.5s`},
		{"codel", map[string]any{"target": "0s"}, `controller codel: target is 0s, must be above 0`},
		{"codel", map[string]any{"interval": "-1ms"}, `controller codel: interval is -1ms, must be above 0`},
		{"fixed", map[string]any{"limit": -1}, `controller fixed: limit is -1, must not be negative`},
		{"fixed", map[string]any{"limit": 1, "queue": -3}, `controller fixed: queue is -3, must not be negative`},
		{"fixed", map[string]any{"limit": 1.5}, `controller fixed: limit is 1.5, must be a whole number`},
		{"fixed", map[string]any{"limit": "8"}, `controller fixed: limit is "8", must be a whole number`},
		{"fixed", map[string]any{"limit": uint64(1 << 63)}, `controller fixed: limit is 9223372036854775808, must be a whole number`},
		{"fixed", map[string]any{"limit": nil}, `controller fixed: limit is empty, must be a whole number`},
		{"svalinn", map[string]any{"utility": "power"}, `controller svalinn: utility is power, and nothing here measures energy; set utility to throughput, goodput, delay or drop`},
	} {
		_, err := catalog.New(c.name, c.settings, env)
		if err == nil || err.Error() != c.want {
			t.Errorf("%s %v:\n got %v\nwant %s", c.name, c.settings, err, c.want)
		}
	}
	if _, err := catalog.New("fixed", nil, catalog.Env{}); err == nil || !strings.Contains(err.Error(), "set limit") {
		t.Errorf("fixed without a limit and without cores: %v", err)
	}
	measured := env
	measured.Energy = true
	if _, err := catalog.New("svalinn", map[string]any{"utility": "power"}, measured); err != nil {
		t.Errorf("by power, where energy is measured: %v", err)
	}
}

func TestParseSettings(t *testing.T) {
	t.Parallel()
	got, err := catalog.ParseSettings([]string{"a=1", "b=-2.5", "c=true", "d=false", "e=5ms", "f=", "g=x=y", "h=1e3", "i=inf", "j=0x1p4"})
	want := map[string]any{
		"a": int64(1), "b": -2.5, "c": true, "d": false, "e": "5ms", "f": "", "g": "x=y", "h": 1000.0, "i": "inf", "j": "0x1p4",
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, %s", err, diff)
	}
	for list, want := range map[string]string{
		"limit":   `setting "limit": want key=value`,
		"=1":      `setting "=1": want key=value`,
		"a=1 a=2": `setting "a=2": a is given twice`,
	} {
		if _, err := catalog.ParseSettings(strings.Fields(list)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", list, err, want)
		}
	}
}

// arriveAndFinish passes n requests through a Gate: one in service, the others waiting for it when the controller lets them.
type arriveAndFinish struct {
	gate *control.Gate
	now  clock.Instant
	id   uint64
	out  []control.Action
}

func (a *arriveAndFinish) pass(n int) {
	start := len(a.out)
	for range n {
		a.id++
		a.now += 1000
		a.out = a.gate.Arrive(a.now, control.Request{ID: a.id}, a.out)
	}
	for i := start; i < len(a.out); i++ { // grows while those that waited start
		if a.out[i].Kind == control.Start {
			a.now += 1000
			a.out = a.gate.Finish(a.now, a.out[i].Request, 1000, false, a.out)
		}
	}
	a.out = a.out[:0]
}

func TestDecisionsDoNotAllocate(t *testing.T) {
	for _, name := range catalog.Names() {
		for _, n := range []int{1, 1000} {
			t.Run(fmt.Sprint(name, n), func(t *testing.T) {
				c, err := catalog.New(name, nil, env)
				if err != nil {
					t.Fatal(err)
				}
				a := &arriveAndFinish{gate: control.NewGate(control.NewChain(c.Controller, control.None{}), control.GateConfig{Slots: 1})}
				a.pass(n) // the queue grows once
				if allocs := testing.AllocsPerRun(100, func() { a.pass(n) }); allocs != 0 {
					t.Errorf("%v allocations", allocs)
				}
				if s := a.gate.Stats(); s.InService != 0 || s.Queued != 0 {
					t.Errorf("left behind: %+v", s)
				}
			})
		}
	}
}

// BenchmarkGate measures what overload control costs a request: its arrival, its start and its finish, with nobody waiting and
// behind a queue of 100.
func BenchmarkGate(b *testing.B) {
	for _, name := range catalog.Names() {
		for _, n := range []int{1, 100} {
			b.Run(fmt.Sprintf("%s/together=%d", name, n), func(b *testing.B) {
				c, err := catalog.New(name, nil, env)
				if err != nil {
					b.Fatal(err)
				}
				a := &arriveAndFinish{gate: control.NewGate(c.Controller, control.GateConfig{Slots: 1})}
				b.ReportAllocs()
				for b.Loop() {
					a.pass(n)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/request")
			})
		}
	}
}

// TestNumbersAreFinite: no setting of any controller takes what is no number, or one without end.
func TestNumbersAreFinite(t *testing.T) {
	t.Parallel()
	tried := 0
	for _, name := range catalog.Names() {
		e, _ := catalog.Describe(name)
		for _, s := range e.Settings {
			if s.Type != "float" {
				continue
			}
			for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
				tried++
				_, err := catalog.New(name, map[string]any{s.Name: x}, env)
				if err == nil || !strings.Contains(err.Error(), s.Name+" is ") {
					t.Errorf("%s with %s %v: %v", name, s.Name, x, err)
				}
			}
		}
	}
	if tried < 100 {
		t.Errorf("only %d settings were tried", tried)
	}
}
