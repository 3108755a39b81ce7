//go:build linux

package harness

import (
	"encoding/csv"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spillway/control/catalog"
	"spillway/internal/graphdb"
	"spillway/profiles"
	"spillway/report"
)

// shortened runs some controllers of a shipped profile with a short warm-up and window, two windows of Bouncer together, and returns the results
// with the outcomes of the claims that are about what was run.
func shortened(t *testing.T, name, controllers string, set ...string) (*report.Run, []report.ClaimResult) {
	t.Helper()
	p := shippedProfile(t, name, append([]string{"warmup=10s", "window=10s"}, set...)...)
	p, err := p.WithControllers(strings.Split(controllers, ","), catalog.Names())
	if err != nil {
		t.Fatal(err)
	}
	run := simulate(t, p, 2)
	decided := slices.DeleteFunc(run.Claims(), func(r report.ClaimResult) bool { return r.Outcome == report.Undecided })
	return run, decided
}

// TestBouncerSimulationMeetsFluidLimits runs the shipped profile, shortened, over three seeds: every claim about Bouncer at the loads that were run
// holds. They are the fluid limits with their tolerances (reference: notes, section 1.8).
func TestBouncerSimulationMeetsFluidLimits(t *testing.T) {
	t.Parallel()
	loads, repeats, claims := "load.of_capacity=[1.2, 1.5]", "repeats=3", 20
	if testing.Short() {
		loads, repeats, claims = "load.of_capacity=[1.2]", "repeats=1", 15
	}
	run, decided := shortened(t, "bouncer-simulation", "bouncer", loads, repeats)
	for _, r := range decided {
		if r.Claim.Class == "fast" && r.Claim.At != "" {
			continue // the median wait itself, which so short a window does not settle to 5 %
		}
		if r.Outcome != report.Holds {
			t.Errorf("%s: %s, ours is %v", r.Claim.Text, r.Outcome, r.Ours)
		}
	}
	if len(decided) < claims {
		t.Errorf("only %d claims were decided, want %d", len(decided), claims)
	}
	checkAttainments(t, run)
}

// checkAttainments holds slo.csv against the fluid limit: classes with headroom to spare meet both objectives, and slow, whose headroom the wait
// settles at, has both percentiles at most 5 % beyond them, unless it is starved.
func checkAttainments(t *testing.T, run *report.Run) {
	t.Helper()
	var text strings.Builder
	if err := report.WriteSLO(&text, run); err != nil {
		t.Fatal(err)
	}
	records, err := csv.NewReader(strings.NewReader(text.String())).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]int{}
	for i, name := range records[0] {
		at[name] = i
	}
	seen := map[string]int{}
	for _, r := range records[1:] {
		class, percentile := r[at["class"]], r[at["percentile"]]
		seen[class+" "+percentile]++
		number := func(column string) float64 {
			v, err := strconv.ParseFloat(r[at[column]], 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		objective := map[string]float64{"50": 18e3, "90": 50e3}[percentile]
		if number("objective_us") != objective {
			t.Errorf("the objective is not that of the profile: %v", r)
		}
		if starved := class == "slow" && number("offered_target_rps") > 22e3; !starved && number("measured_us") > 1.05*objective {
			t.Errorf("more than 5 %% beyond its objective: %v", r)
		}
		if class != "slow" && (r[at["met"]] != "true" || number("share_within") <= 0) {
			t.Errorf("not met: %v", r)
		}
	}
	for _, class := range []string{"fast", "medium-fast", "medium-slow", "slow"} {
		if seen[class+" 50"] != len(run.Manifest.Points) || seen[class+" 90"] != len(run.Manifest.Points) {
			t.Errorf("%d points, and of class %s %v", len(run.Manifest.Points), class, seen)
		}
	}
}

// TestBouncerStarvationByGuards runs the shipped profile, shortened, at the load where plain Bouncer starves a class: both guards end that, at their
// equilibria, for what the fluid limit says it costs.
func TestBouncerStarvationByGuards(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("simulates minutes of a hundred processes")
	}
	_, decided := shortened(t, "bouncer-starvation", "bouncer,allowance-5,allowance-10,underserved-10,underserved-100", "load.of_capacity=[1.5]", "repeats=1")
	for _, r := range decided {
		if r.Outcome != report.Holds {
			t.Errorf("%s: %s, ours is %v", r.Claim.Text, r.Outcome, r.Ours)
		}
	}
	if len(decided) != 22 {
		t.Errorf("%d claims were decided, want the 22 of this load", len(decided))
	}
}

