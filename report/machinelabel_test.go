package report

import (
	"regexp"
	"testing"
)

func described(figures ...Figure) *ModelledMachine { return &ModelledMachine{Figures: figures} }

// TestMachineLabel: a machine without a name has one that says what it is, which is another for another machine.
func TestMachineLabel(t *testing.T) {
	t.Parallel()
	cores, bus := Figure{Name: "cores", Value: "18"}, Figure{Name: "bus.total", Value: "36GB/s"}
	a := described(cores, bus, Figure{Name: "network", Value: "5us"})
	if got := a.Label(); !regexp.MustCompile(`^inline-18c-36GB/s-[0-9a-f]{8}$`).MatchString(got) {
		t.Errorf("called %q", got)
	}
	if got := described(cores).Label(); !regexp.MustCompile(`^inline-18c-no-bus-[0-9a-f]{8}$`).MatchString(got) {
		t.Errorf("without a bus called %q", got)
	}
	if got := described().Label(); !regexp.MustCompile(`^inline-\?c-no-bus-[0-9a-f]{8}$`).MatchString(got) {
		t.Errorf("without figures called %q", got)
	}
	if other := described(cores, bus, Figure{Name: "network", Value: "6us"}); other.Label() == a.Label() {
		t.Errorf("machines that differ in their network are both called %q", a.Label())
	}
	measured := described(cores, bus, Figure{Name: "network", Value: "5us", Provenance: "measured", Spread: Known(0.1)})
	if measured.Label() != a.Label() {
		t.Errorf("equal machines are called %q and %q", measured.Label(), a.Label())
	}
	m := Manifest{Machine: Machine{CPUModel: "Model T"}, Variants: []Variant{{Name: "x", ModelledMachine: a}, {Name: "y", ModelledMachine: &ModelledMachine{Name: "laptop"}}}}
	for variant, want := range map[string]string{"": "Model T", "x": a.Label(), "y": "laptop", "z": "Model T"} {
		if got, isModel := m.MachineLabel(variant); got != want || isModel != (want != "Model T") {
			t.Errorf("variant %q ran on %q (a model: %v), want %q", variant, got, isModel, want)
		}
	}
	m.ModelledMachine = &ModelledMachine{Name: "xl170"}
	if got, isModel := m.MachineLabel("z"); got != "xl170" || !isModel {
		t.Errorf("on %q (a model: %v)", got, isModel)
	}
}
