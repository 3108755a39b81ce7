package report

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// MachineLabel names, for lists of many results, the machine that the points of a variant ran on: the computer's processor, or the modelled machine.
// variant is empty where the profile has none.
func (m *Manifest) MachineLabel(variant string) (label string, isModel bool) {
	modelled := m.ModelledMachine
	if v := m.variant(variant); v != nil && v.ModelledMachine != nil {
		modelled = v.ModelledMachine
	}
	if modelled == nil {
		return m.Machine.CPUModel, false
	}
	return modelled.Label(), true
}

// Label returns the name of the machine's file. One that is described in the profile, or whose file was changed by --set or a variant, has no name:
// it is called by its cores, its bus and a hash of all its figures, such as inline-18c-36GB/s-5e0c1a7b, so that equal machines have equal labels, and
// different ones different labels whatever they differ in.
func (m *ModelledMachine) Label() string {
	if m.Name != "" {
		return m.Name
	}
	cores, bus := unknownCores, "no-bus"
	h := sha256.New()
	for _, f := range m.Figures {
		fmt.Fprintf(h, "%s=%s\n", f.Name, f.Value) // where a figure comes from makes no other machine
		switch f.Name {
		case "cores":
			cores = f.Value
		case "bus.total":
			bus = strings.ReplaceAll(f.Value, " ", "")
		}
	}
	return fmt.Sprintf("inline-%sc-%s-%.4x", cores, bus, h.Sum(nil))
}

// unknownCores stands for the cores of a machine whose manifest does not say how many it has.
const unknownCores = "?"
