package profiles

import (
	"embed"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"spillway/machine"
)

//go:embed machines/*.yaml
var machineFiles embed.FS

// HostMachine is the reference that stands for the computer at hand instead of a modelled machine.
const HostMachine = "host"

// Machine is the modelled machine: the content of a machine file, or HostMachine.
type Machine struct {
	Ref string // HostMachine, or empty; while a profile is being read also the name or path of a machine file

	Name       string            `yaml:"name"` // of the file that it was read from; empty when described in the profile
	Cores      int               `yaml:"cores"`
	Bus        *Bus              `yaml:"bus"`
	Network    time.Duration     `yaml:"network"` // one way
	RAM        Size              `yaml:"ram"`
	Provenance map[string]string `yaml:"provenance"` // by field; what is not named is assumed

	// Spread is by which share of it a measured figure varied while it was measured, by field.
	Spread map[string]float64 `yaml:"spread"`
}

// Bus is a memory bus.
type Bus struct {
	Total   Size    `yaml:"total"`    // bytes per second
	PerCore Size    `yaml:"per_core"` // bytes per second of one stream
	Decay   float64 `yaml:"decay"`    // share of Total lost per stream above saturation
}

var (
	// provenances say how somebody came to a figure, the most trustworthy first.
	provenances = []string{"measured", "published", "derived", "assumed"}
	// machineFigures are what a machine's provenance can be about. `bus` stands for all figures of the bus.
	machineFigures = []string{"cores", "bus", "bus.total", "bus.per_core", "bus.decay", "network", "ram"}
)

// Assumed is the provenance of a figure that nothing is said of, Measured that of one that was measured on the machine itself.
const (
	Assumed  = "assumed"
	Measured = "measured"
)

// MachineNames returns the names of the shipped machine files, sorted.
func MachineNames() []string { return yamlNames(machineFiles, "machines") }

// LoadMachine reads a machine: what contains a slash or ends in .yaml or .yml is a file, anything else the name of a shipped one.
func LoadMachine(nameOrPath string) (*Machine, error) {
	file, text, err := readNamed(machineFiles, "machines", "machine", nameOrPath)
	if err != nil {
		return nil, err
	}
	root, err := parseTree(file, text)
	if err != nil {
		return nil, err
	}
	d := &decoder{file: file, at: map[string]*node{}}
	m := &Machine{}
	// The checks name paths as they are in a profile, so that both use the same ones.
	if err := m.describe(d, root, "machine"); err != nil {
		return nil, err
	}
	c := &checker{d: d}
	c.machine(m)
	m.Name = strings.TrimSuffix(path.Base(filepath.ToSlash(file)), path.Ext(file))
	return m, c.err
}

// fromNode reads `machine: NAME` and `machine: {cores: …}`.
func (m *Machine) fromNode(d *decoder, n *node, path string) error {
	if n.kind == scalar {
		m.Ref = n.text
		return nil
	}
	return m.describe(d, n, path)
}

// describe reads the description of a machine.
func (m *Machine) describe(d *decoder, n *node, path string) error {
	m.Network = machine.DefaultNetwork
	d.at[path] = n
	return d.structure(reflect.ValueOf(m).Elem(), n, path)
}

// expandMachine puts the content of a machine file in the place of its name.
func (p *Profile) expandMachine(d *decoder) error {
	if p.Machine == nil || p.Machine.Ref == "" || p.Machine.Ref == HostMachine {
		return nil
	}
	m, err := LoadMachine(p.Machine.Ref)
	if err != nil {
		return d.at["machine"].fail(d.file, "%v", err)
	}
	p.Machine = m
	return nil
}

// Spec returns m in the form that package machine takes; ok is false when m is no modelled machine.
func (m *Machine) Spec() (spec machine.Spec, ok bool) {
	if m == nil || m.Ref != "" {
		return machine.Spec{}, false
	}
	spec = machine.Spec{Cores: m.Cores, Network: m.Network, RAM: int64(m.RAM)}
	if m.Bus != nil {
		spec.Bus = machine.Bus{Total: float64(m.Bus.Total), PerCore: float64(m.Bus.PerCore), Decay: m.Bus.Decay}
	}
	return spec, true
}

// Origin returns the provenance of a figure, such as bus.total.
func (m *Machine) Origin(figure string) string {
	for {
		if p := m.Provenance[figure]; p != "" {
			return p
		}
		group, _, found := strings.Cut(figure, ".")
		if !found {
			return Assumed
		}
		figure = group
	}
}

// Text returns m as a machine file that LoadMachine reads.
func (m *Machine) Text() []byte {
	plain := *m
	plain.Name = "" // a file is named by its name
	text, err := yaml.Marshal(encode(reflect.ValueOf(plain)))
	if err != nil {
		panic("profiles: a checked machine cannot be written: " + err.Error())
	}
	return text
}

