package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"spillway/internal/hist"
)

// at makes a row with a goodput and a p99 in microseconds.
func at(controller string, rate float64, repeat int, goodput, p99 float64) Row {
	return Row{
		Profile: "p", Controller: controller, OfferedTargetRPS: Known(rate), Repeat: repeat, Class: AllClasses, GoodputRPS: Known(goodput), Valid: true,
		OptimumRPS: Known(100), CeilingRPS: Known(50), Latency: Latency{P99: Known(p99)},
	}
}

// decided runs one claim over rows and writes its lines shortly.
func decided(c Claim, rows []Row, change ...func(*Run)) string {
	if c.Controller == "" {
		c.Controller = "ours"
	}
	run := &Run{Manifest: Manifest{Name: "p", Claims: []Claim{c}}, Rows: rows}
	for _, f := range change {
		f(run)
	}
	var lines []string
	for _, r := range run.Claims() {
		text := string(r.Outcome)
		if r.Ours.Value.known {
			text += " " + r.ours() + " at " + r.taken()
		}
		if len(r.Reasons) > 0 {
			text += ": " + strings.Join(r.Reasons, "; ")
		}
		if len(r.Remarks) > 0 {
			text += " (" + strings.Join(r.Remarks, "; ") + ")"
		}
		lines = append(lines, text)
	}
	return strings.Join(lines, "\n")
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	// Goodput over base: 2 at 100, 4 at 200, 3 at 300; p99 over base: 2, 5, 1.
	rows := func(change ...func([]Row)) []Row {
		list := []Row{
			at("base", 100, 1, 50, 200), at("base", 200, 1, 50, 500), at("base", 300, 1, 50, 300),
			at("ours", 100, 1, 100, 100), at("ours", 200, 1, 200, 100), at("ours", 300, 1, 150, 300),
		}
		for _, f := range change {
			f(list)
		}
		return list
	}
	invalid := func(i int) func([]Row) {
		return func(list []Row) { list[i].Valid, list[i].Warnings = false, []string{"little"} }
	}
	unconverged := func(i int) func([]Row) { return func(list []Row) { list[i].Warnings = []string{warnUnconverged} } }
	goodput := func(take string) Claim {
		return Claim{Metric: metricGoodput, Over: []string{"base"}, Take: take, HoldsAt: Known(3)}
	}
	with := func(c Claim, f func(*Claim)) Claim { f(&c); return c }
	for name, tt := range map[string]struct {
		claim Claim
		rows  []Row
		want  string
	}{
		"largest":        {goodput(""), rows(), "holds 4.00× at 200"},
		"least":          {goodput("min"), rows(), "does not hold 2.00× at 100 (cannot hold: at most 2.00× is to be gained over a single queue on this machine)"},
		"mean":           {goodput("mean"), rows(), "holds 3.00× at mean of all"},
		"first":          {goodput("first"), rows(), "does not hold 2.00× at 100 (cannot hold: at most 2.00× is to be gained over a single queue on this machine)"},
		"last":           {goodput("last"), rows(), "holds 3.00× at 300"},
		"unheard of":     {goodput("median"), rows(), "undecided: there is no way to take median of several loads"},
		"one load":       {with(goodput(""), func(c *Claim) { c.At = "100" }), rows(), "does not hold 2.00× at 100 (cannot hold: at most 2.00× is to be gained over a single queue on this machine)"},
		"another load":   {with(goodput(""), func(c *Claim) { c.At = "400" }), rows(), "undecided: nothing was measured at 400 so far"},
		"less is better": {Claim{Metric: "latency_p99_us", Over: []string{"base"}, HoldsAt: Known(5)}, rows(), "holds 5.00× at 200"},
		"plain":          {Claim{Metric: "latency_p99_us", HoldsUnder: Known(250)}, rows(), "does not hold 300 µs at 300"},
		"plain, holds":   {Claim{Metric: "latency_p99_us", HoldsUnder: Known(300)}, rows(), "holds 300 µs at 300"},
		"between":        {Claim{Metric: metricGoodput, Take: "min", HoldsAt: Known(90), HoldsUnder: Known(110)}, rows(), "holds 100 at 100"},
		"not between":    {Claim{Metric: metricGoodput, Take: "min", HoldsAt: Known(90), HoldsUnder: Known(95)}, rows(), "does not hold 100 at 100"},
		"no threshold":   {Claim{Metric: metricGoodput, Take: "min"}, rows(), "undecided 100 at 100: the claim has no threshold"},
		"share":          {Claim{Metric: metricOptimumShare, Take: "first", HoldsAt: Known(0.97)}, rows(), "holds 100.0 % at 100"},

		// A doubtful load does no harm where another is enough, and decides where all have to hold.
		"one invalid, another holds": {
			goodput(""), rows(invalid(2)),
			"holds 4.00× at 200 (not counted, and without influence on the outcome: base at 300, repeat 1, is not valid (little))",
		},
		"the one that would hold is invalid": {
			goodput(""), rows(invalid(4), func(l []Row) { l[5].GoodputRPS = Known(100) }), "undecided 2.00× at 100: ours at 200, repeat 1, is not valid (little)",
		},
		"one invalid, all must": {
			with(goodput("min"), func(c *Claim) { c.HoldsAt = Known(1) }), rows(invalid(4)), "undecided 2.00× at 100: ours at 200, repeat 1, is not valid (little)",
		},
		"one fails anyhow": {
			goodput("min"), rows(invalid(4)),
			"does not hold 2.00× at 100 (cannot hold: at most 2.00× is to be gained over a single queue on this machine; not counted, and without influence on the outcome: ours at 200, repeat 1, is not valid (little))",
		},
		"unconverged": {
			with(goodput(""), func(c *Claim) { c.At = "200" }), rows(unconverged(1)), "undecided 4.00× at 200: base had not converged at 200 in 1 of 1 repeats",
		},
		"missing":         {goodput("last"), rows()[:5], "undecided: ours has no row of class all at 300"},
		"missing class":   {with(goodput("first"), func(c *Claim) { c.Class = "get" }), rows(), "undecided: ours has no row of class get at 100; base has no row of class get at 100"},
		"no answer":       {Claim{Metric: "latency_p99_us", Take: "first", HoldsUnder: Known(1)}, rows(func(l []Row) { l[3].Latency.P99 = Value{} }), "undecided: ours has no latency_p99_us at 100"},
		"nothing over":    {goodput("first"), rows(func(l []Row) { l[0].GoodputRPS = Known(0) }), "undecided: goodput_rps of base is 0 at 100, so there is no ratio"},
		"nothing dropped": {Claim{Metric: "dropped", Over: []string{"base"}, Take: "first", HoldsAt: Known(1)}, rows(), "undecided: dropped of ours is 0 at 100, so there is no ratio"},
		"its own fault": {
			with(goodput(""), func(c *Claim) { c.At = "200" }), rows(func(l []Row) { l[1].GoodputRPS = Known(40) }),
			"holds 5.00× at 200 (base served 40.0 of class all at 200, 80.0 % of the single-queue ceiling: less than it had to, by its own fault; above the limit of 2.00× for that reason)",
		},
		"regret":           {Claim{Metric: metricRegret, Controller: "base", Over: []string{"ours"}, Take: "first", HoldsUnder: Known(0.4)}, rows(), "does not hold 50.0 % at 100"},
		"regret of no one": {Claim{Metric: metricRegret, HoldsUnder: Known(0.4)}, rows(), "undecided: no controller of the run is told the best capacity, so there is nothing to regret"},
		"out of reach": {
			with(goodput(""), func(c *Claim) { c.At = "200" }), rows(func(l []Row) { l[1].GoodputRPS, l[4].GoodputRPS = Known(40), Known(60) }),
			"does not hold 1.50× at 200 (could hold by the baseline's fault only: at most 2.00× is to be gained over a single queue on this machine; " +
				"base served 40.0 of class all at 200, 80.0 % of the single-queue ceiling: less than it had to, by its own fault)",
		},
	} {
		if got := decided(tt.claim, tt.rows); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, tt.want)
		}
	}
}

