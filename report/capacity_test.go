package report

import (
	"bytes"
	"strings"
	"testing"
)

// documents writes what a run says of itself on the terminal, in report.md and at the head of its page.
func documents(t *testing.T, run *Run) map[string]string {
	t.Helper()
	var terminal, markdown bytes.Buffer
	if err := Terminal(&terminal, run); err != nil {
		t.Fatal(err)
	}
	if err := Markdown(&markdown, []*Run{run}); err != nil {
		t.Fatal(err)
	}
	head := ""
	for _, s := range run.Sections() {
		if s.Name == "summary" {
			head = s.Markdown
		}
	}
	return map[string]string{"terminal": terminal.String(), "markdown": markdown.String(), "page": head}
}

// TestCapacityOfWhichTheLowerEndIsKnown: nowhere is it called the capacity.
func TestCapacityOfWhichTheLowerEndIsKnown(t *testing.T) {
	t.Parallel()
	p := point("none", "1", 1, 0, ms(1)...)
	for i := range p.Rows {
		p.Rows[i].Valid, p.Rows[i].Warnings = false, []string{"capacity_unknown"}
	}
	m := manifest()
	m.Points = []PointFacts{p.Facts}
	m.Capacity = &Capacity{
		RPS: 2000, Low: 2000, AtLeast: true, Remarks: []string{"what the server does above is not known"},
		Probes: []Probe{{RPS: 2000, Holds: true, P99US: 900}, {RPS: 4000, Unknown: true, Why: "our sender lagged 8ms (p99), 1ms is allowed"}},
	}
	run := &Run{Manifest: m, Rows: p.Rows}
	wants := map[string][]string{
		"terminal": {
			"capacity at least 2.00k requests per second: the SLO held at 2.00k and was not seen to fail by the server's own fault, after 2 probes\n  what the server does above is not known\n",
			"1 of 1 points are not valid:\n  capacity_unknown (1): ",
		},
		"page": {"**The capacity is at least 2.00k requests per second, and not known:**"},
		"markdown": {
			"**The capacity is at least 2.00k requests per second, and not known:**", "Factors of load are shares of **at least 2.00k** requests per second",
			"with nothing shed or failed. No rate was seen to fail by the server's own fault.\n\n- what the server does above is not known\n",
			"| 2 | 4.00k | 0 | – | not known: our sender lagged 8ms (p99), 1ms is allowed |",
		},
	}
	check := func(docs map[string]string) {
		t.Helper()
		for name, list := range wants {
			for _, want := range list {
				if !strings.Contains(docs[name], want) {
					t.Errorf("%s: %q is missing in\n%s", name, want, docs[name])
				}
			}
		}
	}
	check(documents(t, run))

	m.Capacity.High = 9000
	wants = map[string][]string{
		"terminal": {"capacity at least 2.00k requests per second: the SLO held at 2.00k and did not hold at 9.00k, after 2 probes\n"},
		"markdown": {"**at least 2.00k** requests", "The search ended between 2.00k, which held, and 9.00k, which did not."},
	}
	check(documents(t, run))
}

// TestCapacityThatIsTooLow: a server without a control that has everything in time above the capacity was not overloaded, so what was found is none.
func TestCapacityThatIsTooLow(t *testing.T) {
	t.Parallel()
	const text = "he capacity found is too low:"
	in := func(ok, late int64) Fates { return Fates{OK: ok, Late: late} }
	found := &Capacity{RPS: 1000, Low: 1000, High: 1050}
	for name, tt := range map[string]struct {
		capacity   *Capacity
		controller string // by its label
		factor     string
		fates      []Fates // of repeats
		want       string
	}{
		"in time":              {found, "none", "2", []Fates{in(1000, 0)}, "none answered 100 % in time at 2x, so that was no overload. Factors of load mean nothing here; give rates (load.rates)"},
		"nearly all":           {found, "none", "2", []Fates{in(995, 5), in(997, 3)}, "none answered 99.6 % in time at 2x"},
		"under a label":        {found, "plain", "2", []Fates{in(1000, 0)}, "plain answered 100 % in time at 2x"},
		"one repeat":           {found, "none", "2", []Fates{in(1000, 0), in(10, 990)}, ""},
		"late":                 {found, "none", "2", []Fates{in(980, 20)}, ""},
		"shed":                 {found, "none", "2", []Fates{{OK: 980, Rejected: 20}}, ""},
		"another":              {found, "codel", "2", []Fates{in(1000, 0)}, ""}, // it may do more than the server without it
		"below":                {found, "none", "1", []Fates{in(1000, 0)}, ""},
		"within the bracket":   {found, "none", "1.04", []Fates{in(1000, 0)}, ""},
		"nothing was searched": {nil, "none", "2", []Fates{in(1000, 0)}, ""},
		"modelled":             {&Capacity{RPS: 1000, Analytic: true, Bottleneck: "bus"}, "none", "2", []Fates{in(1000, 0)}, ""},
		"nothing was due":      {found, "none", "2", []Fates{{}}, ""},
	} {
		run := &Run{Manifest: manifest()}
		run.Manifest.Capacity = tt.capacity
		run.Manifest.Controllers = []ControllerInfo{{Label: "none", Name: "none"}, {Label: "plain", Name: "none"}, {Label: "codel", Name: "codel"}}
		for i, f := range tt.fates {
			p := point(tt.controller, tt.factor, i+1, 0, ms(1)...)
			for j := range p.Rows {
				p.Rows[j].Fates = f
				p.Rows[j].OfferedTargetRPS = Known(1000 * map[string]float64{"1": 1, "1.04": 1.04, "2": 2}[tt.factor])
			}
			run.Rows, run.Manifest.Points = append(run.Rows, p.Rows...), append(run.Manifest.Points, p.Facts)
		}
		for kind, doc := range documents(t, run) {
			if strings.Contains(doc, text) != (tt.want != "") || !strings.Contains(doc, tt.want) {
				t.Errorf("%s, %s: want %q in\n%s", name, kind, tt.want, doc)
			}
		}
	}
}

// TestNoCapacity: a search that found nothing does not say that it is 0.
func TestNoCapacity(t *testing.T) {
	t.Parallel()
	run := &Run{Manifest: manifest()}
	run.Manifest.Capacity = &Capacity{Probes: []Probe{{RPS: 1000, Unknown: true, Why: "our sender lagged 8ms (p99), 1ms is allowed"}}}
	doc := documents(t, run)["markdown"]
	if !strings.Contains(doc, "\n## Capacity\n\nThe search found none.\n\n| probe |") || strings.Contains(doc, "shares of 0") {
		t.Errorf("got\n%s", doc)
	}
}
