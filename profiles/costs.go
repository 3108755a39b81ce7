package profiles

import (
	"embed"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"spillway/workloads"
)

//go:embed costs/*.yaml
var costFiles embed.FS

// Costs is a cost table: what the operations of one kind of server cost a modelled machine.
type Costs struct {
	Operations map[string]OperationCost `yaml:"operations"` // by name of the operation
	Provenance map[string]string        `yaml:"provenance"` // by operation and figure, such as get.compute; what is not named is assumed
}

// OperationCost is the cost of one operation: of a key-value store by the size of the value that it is about, of a data frame by the rows.
type OperationCost struct {
	Compute      time.Duration `yaml:"compute"`        // whatever the size
	ComputePerKB time.Duration `yaml:"compute_per_kb"` // for each 1000 bytes of the value, on top of that
	MovedPerByte float64       `yaml:"moved_per_byte"` // bytes across the memory bus for each byte of the value
	CachedBelow  Size          `yaml:"cached_below"`   // a smaller value moves nothing
	At           Size          `yaml:"at"`             // bytes per second that this access pattern reaches alone; 0 for the bus's per-core rate
	SectionFrom  Size          `yaml:"section_from"`   // a value of this size and more is moved within the memory section; 0 for none

	// Of a data frame, whose cached_below is of the columns and results that the operation goes over.
	ComputePerKStep time.Duration `yaml:"compute_per_kstep"` // for each 1000 steps of the operation; frames.Query.Steps says how many it has
	MovedPerRow     float64       `yaml:"moved_per_row"`     // bytes across the memory bus for each row, with the operation's usual parameters
}

// costFigures are the keys of an operation, which provenance can be about.
var costFigures = []string{"compute", "compute_per_kb", "moved_per_byte", "cached_below", "at", "section_from", "compute_per_kstep", "moved_per_row"}

// CostNames returns the names of the shipped cost tables, which are those of kinds of servers, sorted.
func CostNames() []string { return yamlNames(costFiles, "costs") }

// LoadCosts reads a cost table: what contains a slash or ends in .yaml or .yml is a file, anything else the name of a shipped one.
func LoadCosts(nameOrPath string) (*Costs, error) {
	file, text, err := readNamed(costFiles, "costs", "cost table", nameOrPath)
	if err != nil {
		return nil, err
	}
	root, err := parseTree(file, text)
	if err != nil {
		return nil, err
	}
	d := &decoder{file: file, at: map[string]*node{}}
	t := &Costs{}
	if err := d.decode(t, root); err != nil {
		return nil, err
	}
	c := &checker{d: d}
	c.costs(t)
	return t, c.err
}

func (c *checker) costs(t *Costs) {
	if len(t.Operations) == 0 {
		c.fail("operations", "a cost table has operations, such as {get: {compute: 5us}}")
	}
	c.length("operations", len(t.Operations))
	for _, name := range sortedKeys(t.Operations) {
		o, path := t.Operations[name], "operations."+name
		c.name(path, name)
		for key, d := range map[string]time.Duration{"compute": o.Compute, "compute_per_kb": o.ComputePerKB, "compute_per_kstep": o.ComputePerKStep} {
			if d > maxDuration {
				c.fail(path+"."+key, "%s is at most 24h", key)
			}
		}
		if o.MovedPerByte > maxMoved {
			c.fail(path+".moved_per_byte", "moved_per_byte is at most %d", maxMoved)
		}
		if o.MovedPerRow > maxMoved*rowBytes {
			c.fail(path+".moved_per_row", "moved_per_row is at most %d", maxMoved*rowBytes)
		}
		c.moves(&o, name, path)
	}
	for _, key := range sortedKeys(t.Provenance) {
		operation, figure, _ := strings.Cut(key, ".")
		path := "provenance." + key
		if _, known := t.Operations[operation]; !known || figure != "" && !slices.Contains(costFigures, figure) {
			c.fail(path, "provenance of %q: write an operation of this table, a dot and one of %s", key, strings.Join(costFigures, ", "))
		}
		c.provenance(path, t.Provenance[key])
	}
}

// moves checks that what is said of the bytes that an operation moves has a meaning.
func (c *checker) moves(o *OperationCost, name, path string) {
	ofFrame := o.ComputePerKStep != 0 || o.MovedPerRow != 0
	switch {
	case ofFrame && (o.ComputePerKB != 0 || o.MovedPerByte != 0):
		c.fail(path, "operation %s is of a key-value store (compute_per_kb, moved_per_byte) or of a data frame (compute_per_kstep, moved_per_row), not both", name)
	case ofFrame && o.SectionFrom != 0:
		c.fail(path, "operation %s is of a data frame, whose server knows which operations the memory section is for: leave section_from out", name)
	case ofFrame && o.MovedPerRow == 0 && (o.CachedBelow != 0 || o.At != 0):
		c.fail(path, "operation %s moves nothing (moved_per_row), so cached_below and at have no meaning", name)
	case ofFrame || o.MovedPerByte != 0:
	case o.CachedBelow != 0 || o.At != 0:
		c.fail(path, "operation %s moves nothing (moved_per_byte), so cached_below and at have no meaning", name)
	case o.SectionFrom != 0:
		c.fail(path, "operation %s moves nothing (moved_per_byte), so section_from has no meaning", name)
	}
}

// Text returns t as a file that LoadCosts reads.
func (t *Costs) Text() []byte {
	text, err := yaml.Marshal(encode(reflect.ValueOf(*t)))
	if err != nil {
		panic("profiles: a cost table cannot be written: " + err.Error())
	}
	return text
}

// maxMoved bounds the bytes moved for each byte of a value. A copy moves three; only a slip moves thousands.
const maxMoved = 1000

// rowBytes is how many bytes a row has at most: six columns.
const rowBytes = 48

// Table returns t in the form that workloads.NewCosts takes.
func (t *Costs) Table() map[string]workloads.Cost {
	table := make(map[string]workloads.Cost, len(t.Operations))
	for name, o := range t.Operations {
		table[name] = workloads.Cost{
			Compute: o.Compute, ComputePerByte: float64(o.ComputePerKB) / bytesPerKB, MovedPerByte: o.MovedPerByte,
			CachedBelow: int64(o.CachedBelow), At: float64(o.At), SectionFrom: int64(o.SectionFrom),
		}
	}
	return table
}

const bytesPerKB = 1000

// CostsFor returns the cost table that a profile names in server.settings.costs, or that of its server's kind.
func (p *Profile) CostsFor() (*Costs, error) {
	if ref := p.Server.Settings["costs"]; ref != "" {
		t, err := LoadCosts(ref)
		if err != nil {
			return nil, fmt.Errorf("server.settings.costs: %w", err)
		}
		return t, nil
	}
	if !slices.Contains(CostNames(), p.Server.Kind) {
		return nil, fmt.Errorf("there is no cost table of the server kind %s: name one of %s or a file in server.settings.costs",
			p.Server.Kind, strings.Join(CostNames(), ", "))
	}
	return LoadCosts(p.Server.Kind)
}
