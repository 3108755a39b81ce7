package report

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// compared is a run in which one load was measured and predicted.
func compared(change func(measured, predicted *Row, v *Validation, f *SamplerFacts)) *Run {
	row := func(variant string) Row {
		return Row{
			Profile: "v/" + variant, Ground: "host", Controller: "none", OfferedTargetRPS: Known(1000), LoadFactor: "0.6", Repeat: 1, Class: AllClasses,
			OfferedRPS: Known(1000), GoodputRPS: Known(1000), Fates: Fates{OK: 1000}, Valid: true,
			Latency: Latency{Mean: Known(500), P50: Known(400), P99: Known(900)}, QueueMean: Known(100), ServiceMean: Known(300), MemBWBytesPerS: Known(2e9),
		}
	}
	m, p := row("measured"), row("predicted")
	v := &Validation{
		Against: "sim", Measured: "measured", Predicted: "predicted", GoodputOff: 0.1, P50Off: 0.2, Calibrated: true, MachineCores: 8, ServerCores: 8, Streams: 6.1,
		OverheadUS: 7,
	}
	f := &SamplerFacts{OthersRatio: Known(0.01)}
	change(&m, &p, v, f)
	return &Run{
		Rows: []Row{m, p},
		Manifest: Manifest{Name: "v", Ground: "host", Validation: v, Points: []PointFacts{
			{Variant: "measured", Controller: "none", Load: "0.6x", Repeat: 1, WindowS: 1, Sampler: f}, {Variant: "predicted", Controller: "none", Load: "0.6x", Repeat: 1, WindowS: 1},
		}},
	}
}

func TestPredictions(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name         string
		change       func(m, p *Row, v *Validation, f *SamplerFacts)
		goodput, p50 string // verdicts
		why          string // of the median
		says         []string
	}{
		{"alike", func(_, _ *Row, _ *Validation, _ *SamplerFacts) {}, "holds", "holds", "", []string{"6.1 streams fill the memory bus", "2 hold, 0 do not, 0 are undecided"}},
		{"nearly", func(_, p *Row, _ *Validation, _ *SamplerFacts) {
			p.Fates.OK, p.Fates.Late, p.Latency.P50 = 905, 95, Known(475)
		}, "holds", "holds", "", nil},
		{"slower than predicted", func(_, p *Row, _ *Validation, _ *SamplerFacts) {
			p.Latency.P50, p.Latency.Mean, p.QueueMean, p.ServiceMean = Known(250), Known(350), Known(40), Known(290)
		}, "holds", "does not hold", "of -150 µs in the mean latency, -60.0 µs are queueing, -10.0 µs service, -80.0 µs network and client", []string{"-38 %"}},
		{"not valid", func(m, p *Row, _ *Validation, _ *SamplerFacts) {
			m.Valid, m.Warnings, p.Latency.P50 = false, []string{"send_lag", "drift"}, Known(250)
		}, "undecided", "undecided", "the measured points are not valid (send_lag)", nil},
		{"others", func(_, p *Row, _ *Validation, f *SamplerFacts) {
			f.OthersRatio, p.Latency.P50 = Known(0.4), Known(250)
		}, "holds", "undecided", "other processes used 40 % of the processors meanwhile", nil},
		{"a hypervisor", func(_, p *Row, _ *Validation, f *SamplerFacts) {
			f.StealRatio, p.Latency.P50 = Known(0.04), Known(250)
		}, "holds", "undecided", "a hypervisor gave 4.0 % of the processors to others meanwhile", nil},
		{"disturbed", func(_, p *Row, v *Validation, _ *SamplerFacts) {
			v.Disturbed, p.Latency.P50 = []string{"the clock was set"}, Known(250)
		}, "holds", "undecided", "disturbed while it was calibrated", []string{"During the calibration the clock was set."}},
		{"few cores", func(_, _ *Row, v *Validation, _ *SamplerFacts) { v.ServerCores = 4 }, "holds", "holds", "", []string{"Saturation of the memory was not validated"}},
		{"nothing served", func(m, p *Row, _ *Validation, _ *SamplerFacts) {
			for _, r := range []*Row{m, p} {
				r.Fates, r.GoodputRPS = Fates{Late: 1000}, Known(0)
			}
		}, "holds", "holds", "", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			run := compared(tc.change)
			list := run.Predictions()
			if len(list) != 8 || list[0].Metric != "goodput_rps" || list[1].Metric != "latency_p50_us" || list[2].Verdict() != "" {
				t.Fatalf("%+v", list)
			}
			if g, p := list[0].Verdict(), list[1].Verdict(); g != tc.goodput || p != tc.p50 || !strings.Contains(list[1].Why, tc.why) {
				t.Errorf("goodput %s, p50 %s because %q; want %s, %s, %q", g, p, list[1].Why, tc.goodput, tc.p50, tc.why)
			}
			var b bytes.Buffer
			run.validationSection(&b)
			text := b.String() + run.validationLines()
			for _, want := range tc.says {
				if !strings.Contains(text, want) {
					t.Errorf("the report does not say %q:\n%s", want, text)
				}
			}
		})
	}
	if none := (&Run{}); none.Predictions() != nil || none.validationLines() != "" {
		t.Error("a run without a validation has predictions")
	}
}

func TestSamplingIsDescribed(t *testing.T) {
	t.Parallel()
	m := &Manifest{
		Sampling: &Sampling{PeriodUS: 10_000, Sources: []SamplingSource{{Name: "intel-imc", Kind: "counted", Ratio: Known(1.02)}, {Name: "self-probe", Kind: "pressure"}}},
		Points:   []PointFacts{{Sampler: &SamplerFacts{CPURatio: 0.002}}, {}, {Sampler: &SamplerFacts{CPURatio: 0.004, ServerCPURatio: 0.001}}},
	}
	var got string
	m.sampling(func(name, format string, args ...any) { got = name + ": " + fmt.Sprintf(format, args...) })
	want := "sampling: every 10.0 ms: intel-imc (counted, 1.02 of what a stream of ours read), self-probe (pressure); it took at most 0.40 % of a core, and 0.10 % in the server"
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
