package report

import (
	"bytes"
	"fmt"
	"math"
	"strings"
)

// Validation says that a run holds a prediction against a measurement, and on what grounds.
type Validation struct {
	Against      string   `json:"against"`   // the ground that predicts
	Measured     string   `json:"measured"`  // the variant that was measured
	Predicted    string   `json:"predicted"` // and that which was predicted
	GoodputOff   float64  `json:"goodput_off"`
	P50Off       float64  `json:"p50_off"`
	Calibrated   bool     `json:"calibrated"` // the machine was measured in this run, and not read from a file
	MachineCores int      `json:"machine_cores"`
	ServerCores  int      `json:"server_cores"` // of the real server, and so of the simulated one
	Streams      float64  `json:"streams,omitempty"`
	OverheadUS   float64  `json:"overhead_us"` // of a request beside its work, as measured
	Disturbed    []string `json:"disturbed,omitempty"`
}

// Saturable reports whether the server's cores are enough to fill the memory bus. If not, nothing that was measured tells what happens then.
func (v *Validation) Saturable() bool { return v.Streams > 0 && float64(v.ServerCores) > v.Streams }

// Predicted is one metric of one class at one load, as measured and as predicted.
type Predicted struct {
	Controller, Load, Class string
	Metric                  string // goodput_rps, latency_p50_us and others that are shown only
	Measured, Predicted     Value
	Off                     Value   // (predicted - measured) / measured
	Within                  float64 // what is expected; 0 for a metric that is shown only
	Valid                   bool    // the measurement may be believed
	Disturbed               bool    // others used the machine during the calibration or the measurement, so a difference is not the model's alone
	Why                     string  // the difference, where it is larger than expected
}

// Holds reports whether the prediction is as near as is expected. It says nothing of metrics of which nothing is.
func (p *Predicted) Holds() bool {
	off, known := p.Off.Get()
	return known && math.Abs(off) <= p.Within
}

// Verdict says it in a word.
func (p *Predicted) Verdict() string {
	switch {
	case p.Within == 0:
		return ""
	case !p.Valid:
		return "undecided"
	case p.Holds():
		return "holds"
	case p.Disturbed:
		return "undecided"
	}
	return "does not hold"
}

// Predictions compares what was predicted with what was measured, in the order of the profile; nil where nothing was predicted.
func (run *Run) Predictions() (list []Predicted) {
	v := run.Manifest.Validation
	if v == nil {
		return nil
	}
	g := run.grid()
	for _, load := range g.loads {
		for _, controller := range g.controllers {
			for _, class := range g.shown() {
				measured, predicted := g.rows[cell{v.Measured, load, controller, class}], g.rows[cell{v.Predicted, load, controller, class}]
				if len(measured) > 0 && len(predicted) > 0 {
					list = append(list, run.predicted(v, measured, predicted)...)
				}
			}
		}
	}
	return list
}

// predicted compares the rows of one class at one load.
func (run *Run) predicted(v *Validation, measured, predicted []*Row) (list []Predicted) {
	first := measured[0]
	meanwhile := run.meanwhile(measured)
	m, p := run.pool(measured), run.pool(predicted)
	p50 := func(rows []*Row) Value {
		return run.mergedPercentile(believed(rows), 50, func(r *Row) Value { return r.Latency.P50 })
	}
	column := func(of func(*Row) Value) (a, b Value) {
		return meanValue(believed(measured), of), meanValue(believed(predicted), of)
	}
	add := func(metric string, a, b Value, within float64) {
		one := Predicted{
			Controller: first.Controller, Load: first.Load(), Class: first.Class, Metric: metric, Measured: a, Predicted: b, Within: within, Valid: m.Valid > 0,
			Disturbed: len(v.Disturbed) > 0 || meanwhile != "",
		}
		x, ok1 := a.Get()
		y, ok2 := b.Get()
		switch {
		case !ok1 || !ok2:
		case x == y:
			one.Off = Known(0)
		case x != 0:
			one.Off = Known((y - x) / x)
		}
		if within > 0 && (!one.Holds() || !one.Valid) {
			one.Why = run.why(v, measured, predicted, one.Valid, meanwhile)
		}
		list = append(list, one)
	}
	add("goodput_rps", m.Goodput.Value, p.Goodput.Value, v.GoodputOff)
	add("latency_p50_us", p50(measured), p50(predicted), v.P50Off)
	add("latency_p99_us", m.P99.Value, p.P99.Value, 0)
	for _, c := range []struct {
		name string
		of   func(*Row) Value
	}{
		{"service_mean_us", func(r *Row) Value { return r.ServiceMean }}, {"queue_mean_us", func(r *Row) Value { return r.QueueMean }},
		{"shed_ratio", func(r *Row) Value { return r.ShedRatio }}, {"cpu_ratio", func(r *Row) Value { return r.CPURatio }},
		{"membw_bytes_per_s", func(r *Row) Value { return r.MemBWBytesPerS }},
	} {
		a, b := column(c.of)
		add(c.name, a, b, 0)
	}
	return list
}

