package profiles

import (
	"slices"
	"time"

	"spillway/internal/dist"
)

// Validation asks to hold a prediction against a measurement: the points are measured on the profile's ground, and again on a simulation of the
// same machine.
type Validation struct {
	Against string  `yaml:"against"` // the ground that predicts: sim
	Goodput float64 `yaml:"goodput"` // by which share of the measured goodput the predicted one may be off
	P50     float64 `yaml:"p50"`     // likewise of the median latency
}

// What is expected of a prediction where the profile does not say.
const (
	goodputOff = 0.10
	p50Off     = 0.20
)

// The names of the two runs of a validation: variants, so that their rows can stand in one table.
const (
	Measurement = "measured"
	Prediction  = "predicted"
)

func (p *Profile) defaultValidation() {
	if v := p.Validate; v != nil {
		if v.Goodput == 0 {
			v.Goodput = goodputOff
		}
		if v.P50 == 0 {
			v.P50 = p50Off
		}
	}
}

func (c *checker) validation(p *Profile) {
	v := p.Validate
	if v == nil {
		return
	}
	c.oneOf("validate.against", v.Against, []string{"sim"})
	c.ratio("validate.goodput", v.Goodput)
	c.ratio("validate.p50", v.P50)
	switch {
	case p.On != "host":
		c.fail("validate", "validate holds a simulation against measurements of this computer, so the profile's ground is host, not %s", p.On)
	case len(p.Variants) > 0:
		c.fail("validate", "validate makes variants of its own, %s and %s; a profile with others cannot have it", Measurement, Prediction)
	case p.Workload.Kind != kindSynthetic:
		c.fail("validate", "validate takes a workload of the kind %s, whose costs the profile says itself, not %s", kindSynthetic, p.Workload.Kind)
	case len(p.Load.Phases) > 0:
		c.fail("validate", "validate takes rates, or shares of capacity, and no phases")
	}
}

// Predicted returns p with two runs: p itself on its ground, and on sim with machine m, where each request computes for overhead beside the work that
// it spells.
func (p *Profile) Predicted(m *Machine, overhead time.Duration) *Profile {
	whole, measured, predicted := *p, *p, p.WithOverhead(overhead)
	measured.Validate, measured.variant = nil, Measurement
	predicted.Validate, predicted.variant = nil, Prediction
	predicted.On, predicted.Machine = p.Validate.Against, m
	whole.runs = []*Profile{&measured, predicted}
	return &whole
}

// WithOverhead returns p, of a synthetic workload, with so much to compute for each request before its work.
func (p *Profile) WithOverhead(overhead time.Duration) *Profile {
	more := *p
	more.Workload.Classes = slices.Clone(p.Workload.Classes)
	for i := range more.Workload.Classes {
		c := &more.Workload.Classes[i]
		c.Work = append([]Step{{Compute: dist.FormatDuration(overhead)}}, c.Work...)
	}
	return &more
}