// TestBouncerProfilesCanRun: each is accepted on the grounds that its text speaks of.
func TestBouncerProfilesCanRun(t *testing.T) {
	t.Parallel()
	all := []string{groundSim, groundModel, groundHost}
	for _, name := range []string{"bouncer-simulation", "bouncer-starvation", "bouncer-parallelism", "bouncer-windows", "bouncer-graph"} {
		set := []string{"seed=1"}
		if name == "bouncer-graph" {
			set = append(set, "server.settings.vertices=2000") // a smaller graph, which is made in no time
		}
		p := shippedProfile(t, name, set...)
		want := all
		if len(p.Variants) > 0 {
			want = all[:2] // on host the capacity of several variants is not searched
		}
		if got := Grounds(p); !slices.Equal(got, want) {
			t.Errorf("%s can be run on %v, want %v", name, got, want)
		}
	}
}

const graphText = `name: graph
on: sim
machine: {cores: 4, network: 5us}
server: {kind: graph, settings: {vertices: 3000, degree: 8, labels: 3}}
workload:
  kind: graph
  connections: 4
  classes:
    - {name: near, share: 0.5, slo: 1ms, query: neighbours, popularity: "zipf:0.9"}
    - {name: two, share: 0.3, slo: {p50: 500us, p99: 1ms}, query: two-hop}
    - {name: rank, share: 0.1, query: pagerank, accuracy: 0.001}
    - {name: exact, share: 0.1, query: pagerank}
load: {of_capacity: [0.6]}
controllers: [{name: none}, {name: bouncer, settings: {window: 10ms}}]
warmup: 20ms
window: 100ms
repeats: 1
`

