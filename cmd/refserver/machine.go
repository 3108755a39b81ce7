package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"spillway/internal/memproto"
	"spillway/machine"
	"spillway/profiles"
	"spillway/servers"
	"spillway/workloads"
)

// machineFlags say what requests cost their time on: this computer, or a modelled machine in stretched time.
type machineFlags struct {
	machine string
	scale   int
}

// defaultScale leaves a modelled network delay of a few microseconds some hundred microseconds of the wall clock, which is what the
// loopback and the scheduler of an ordinary computer need.
const defaultScale = 100

func (f *machineFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.machine, "machine", profiles.HostMachine,
		"what requests take their time on: host, or a modelled machine: a file, or one of "+strings.Join(profiles.MachineNames(), ", "))
	flags.IntVar(&f.scale, "time-scale", defaultScale, "how many microseconds a modelled one takes, with a modelled machine")
}

// modelled reports whether the machine is a modelled one.
func (f *machineFlags) modelled() bool { return f.machine != profiles.HostMachine }

// model returns the modelled machine, nil for this computer. costs is asked what requests cost on it. All errors are mistakes of usage.
func (f *machineFlags) model(changed func(string) bool, costs func(machine.Spec) (servers.Coster, error)) (*servers.Model, error) {
	if !f.modelled() {
		for _, name := range []string{"time-scale", "costs"} {
			if changed(name) {
				return nil, fmt.Errorf("--%s is for a modelled machine: add --machine, or leave it out", name)
			}
		}
		return nil, nil
	}
	if changed("threads") {
		return nil, errors.New("--threads is for a real machine: the cores of a modelled one are in its description")
	}
	described, err := profiles.LoadMachine(f.machine)
	if err != nil {
		return nil, err
	}
	spec, ok := described.Spec()
	if !ok {
		return nil, fmt.Errorf("machine %q: describes no machine", f.machine)
	}
	m := &servers.Model{Machine: spec, Scale: f.scale}
	m.Costs, err = costs(spec)
	return m, err
}

// laterCosts are costs that follow from what is still to be loaded: all mistakes of usage are told before that.
type laterCosts struct{ servers.Coster }

// storeCosts says what a key-value server's commands cost, from a table and from the sizes of the values that they are about.
type storeCosts struct {
	get, set, del workloads.Cost
	size          func(key []byte) int // of a stored value, 0 if there is none
	bus           bool
}

// loadCosts reads a cost table: a file, or the name of a shipped one.
func loadCosts(nameOrPath string, spec machine.Spec, size func(key []byte) int) (*storeCosts, error) {
	t, err := profiles.LoadCosts(nameOrPath)
	if err != nil {
		return nil, err
	}
	table := t.Table()
	c := &storeCosts{size: size, bus: spec.Bus.Total > 0}
	for name, to := range map[string]*workloads.Cost{"get": &c.get, "set": &c.set, "delete": &c.del} {
		cost, ok := table[name]
		if !ok {
			return nil, fmt.Errorf("cost table %s: has no cost of the operation %s", nameOrPath, name)
		}
		if cost.MovedPerByte > 0 && !c.bus {
			return nil, fmt.Errorf("cost table %s: the operation %s moves bytes over a memory bus, and this machine has none", nameOrPath, name)
		}
		*to = cost
	}
	return c, nil
}

// Steps appends the work of cmd. What neither brings a value nor deletes one costs what a get does.
func (c *storeCosts) Steps(dst []machine.Step, cmd *memproto.Command) ([]machine.Step, error) {
	switch {
	case cmd.Verb == memproto.MetaGet:
		dst = c.get.Steps(dst, int64(c.size(cmd.Key)))
	case cmd.Verb.Retrieval():
		for key := range cmd.ItemKeys {
			dst = c.get.Steps(dst, int64(c.size(key)))
		}
	case cmd.Verb.Storage():
		dst = c.set.Steps(dst, int64(cmd.Length))
	case cmd.Verb == memproto.Delete || cmd.Verb == memproto.MetaDelete:
		dst = c.del.Steps(dst, int64(c.size(cmd.Key)))
	default:
		dst = c.get.Steps(dst, int64(c.size(cmd.Key)))
	}
	return dst, nil
}
