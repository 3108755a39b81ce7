package report

import (
	"encoding/json"
	"slices"
)

// What a run was made to find out, as the profile says it. The harness copies it into the manifest, so that claims, attribution and settling
// follow from the files of a result directory alone.

// Claim is a statement of a paper that the results are held against.
//
// Without Over the metric itself is the figure. With Over it is a ratio, turned so that more is better for Controller: controller over
// baseline where more of the metric is better, baseline over controller where less is (latencies, drops). For regret, Over names the
// reference that it is regretted against..
type Claim struct {
	Text       string   `json:"text"`
	Metric     string   `json:"metric"`               // a numeric column of points.csv, or one of DerivedMetrics
	Class      string   `json:"class,omitempty"`      // empty for all
	Controller string   `json:"controller"`           // a label
	Over       []string `json:"over,omitempty"`       // labels of baselines; each is held against, and the best of them
	Take       string   `json:"take,omitempty"`       // which of the loads counts: max, min, mean, first, last or most (of them it must hold for); empty for max
	Variant    string   `json:"variant,omitempty"`    // only this one; "*" for all together, as if they were loads; empty for each
	At         string   `json:"at,omitempty"`         // only this load: a rate in plain digits or a factor with an x, as Row.Load writes it
	Paper      Value    `json:"paper,omitzero"`       // the paper's own figure
	HoldsAt    Value    `json:"holds_at,omitzero"`    // it holds from here upwards
	HoldsUnder Value    `json:"holds_under,omitzero"` // it holds up to here
	Note       string   `json:"note,omitempty"`       // what a reader should know about it
}

// Variant is the profile with some of its keys set otherwise. Its rows have NAME/VARIANT in column profile.
type Variant struct {
	Name            string            `json:"name"`
	Set             map[string]string `json:"set,omitempty"` // as --set takes it; empty for the profile as it is
	ModelledMachine *ModelledMachine  `json:"modelled_machine,omitempty"`
	Capacity        *Capacity         `json:"capacity,omitempty"` // analytic

	// Phases and Classes are those of the variant; absent where they are the run's.
	Phases  []Phase `json:"phases,omitempty"`
	Classes []Class `json:"classes,omitempty"`
}

// variant returns the variant of a name; nil when there is none.
func (m *Manifest) variant(name string) *Variant {
	for i := range m.Variants {
		if m.Variants[i].Name == name {
			return &m.Variants[i]
		}
	}
	return nil
}

// phasesOf returns the phases of the window of a variant.
func (m *Manifest) phasesOf(variant string) []Phase {
	if v := m.variant(variant); v != nil && len(v.Phases) > 0 {
		return v.Phases
	}
	return m.Phases
}

// objectivesOf returns the objectives of a class of a variant.
func (m *Manifest) objectivesOf(variant, class string) []Objective {
	classes := m.Classes
	if v := m.variant(variant); v != nil && len(v.Classes) > 0 {
		classes = v.Classes
	}
	for _, c := range classes {
		if c.Name == class {
			return c.Objectives
		}
	}
	return nil
}

// hasPhases and hasObjectives report whether any variant does.
func (m *Manifest) hasPhases() bool {
	return len(m.Phases) > 0 || slices.ContainsFunc(m.Variants, func(v Variant) bool { return len(v.Phases) > 0 })
}

func (m *Manifest) hasObjectives() bool {
	has := func(c Class) bool { return len(c.Objectives) > 0 }
	return slices.ContainsFunc(m.Classes, has) || slices.ContainsFunc(m.Variants, func(v Variant) bool { return slices.ContainsFunc(v.Classes, has) })
}

// isModelled reports whether the server, or that of a variant, ran on a modelled machine.
func (m *Manifest) isModelled() bool {
	return m.ModelledMachine != nil || slices.ContainsFunc(m.Variants, func(v Variant) bool { return v.ModelledMachine != nil })
}

// Phase is a stretch of the window with a rate and a mix of its own. Each but the first begins with a switch.
type Phase struct {
	AtUS   float64            `json:"at_us"` // since the start of the window
	ForUS  float64            `json:"for_us"`
	Rate   float64            `json:"rate_rps"`
	Shares map[string]float64 `json:"shares,omitempty"` // by class; absent for those of the profile
}

// ControllerInfo is a controller of the profile, in its order.
type ControllerInfo struct {
	Label    string            `json:"label"`
	Name     string            `json:"name"`
	Settings map[string]string `json:"settings,omitempty"` // as written

	// Parts are what the controller is made of, for attribution. An empty list, which is not the same as none at all, says that it is what
	// the others are held against: nothing of what they add.
	Parts []string `json:"parts,omitzero"`
}

// Objective is a bound on one percentile of the latency of a class.
type Objective struct {
	Percentile float64 `json:"percentile"` // such as 50 or 99.9
	LimitUS    float64 `json:"limit_us"`
}

// Paper says which paper a profile repeats, and which of its figures.
type Paper struct {
	Name   string `json:"name"`
	Figure string `json:"figure,omitempty"`
}

// IsZero reports whether v is unknown. A field of a manifest that is unknown is left out.
func (v Value) IsZero() bool { return !v.known }

// MarshalJSON writes a number, or null where it is unknown.
func (v Value) MarshalJSON() ([]byte, error) {
	if !v.known {
		return []byte("null"), nil
	}
	return json.Marshal(v.number)
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (v *Value) UnmarshalJSON(text []byte) error {
	var n *float64
	if err := json.Unmarshal(text, &n); err != nil {
		return err
	}
	*v = Value{}
	if n != nil {
		*v = Known(*n)
	}
	return nil
}