func (c *checker) machine(m *Machine) {
	if m == nil || m.Ref != "" {
		return
	}
	if m.Cores < 1 || m.Cores > maxCores {
		c.fail("machine.cores", "a machine has 1 to %d cores", maxCores)
	}
	if m.Bus != nil {
		if m.Bus.Total <= 0 || m.Bus.PerCore <= 0 {
			c.fail("machine.bus", "a bus has a total and a per_core in bytes per second, such as 36GB")
		}
		c.ratio("machine.bus.decay", m.Bus.Decay)
	}
	if m.Network > maxDuration {
		c.fail("machine.network", "network is at most 24h")
	}
	for _, figure := range sortedKeys(m.Provenance) {
		path := "machine.provenance." + figure
		if !slices.Contains(machineFigures, figure) {
			c.fail(path, "provenance of %q: the figures of a machine are %s", figure, strings.Join(machineFigures, ", "))
		}
		c.provenance(path, m.Provenance[figure])
	}
	for _, figure := range sortedKeys(m.Spread) {
		path := "machine.spread." + figure
		if !slices.Contains(machineFigures, figure) {
			c.fail(path, "spread of %q: the figures of a machine are %s", figure, strings.Join(machineFigures, ", "))
		}
		if m.Origin(figure) != Measured {
			c.fail(path, "spread of %q: only what was measured has one, and this is %s", figure, m.Origin(figure))
		}
	}
}

// maxCores is beyond every machine there is; it keeps a slip of the keyboard from reserving the memory for it.
const maxCores = 1 << 16

func (c *checker) provenance(path, p string) {
	if !slices.Contains(provenances, p) {
		c.fail(path, "%q is no provenance; it is one of %s", p, strings.Join(provenances, ", "))
	}
}

// changeMachine prepares the tree for an assignment to a figure of the machine: a named machine becomes its content, which from then on
// is not that machine any more, and the figure is assumed until the user says otherwise.
func changeMachine(root *node, path []string, origin string) error {
	n := root.get("machine")
	if n == nil || len(path) < 2 || path[0] != "machine" {
		return nil
	}
	if n.kind == scalar && n.text != HostMachine {
		m, err := LoadMachine(n.text)
		if err != nil {
			return &Error{Origin: origin, Message: err.Error()}
		}
		tree, err := parseTree(m.Name, m.Text())
		if err != nil {
			return err
		}
		mark(tree, origin)
		*n = *tree
	}
	if path[1] == "provenance" {
		return nil
	}
	n.drop("name")
	figure := strings.Join(path[1:], ".")
	if s := n.get("spread"); s != nil && s.kind == mapping {
		for _, known := range machineFigures {
			if known == figure || strings.HasPrefix(known, figure+".") {
				s.drop(known)
			}
		}
	}
	p := n.get("provenance")
	if p == nil || p.kind != mapping || !slices.Contains(machineFigures, figure) {
		return nil // nothing is known of the figures, or it is none, which the checks will say
	}
	for _, known := range machineFigures {
		if known == figure || strings.HasPrefix(known, figure+".") {
			p.drop(known)
		}
	}
	p.keys = append(p.keys, &node{kind: scalar, text: figure, origin: origin})
	p.values = append(p.values, &node{kind: scalar, text: Assumed, origin: origin})
	return nil
}

// drop takes a key out of a mapping.
func (n *node) drop(key string) {
	for i, k := range n.keys {
		if k.text == key {
			n.keys, n.values = slices.Delete(n.keys, i, i+1), slices.Delete(n.values, i, i+1)
			return
		}
	}
}

// isPath reports whether a reference means a file rather than something that is shipped.
func isPath(ref string) bool {
	return strings.ContainsRune(ref, filepath.Separator) || strings.HasSuffix(ref, ".yaml") || strings.HasSuffix(ref, ".yml")
}

// readNamed returns the text that a reference means, and what messages call it. what says in messages what is looked for.
func readNamed(shipped embed.FS, dir, what, ref string) (file string, text []byte, err error) {
	if isPath(ref) {
		text, err = readFile(what, ref)
		return ref, text, err
	}
	text, err = shipped.ReadFile(path.Join(dir, ref+".yaml"))
	if err != nil {
		names := yamlNames(shipped, dir)
		hint := "shipped are " + strings.Join(names, ", ")
		if near := Nearest(ref, names); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		return "", nil, fmt.Errorf("no shipped %s %q; %s (a file's name ends in .yaml or has a slash)", what, ref, hint)
	}
	return ref + ".yaml", text, nil
}

// readFile reads a file of bounded size.
func readFile(what, path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", what, path, plainPathError(err))
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", what, path, plainPathError(err))
	}
	if len(text) > maxBytes {
		return nil, &Error{File: path, Line: 1, Column: 1, Message: fmt.Sprintf("a %s has at most %d bytes", what, maxBytes)}
	}
	return text, nil
}

// yamlNames lists the YAML files of a shipped folder without their suffix, sorted.
func yamlNames(shipped embed.FS, dir string) []string {
	entries, err := shipped.ReadDir(dir)
	if err != nil {
		panic("profiles: the embedded folder cannot be read: " + err.Error())
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
		}
	}
	slices.Sort(names)
	return names
}