// meanValue returns the mean over rows that know it.
func meanValue(rows []*Row, of func(*Row) Value) Value {
	sum, n := 0.0, 0
	for _, r := range rows {
		if v, ok := of(r).Get(); ok {
			sum += v
			n++
		}
	}
	if n == 0 {
		return Value{}
	}
	return Known(sum / float64(n))
}

// meanwhile says what others did on the computer while rows were measured.
func (run *Run) meanwhile(rows []*Row) string {
	for _, r := range rows {
		if f := run.factsOf(r); f != nil {
			if text := f.Sampler.disturbed(); text != "" {
				return text
			}
		}
	}
	return ""
}

// why says what is known of a difference: first whether the measurement is to be believed, then where in a request's life the difference is.
func (run *Run) why(v *Validation, measured, predicted []*Row, valid bool, meanwhile string) string {
	if !valid {
		codes := map[string]bool{}
		var list []string
		for _, r := range measured {
			for _, code := range r.Warnings {
				if _, verdict := Explain(code); (verdict == Fatal || verdict == Graded) && !codes[code] {
					codes[code] = true
					list = append(list, code)
				}
			}
		}
		text := "the measured points are not valid (" + strings.Join(list, ", ") + ")"
		if meanwhile != "" {
			text += "; " + meanwhile + " meanwhile"
		}
		return text
	}
	var parts []string
	if meanwhile != "" {
		parts = append(parts, meanwhile+" meanwhile")
	}
	if part := run.where(measured, predicted); part != "" {
		parts = append(parts, part)
	}
	if len(v.Disturbed) > 0 {
		parts = append(parts, "the machine was disturbed while it was calibrated")
	}
	if len(parts) == 0 {
		return "no part of the latency accounts for it"
	}
	return strings.Join(parts, "; ")
}

// where says to which part of a request's life the difference of the mean latencies belongs.
func (run *Run) where(measured, predicted []*Row) string {
	diff := func(of func(*Row) Value) (float64, bool) {
		a, ok1 := meanValue(believed(measured), of).Get()
		b, ok2 := meanValue(believed(predicted), of).Get()
		return b - a, ok1 && ok2
	}
	all, ok1 := diff(func(r *Row) Value { return r.Latency.Mean })
	queue, ok2 := diff(func(r *Row) Value { return r.QueueMean })
	service, ok3 := diff(func(r *Row) Value { return r.ServiceMean })
	if !ok1 || !ok2 || !ok3 {
		return ""
	}
	us := func(d float64) string {
		text := Known(math.Abs(d)).micros()
		if d < 0 {
			return "-" + text
		}
		return "+" + text
	}
	return fmt.Sprintf("of %s in the mean latency, %s are queueing, %s service, %s network and client", us(all), us(queue), us(service), us(all-queue-service))
}