func TestOutcomesOfRepeats(t *testing.T) {
	t.Parallel()
	var rows []Row
	for repeat := 1; repeat <= 6; repeat++ {
		rows = append(rows, at("base", 100, repeat, 50, 1), at("ours", 100, repeat, float64(100+50*repeat), 1))
	}
	claim := Claim{Metric: metricGoodput, Over: []string{"base"}, HoldsAt: Known(5)}
	if got, want := decided(claim, rows[:6]), "does not hold 4.00× (3.00×–5.00×) at 100 (2 of 3 repeats are below the threshold)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	run := &Run{Manifest: Manifest{Claims: []Claim{claim}}, Rows: rows}
	run.Manifest.Claims[0].Controller = "ours"
	if r := run.Claims()[0]; r.Interval != IntervalMedian || r.Repeats != 6 || r.Ours.Low.String() != "3" || r.Ours.High.String() != "8" {
		t.Errorf("six repeats: %+v", r)
	}
	// A repeat that only one side has is not paired, and does not move the figure.
	rows[0].Valid, rows[0].Warnings = false, []string{"little"}
	if got, want := decided(claim, rows[:4]), "undecided 4.00× at 100: base at 100, repeat 1, is not valid (little)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	// A load that is missing may be the first, and the last.
	for _, take := range []string{takeFirst, takeLast, takeMean} {
		claim := claim
		claim.Take, claim.HoldsAt = take, Known(1)
		got := decided(claim, rows[2:6], func(r *Run) { r.Manifest.Planned, r.Manifest.Points = 9, make([]PointFacts, 4) })
		if !strings.HasPrefix(got, "undecided") || !strings.Contains(got, "only 4 of 9 points were measured") {
			t.Errorf("take %s: %s", take, got)
		}
		if got := decided(claim, rows[2:6]); !strings.HasPrefix(got, "holds") {
			t.Errorf("take %s of all there is: %s", take, got)
		}
	}
	got := decided(claim, rows[2:6], func(r *Run) { r.Manifest.Planned, r.Manifest.Points = 9, make([]PointFacts, 4) })
	if want := "undecided 4.50× (4.00×–5.00×) at 100: only 4 of 9 points were measured (1 of 2 repeats are below the threshold)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestBestBaseline(t *testing.T) {
	t.Parallel()
	rows := []Row{
		at("a", 100, 1, 50, 400), at("b", 100, 1, 80, 200), at("ours", 100, 1, 160, 100),
		at("a", 200, 1, 60, 100), at("b", 200, 1, 50, 200), at("ours", 200, 1, 120, 100),
	}
	got := decided(Claim{Metric: metricGoodput, Over: []string{"a", "b"}, HoldsAt: Known(2.1)}, rows)
	if want := "holds 3.20× at 100\nholds 2.40× at 200\ndoes not hold 2.00× at 100 (cannot hold: at most 2.00× is to be gained over a single queue on this machine; the best at 100 was b)"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	got = decided(Claim{Metric: "latency_p99_us", Over: []string{"a", "b"}, HoldsAt: Known(1.5)}, rows)
	if want := "holds 4.00× at 100\nholds 2.00× at 100\nholds 2.00× at 100 (the best at 100 was b)"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	rows[0].Warnings = []string{warnUnconverged}
	got = decided(Claim{Metric: metricGoodput, Over: []string{"a", "b"}, At: "100", HoldsAt: Known(2)}, rows)
	if lines := strings.Split(got, "\n"); !strings.HasPrefix(lines[2], "undecided 2.00× at 100: a had not converged") {
		t.Errorf("got\n%s", got)
	}
}

