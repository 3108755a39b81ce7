package compare

import "spillway/report"

// String names the place.
func (p Place) String() string {
	text := p.Profile
	if p.Variant != "" {
		text += "/" + p.Variant
	}
	if p.Controller == "" {
		return text
	}
	return text + ": " + p.Controller + " at " + report.LoadText(p.Load, p.Target) + ", class " + p.Class
}

// name names a comparison.
func (c *Comparison) name() string {
	return Place{c.Profile, c.Variant, c.Controller, c.Load, c.Class, c.Target}.String() + ", " + c.Metric
}