// preface says what the prediction was made from, and what it cannot tell.
func (v *Validation) preface() string {
	var b strings.Builder
	source := "a machine file"
	if v.Calibrated {
		source = "a calibration of this machine just before"
	}
	fmt.Fprintf(&b, "The variant %s was measured on this machine, %s is a simulation of it with the same arrivals, made from %s and %s a request beside its work. "+
		"The server had %d of %d cores, and so has the simulated one. ", v.Measured, v.Predicted, source, Known(v.OverheadUS).micros(), v.ServerCores, v.MachineCores)
	if v.Saturable() {
		fmt.Fprintf(&b, "%.1f streams fill the memory bus, which the server's cores can do.", v.Streams)
	} else {
		fmt.Fprintf(&b, "Saturation of the memory was not validated: it would take more than %.1f streams, and the server has a core for %d.", v.Streams, v.ServerCores)
	}
	for _, d := range v.Disturbed {
		fmt.Fprintf(&b, " During the calibration %s.", d)
	}
	return b.String()
}

// sums counts how many predictions hold.
func sums(list []Predicted) (holds, fails, undecided int) {
	for i := range list {
		switch list[i].Verdict() {
		case "holds":
			holds++
		case "does not hold":
			fails++
		case "undecided":
			undecided++
		}
	}
	return holds, fails, undecided
}

// validationSection is the part of the report that compares.
func (run *Run) validationSection(b *bytes.Buffer) {
	v := run.Manifest.Validation
	if v == nil {
		return
	}
	list := run.Predictions()
	holds, fails, undecided := sums(list)
	fmt.Fprintf(b, "\n## Prediction against measurement\n\n%s\n\nExpected is a goodput within %.0f %% and a median within %.0f %%: of %d such predictions %d hold, %d do not, "+
		"%d are undecided.\n\n", escape(v.preface()), 100*v.GoodputOff, 100*v.P50Off, holds+fails+undecided, holds, fails, undecided)
	b.WriteString("| load | controller | class | metric | measured | predicted | off | verdict | why |\n|:--|:--|:--|:--|--:|--:|--:|:--|:--|\n")
	for i := range list {
		p := &list[i]
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", escape(p.Load), escape(p.Controller), escape(p.Class), code(p.Metric),
			p.text(p.Measured), p.text(p.Predicted), p.off(), p.Verdict(), escape(p.Why))
	}
}

// off writes the difference.
func (p *Predicted) off() string {
	off, known := p.Off.Get()
	if !known {
		return "-"
	}
	return fmt.Sprintf("%+.0f %%", 100*off)
}

// text writes a value of the metric.
func (p *Predicted) text(v Value) string {
	n, known := v.Get()
	switch {
	case !known:
		return "-"
	case strings.HasSuffix(p.Metric, "_us"):
		return v.micros()
	case strings.HasSuffix(p.Metric, "_ratio"):
		return fmt.Sprintf("%.1f %%", 100*n)
	case strings.HasSuffix(p.Metric, "_bytes_per_s"):
		return fmt.Sprintf("%.2f GB/s", n/1e9)
	default:
		return v.rate()
	}
}

// validationLines say on a terminal how the predictions came out.
func (run *Run) validationLines() string {
	v := run.Manifest.Validation
	if v == nil {
		return ""
	}
	list := run.Predictions()
	holds, fails, undecided := sums(list)
	var b strings.Builder
	fmt.Fprintf(&b, "predictions within %.0f %% (goodput) and %.0f %% (p50): %d hold, %d do not, %d are undecided\n", 100*v.GoodputOff, 100*v.P50Off, holds, fails, undecided)
	for i := range list {
		if p := &list[i]; p.Class == AllClasses && p.Within > 0 {
			fmt.Fprintf(&b, "  %s at %s, %s: measured %s, predicted %s (%s)", p.Controller, p.Load, p.Metric, p.text(p.Measured), p.text(p.Predicted), p.off())
			if p.Why != "" {
				b.WriteString(": " + p.Why)
			}
			b.WriteString("\n")
		}
	}
	if !v.Saturable() {
		fmt.Fprintf(&b, "saturation of the memory was not validated: the server's cores (%d) cannot fill a bus that takes more than %.1f streams\n", v.ServerCores, v.Streams)
	}
	return b.String()
}
