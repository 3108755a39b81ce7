package export

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"spillway/report"
)

// measure is one unit of a benchmark line.
type measure struct {
	unit, better string
	of           func(*report.Row) report.Value
}

var measures = []measure{
	{"goodput-req/s", "higher", func(r *report.Row) report.Value { return r.GoodputRPS }},
	{"throughput-req/s", "higher", func(r *report.Row) report.Value { return r.ThroughputRPS }},
	{"mean-us", "lower", func(r *report.Row) report.Value { return r.Latency.Mean }},
	{"p50-us", "lower", func(r *report.Row) report.Value { return r.Latency.P50 }},
	{"p90-us", "lower", func(r *report.Row) report.Value { return r.Latency.P90 }},
	{"p99-us", "lower", func(r *report.Row) report.Value { return r.Latency.P99 }},
	{"p99.9-us", "lower", func(r *report.Row) report.Value { return r.Latency.P999 }},
	{"shed-ratio", "lower", func(r *report.Row) report.Value { return r.ShedRatio }},
	{"drop-ratio", "lower", func(r *report.Row) report.Value { return r.DropRatio }},
}

// Benchfmt writes runs in the benchmark format of Go (golang.org/design/14313-benchmark-format), which benchstat reads: a line for each class of each
// repeat, whose iterations are the requests that were due. Configuration lines have what makes results incomparable: the profile, the ground, the
// server, the machine. A repeat that is not valid is left out, and a remark says how many are.
func Benchfmt(w io.Writer, runs []*report.Run) error {
	var b bytes.Buffer
	for _, m := range measures {
		fmt.Fprintf(&b, "Unit %s better=%s\n", m.unit, m.better)
	}
	var n names
	for _, run := range runs {
		benchmarks(&b, run, &n)
	}
	_, err := w.Write(b.Bytes())
	return err
}

func benchmarks(b *bytes.Buffer, run *report.Run, n *names) {
	m := &run.Manifest
	cores := m.Machine.Cores
	if m.Ground == "sim" {
		cores = 1 // whatever computed it made no difference
	}
	b.WriteString("\n")
	for _, line := range [][2]string{{"profile", m.Name}, {"ground", m.Ground}, {"server", strings.TrimSpace(m.Server.Kind + " " + m.Server.Version)}} {
		fmt.Fprintf(b, "%s: %s\n", line[0], oneLine(line[1]))
	}
	machine, told := "", false // variants may have machines of their own
	left, alone := 0, single(run)
	for i := range run.Rows {
		r := &run.Rows[i]
		if alone && r.Class == report.AllClasses {
			continue
		}
		if !r.Valid {
			left++
			continue
		}
		var values strings.Builder
		for _, m := range measures {
			if v := m.of(r); !v.IsZero() {
				fmt.Fprintf(&values, " %s %s", v.String(), m.unit)
			}
		}
		if values.Len() == 0 {
			continue
		}
		if on := machineOf(m, r.Variant()); on != machine || !told {
			machine, told = on, true
			fmt.Fprintf(b, "machine: %s\n", machine)
		}
		parts := []string{"Benchmark" + title(n.name("profile", profile(run)))}
		if v := r.Variant(); v != "" {
			parts = append(parts, "variant="+n.name("variant", v))
		}
		parts = append(parts, "controller="+n.name("controller", r.Controller), "load="+n.name("load", r.Load()), "class="+n.name("class", r.Class))
		// The number at the end is where readers look for the cores; without it they would take it from a class called memory-3.
		fmt.Fprintf(b, "%s-%d %d%s\n", strings.Join(parts, "/"), max(cores, 1), max(r.Fates.Arrivals(), 1), values.String())
	}
	if left > 0 {
		fmt.Fprintf(b, "# %d rows of repeats that are not valid were left out\n", left)
	}
}

// machineOf returns the configuration value machine of the points of a variant: what computed, or the model that it computed.
func machineOf(m *report.Manifest, variant string) string {
	label, isModel := m.MachineLabel(variant)
	if isModel {
		label = "model " + label
	}
	return oneLine(label)
}

// title begins a name with a capital, as what follows Benchmark must.
func title(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	if unicode.IsLower(first) {
		return string(unicode.ToUpper(first)) + s[size:]
	}
	return s
}

// oneLine writes the value of a configuration line.
func oneLine(s string) string {
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, ""))), " ")
}