// TestClaimsOfVariants: a claim without a variant is held against each.
func TestClaimsOfVariants(t *testing.T) {
	t.Parallel()
	rows := []Row{at("ours", 100, 1, 50, 1), at("ours", 100, 1, 90, 1)}
	rows[0].Profile, rows[1].Profile = "p/slow", "p/fast"
	claim := Claim{Metric: metricGoodput, HoldsAt: Known(60)}
	if got, want := decided(claim, rows), "does not hold 50.0 at 100\nholds 90.0 at 100"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	claim.Variant = "fast"
	if got, want := decided(claim, rows), "holds 90.0 at 100"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	claim.Variant = "other"
	if got, want := decided(claim, rows), "undecided: nothing was measured of variant other so far"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if a, b := rows[0].Tag(), rows[1].Tag(); a != "slow/ours/100/1/all" || b != "fast/ours/100/1/all" {
		t.Errorf("tags %s, %s", a, b)
	}
}

func TestRegretFindsItsOracle(t *testing.T) {
	t.Parallel()
	rows := []Row{at("told", 100, 1, 100, 1), at("ours", 100, 1, 90, 1)}
	got := decided(Claim{Metric: metricRegret, HoldsUnder: Known(0.1001)}, rows, func(r *Run) {
		r.Manifest.Controllers = []ControllerInfo{{Label: "told", Settings: map[string]string{"bandit": "oracle"}}, {Label: "ours"}}
	})
	if want := "holds 10.0 % at 100"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestRegretSection: every bandit beside the one that is told.
func TestRegretSection(t *testing.T) {
	t.Parallel()
	run := &Run{Rows: []Row{at("told", 100, 1, 100, 1), at("ours", 100, 1, 90, 1), at("none", 100, 1, 10, 1)}}
	run.Manifest.Controllers = []ControllerInfo{{Label: "told", Settings: map[string]string{"bandit": "oracle"}}, {Label: "ours"}, {Label: "none"}}
	if !run.needsCapacity() {
		t.Error("the trace is not read")
	}
	run.capacity = map[string]series{"p/told/100/1": seriesOf(repeated(6, 41)...), "p/ours/100/1": seriesOf(append(repeated(4, 20), repeated(8, 21)...)...)}
	var b bytes.Buffer
	run.regretSection(&b)
	for _, want := range []string{"| 100 | told | 0.0 % | 6.00 | ≥ 0 |\n", "| 100 | ours | 10.0 % | 6.05 | ≥ 2.50 |\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "none") {
		t.Errorf("a controller without a section is there:\n%s", b.String())
	}
}

func TestSameLoad(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"2x", "2.0x", true}, {"2x", "2", false}, {"1000000", "1000000.0", true}, {"-", "-", true}, {"", "", true}, {"-", "1", false}, {"1x", "2x", false}, {"x", "", false},
	} {
		if got := sameLoad(tt.a, tt.b); got != tt.want {
			t.Errorf("%q and %q: %v", tt.a, tt.b, got)
		}
	}
}