func graphProfile(t *testing.T, replace ...string) *profiles.Profile {
	t.Helper()
	p, err := profiles.Parse("graph.yaml", []byte(strings.NewReplacer(replace...).Replace(graphText)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestGraphIsSimulated: queries cost what their answers look at. The capacity, which follows from the mean cost of each class, is the rate at which
// the cores are full; a query that is answered more accurately takes longer.
func TestGraphIsSimulated(t *testing.T) {
	t.Parallel()
	small := []string{"query: pagerank}", "query: pagerank, accuracy: 0.0001}", "window: 100ms", "window: 30ms"} // queries are answered in earnest
	run := simulate(t, graphProfile(t, small...), 1)
	service := map[string]float64{}
	for i := range run.Rows {
		r := &run.Rows[i]
		if r.Controller != "none" {
			continue
		}
		if service[r.Class] = value(t, r.ServiceMean); r.Class == report.AllClasses {
			if cpu := value(t, r.CPURatio); cpu < 0.57 || cpu > 0.63 {
				t.Errorf("at 0.6 of the capacity the cores are busy %.3f of the time", cpu)
			}
		}
	}
	if !(service["near"] < service["two"] && service["two"] < service["rank"] && service["rank"] < service["exact"]) {
		t.Errorf("mean service times %v", service)
	}
	again := simulate(t, graphProfile(t, small...), 2)
	if diff := cmp.Diff(run.Rows, again.Rows, cmp.AllowUnexported(report.Value{})); diff != "" {
		t.Errorf("the same seed gives other rows (-first +second):\n%s", diff)
	}
}

func TestGraphSettings(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"vertices: 1,":        "vertices must be between 2",
		"vertices: many,":     "graph.yaml:4:34: server.settings.vertices: \"many\" is not a whole number",
		"exponent: 2,":        "exponent of the degrees must be above 2",
		"degree: -1,":         "mean degree must be above 0",
		"graph_seed: -1,":     "graph_seed: \"-1\" is not a whole number from 0",
		"types: 300,":         "labels and types are between 1 and 256",
		"edges: '-',":         "read from a file",
		"edges: /nowhere,":    "server.settings.edges",
		"parallelism: -1,":    "is not a whole number from 0",
		"vertexes: 3000,":     `did you mean "vertices"?`,
		"costs: memcached,":   `graph has no setting "costs"`,
		"degree: 2000000000,": "all edges together at most",
	} {
		if !strings.HasPrefix(text, "vert") {
			text = "vertices: 3000, " + text // a small graph is made in no time
		}
		p := graphProfile(t, "vertices: 3000, degree: 8,", text)
		err := refuse(p)
		if err == nil {
			_, err = newModelled(p)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one about %q", text, err, want)
		}
	}
	// How many are answered at once is of this computer; a modelled machine has its cores.
	p := graphProfile(t, "degree: 8", "graph_seed: 7, parallelism: 3, threads: 1")
	for on, want := range map[string]string{
		groundHost:  "--graph-seed 7 --labels 3 --parallelism 3 --threads 1 --vertices 3000",
		groundModel: "--graph-seed 7 --labels 3 --vertices 3000",
	} {
		moved := *p
		moved.On = on
		if flags, err := serverFlags(&moved); err != nil || strings.Join(flags, " ") != want {
			t.Errorf("on %s: %q, %v; want %q", on, flags, err, want)
		}
	}
	if s, err := shapeOf(p); err != nil || s != (graphdb.Shape{Vertices: 3000, Degree: 16, Exponent: 2.3, Labels: 3, Types: 4, Seed: 7}) {
		t.Errorf("shape %+v, %v", s, err)
	}
}

// TestServersAreToldTheClasses: each kind of workload has flags by which a server of ours knows its classes and their objectives.
func TestServersAreToldTheClasses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		p    *profiles.Profile
		want string
	}{
		{
			graphProfile(t), "--class near=n/* --class two=2/* --class rank=r/*/0.001 --class exact=r/* " +
				"--class-slo near=1ms --class-slo two=p50:500us,p99:1ms",
		},
		{modelledProfile(t), "--class cpu=*#cpu --class memory=*#memory --class-slo cpu=1ms --class-slo memory=1ms"},
		{
			profile(t, "slo: 10ms, keys", "key: 'user:', keys"), "--class a=user:* --class b=b-* --class-slo b=20ms",
		},
	} {
		w, err := asked(tt.p, graphSize{10, 1})
		if err != nil {
			t.Fatal(err)
		}
		if flags, err := tellApart(tt.p, w); err != nil || strings.Join(flags, " ") != tt.want {
			t.Errorf("%s: %q, %v; want %q", tt.p.Name, flags, err, tt.want)
		}
	}
}

// TestClassesThatCannotBeTold: a controller that judges by class is refused where its server could not tell the classes apart; others are not.
func TestClassesThatCannotBeTold(t *testing.T) {
	t.Parallel()
	p := graphProfile(t, "on: sim", "on: host", "accuracy: 0.001", "accuracy: 0.01", "query: pagerank}", "query: pagerank, accuracy: 0.01}")
	want := "graph.yaml:14:30: controllers: bouncer judges by class: classes rank and exact ask for the same keys, so a server cannot tell them apart"
	if err := refuseClasses(p); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
	without, err := p.WithControllers([]string{"none"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := refuseClasses(without); err != nil {
		t.Errorf("without a controller that judges by class: %v", err)
	}
	simulated := graphProfile(t, "accuracy: 0.001", "accuracy: 0.01", "query: pagerank}", "query: pagerank, accuracy: 0.01}")
	if err := refuseClasses(simulated); err != nil {
		t.Errorf("in a simulation, which knows the class of a request: %v", err)
	}
}