// TestMetrics: every numeric column can be claimed of, once, and knows which way is better.
func TestMetrics(t *testing.T) {
	t.Parallel()
	less := map[string]bool{
		"goodput_rps": false, "latency_p99_us": true, "latency_mean_us": true, "drop_ratio": true, "shed_ratio": true, "expired": true, "ok": false,
		"optimum_share": false, "regret": true, "settle_us": true, "settle_max_us": true, "switches_per_s": true, "queue_p99_us": true, "cpu_ratio": false,
	}
	names := Metrics()
	for name, want := range less {
		if m, ok := metricNamed(name); !ok || m.less != want {
			t.Errorf("%s: known %v, less is better %v", name, ok, m.less)
		}
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) || name == "seed" || name == "repeat" || name == "profile" {
			t.Errorf("%s is among the metrics, or twice", name)
		}
	}
}

// TestPooledMetrics: percentiles of latency come from the merged histograms, others are the worst of the repeats, the rest are means.
func TestPooledMetrics(t *testing.T) {
	t.Parallel()
	run := &Run{Latency: map[string]*hist.Hist{}}
	for repeat := 1; repeat <= 2; repeat++ {
		r := at("ours", 100, repeat, float64(100*repeat), 0)
		r.QueueP99, r.Fates.OK = Known(float64(repeat)), 100
		h := hist.New()
		for range 100 {
			h.Record(time.Duration(repeat) * time.Millisecond)
		}
		r.Latency = Latency{P50: Known(float64(repeat) * 1000), P99: Known(float64(repeat) * 1000), Max: Known(float64(repeat) * 1000)}
		run.Rows = append(run.Rows, r)
		run.Latency[r.Tag()] = h
	}
	rows := []*Row{&run.Rows[0], &run.Rows[1]}
	for name, want := range map[string]string{"goodput_rps": "150", "latency_p99_us": "2000", "latency_p50_us": "1000.447", "queue_p99_us": "2", "latency_max_us": "2000"} {
		m, _ := metricNamed(name)
		if got := m.pooled(run, rows).value.String(); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// TestNamesCannotInject renders a run whose every text is hostile.
func TestNamesCannotInject(t *testing.T) {
	t.Parallel()
	const formulaText, markupText = "=cmd|'/C calc'!A0", "</td><script>alert(1)</script>\n# x | y \\| [a](javascript:b) ![i](http://h/x) `c` *e* _u_\x1b[2J\u202e"
	m := experimentManifest()
	m.Name, m.Title, m.Error, m.Paper = markupText, markupText, markupText, &Paper{Name: markupText, Figure: markupText}
	m.Argv = []string{"loadgen", "`\n# x"}
	m.Claims = []Claim{
		{Text: formulaText, Metric: metricGoodput, Controller: markupText, HoldsAt: Known(1), Note: "+1"},
		{Text: markupText, Metric: "@sum", Controller: "\t=1", Note: markupText, Variant: markupText},
	}
	m.Controllers = []ControllerInfo{{Label: "-a", Parts: []string{}}, {Label: markupText, Parts: []string{"=part", markupText}}}
	m.Classes = []Class{{Name: markupText, Objectives: []Objective{{50, 1}}}}
	run := &Run{Manifest: m, capacity: map[string]series{}}
	for _, label := range []string{"-a", markupText} {
		for _, class := range []string{markupText, AllClasses} {
			r := at(label, 100, 1, 10, 5)
			r.Profile, r.Class, r.Fates.OK, r.Warnings = "p/"+markupText, class, 5, []string{"drift"}
			run.Rows = append(run.Rows, r)
			run.capacity[traceKey(&r)] = seriesOf(repeated(1, 80)...)
		}
	}
	for name, write := range map[string]func(*bytes.Buffer) error{
		"claims":      func(b *bytes.Buffer) error { return WriteClaims(b, run) },
		"attribution": func(b *bytes.Buffer) error { return WriteAttribution(b, run) },
		"settling":    func(b *bytes.Buffer) error { return WriteSettling(b, run) },
		"slo":         func(b *bytes.Buffer) error { return WriteSLO(b, run) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		records, err := csv.NewReader(&b).ReadAll()
		if err != nil || len(records) < 2 {
			t.Fatalf("%s: %d records, %v", name, len(records), err)
		}
		for _, cell := range slices.Concat(records...) {
			if formula(cell) || strings.ContainsAny(cell, "\n\x1b\u202e") {
				t.Errorf("%s has the cell %q", name, cell)
			}
		}
	}
	var out, terminal bytes.Buffer
	if err := Markdown(&out, []*Run{run}); err != nil {
		t.Fatal(err)
	}
	sameCells(t, out.Bytes())
	for _, bad := range []string{"<script", "</td", "\x1b", "\u202e", "\n# x", " [a]", "![i]", "`c`", " *e*"} {
		if strings.Contains(out.String(), bad) {
			t.Errorf("the report has %q", bad)
		}
	}
	if err := Terminal(&terminal, run); err != nil || strings.ContainsAny(terminal.String(), "\x1b\u202e") {
		t.Errorf("the terminal is told to do something (%v)", err)
	}
}

func TestEscape(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"# a": `\# a`, "- a": `\- a`, "1. a": `1\. a`, "12) a": `12\) a`, "0.5x": "0.5x", "a - b": "a - b", "a|b": `a\|b`, `a\|b`: `a\\\|b`, "a\nb": "a b", "": "",
		"p99 < 5 & more": "p99 &lt; 5 &amp; more", "  x  ": "x", "===": `\===`, "goodput_rps": `goodput\_rps`, "x!": "x!",
	} {
		if got := escape(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	if got := code("a`b\nc"); got != "`a'b c`" {
		t.Errorf("code is %s", got)
	}
}

// TestManifestRoundTrip: what the harness says of an experiment comes back as it was said, and no parts are not the same as none.
func TestManifestRoundTrip(t *testing.T) {
	t.Parallel()
	m := experimentManifest()
	m.SchemaVersion = SchemaVersion
	m.Controllers = append(m.Controllers, ControllerInfo{Label: "seda", Name: "seda"})
	text, err := json.Marshal(&m)
	if err != nil {
		t.Fatal(err)
	}
	again, err := parseManifest(text, "m")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&m, again, cmp.AllowUnexported(Value{}), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
	if none, last := again.Controllers[0].Parts, again.Controllers[len(m.Controllers)-1].Parts; none == nil || last != nil {
		t.Errorf("parts are %#v and %#v", none, last)
	}
	var v Value
	if err := json.Unmarshal([]byte("null"), &v); err != nil || v.known {
		t.Errorf("null is %v, %v", v, err)
	}
	if err := json.Unmarshal([]byte(`"x"`), &v); err == nil {
		t.Error("a text is a number")
	}
	if text, _ := json.Marshal(Value{}); string(text) != "null" {
		t.Errorf("unknown is %s", text)
	}
}

// TestShareWithin holds the share against a count.
func TestShareWithin(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Int64Range(1, 2_000_000), 1, 60).Draw(t, "latencies")
		limit := time.Duration(rapid.Int64Range(1, 2_000_000).Draw(t, "limit"))
		if rapid.Bool().Draw(t, "one of them") {
			limit = time.Duration(list[0])
		}
		h := hist.New()
		surely, possibly := 0, 0
		for _, v := range list {
			h.Record(time.Duration(v))
			if v <= int64(limit) {
				surely++
			}
			if float64(v) <= float64(limit)*1.001+1 {
				possibly++
			}
		}
		got := shareWithin(h, limit, map[time.Duration]time.Duration{}) * float64(len(list))
		if got < float64(surely)-1e-9 || got > float64(possibly)+1e-9 {
			t.Fatalf("%v within, want %d to %d", got, surely, possibly)
		}
	})
}

func TestAttainment(t *testing.T) {
	t.Parallel()
	row := at("ours", 100, 1, 1, 1)
	row.Class, row.SLO, row.Fates = "get", Known(500), Fates{OK: 89, Late: 11}
	row.Latency.Max = Known(900)
	h := hist.New()
	for range 89 {
		h.Record(500 * time.Microsecond)
	}
	for range 11 {
		h.Record(500*time.Microsecond + 100) // in the same bucket, and late all the same
	}
	run := &Run{
		Manifest: Manifest{Classes: []Class{{Name: "get", Objectives: []Objective{{90, 500}, {50, 499}, {50, 600}}}, {Name: "set"}}},
		Rows:     []Row{row, at("ours", 100, 1, 1, 1)}, Latency: map[string]*hist.Hist{row.Tag(): h},
	}
	list := run.Attainments()
	if len(list) != 3 || list[0].Within.String() != "0.89" || list[0].Met || list[1].Within.String() != "0" || list[1].Met || list[2].Within.String() != "1" || !list[2].Met {
		t.Errorf("%+v", list)
	}
	run.Latency = nil
	if a := run.Attainments()[0]; a.Measured.known || a.Within.known {
		t.Errorf("without a histogram %+v", a)
	}
}

// TestVariantsKeepTheirPlaces writes the points of two variants in another order than the profile's.
func TestVariantsKeepTheirPlaces(t *testing.T) {
	t.Parallel()
	w, err := NewWriter(filepath.Join(t.TempDir(), "r"), experimentManifest(), []string{"a/none/1000/1", "b/none/1000/1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, variant := range []string{"b", "a"} {
		p := experimentPoint(served{profile: "exp/" + variant, controller: "none", rate: 1000, repeat: 1, cpu: 10 * int(variant[0]-'a'), memory: 1})
		p.Facts.Notes = map[string]string{"drift": variant}
		if err := w.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(began, StateComplete, nil); err != nil {
		t.Fatal(err)
	}
	run, err := ReadDir(w.Dir())
	if err != nil {
		t.Fatal(err)
	}
	if run.Rows[0].Variant() != "a" || run.Rows[3].Variant() != "b" || run.note(&run.Rows[3], "drift") != "b" {
		t.Errorf("rows of %s, then %s; note %s", run.Rows[0].Variant(), run.Rows[3].Variant(), run.note(&run.Rows[3], "drift"))
	}
	if len(run.Latency) != 5 { // cpu of a answered nothing
		t.Errorf("%d histograms, want 5", len(run.Latency))
	}
	if pooled := run.Pool(); pooled[0].Variant != "a" || pooled[0].Repeats != 1 || pooled[3].Variant != "b" {
		t.Errorf("variants are pooled: %+v", pooled)
	}
}
