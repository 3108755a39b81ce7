// Package profiles reads experiments: strict YAML in, plain structs out.
//
// Strict means that nothing is guessed and nothing is passed over. An unknown key, a wrong type or a value out of range is an error
// that says file, line and column, and names the nearest known key. Whether the version at hand can run everything that a profile
// asks for is not decided here: the harness refuses what it cannot do.
package profiles

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// maxBytes bounds the size of a profile. The largest experiment of the papers fits in a few kilobytes; what is longer is not a
// profile, and parsing it would only cost time and memory.
const maxBytes = 256 << 10

//go:embed *.yaml
var shipped embed.FS

// Profile is one experiment: who is asked what, how often, under which controllers. All defaults are filled in and presets expanded.
type Profile struct {
	Name        string        `yaml:"name"`
	Title       string        `yaml:"title"`
	Source      *Source       `yaml:"source"`
	On          string        `yaml:"on"` // sim, model or host
	Machine     *Machine      `yaml:"machine"`
	Server      Server        `yaml:"server"`
	Workload    Workload      `yaml:"workload"`
	Load        Sweep         `yaml:"load"`
	Controllers []Controller  `yaml:"controllers"`
	Retry       *Retry        `yaml:"retry"`
	Timeout     time.Duration `yaml:"timeout"` // from the due instant; then the client has stopped waiting
	Drain       time.Duration `yaml:"drain"`   // how long answers are waited for after the window
	WarmUp      time.Duration `yaml:"warmup"`  // cut off the front
	Window      time.Duration `yaml:"window"`  // the measured part
	Repeats     int           `yaml:"repeats"`
	Seed        uint64        `yaml:"seed"`
	Claims      []Claim       `yaml:"claims"`

	file string // where it was read, for messages
	text string // as it was read
}

// Source says which figure of which paper a profile repeats.
type Source struct {
	Paper  string `yaml:"paper"`
	Figure string `yaml:"figure"`
}

// Machine is the modelled machine: the name of a machine file (or a path, or "host"), or its description.
type Machine struct {
	Ref string // name, path or "host"; empty when described inline

	Cores      int               `yaml:"cores"`
	Bus        *Bus              `yaml:"bus"`
	Network    time.Duration     `yaml:"network"` // one way
	RAM        Size              `yaml:"ram"`
	Provenance map[string]string `yaml:"provenance"`
}

// Bus is a memory bus.
type Bus struct {
	Total   Size    `yaml:"total"`    // bytes per second
	PerCore Size    `yaml:"per_core"` // bytes per second of one stream
	Decay   float64 `yaml:"decay"`    // share of Total lost per stream above saturation
}

// Server says what answers.
type Server struct {
	Kind     string            `yaml:"kind"`
	Settings map[string]string `yaml:"settings"` // as written; what a kind takes is the harness's business
	Replicas int               `yaml:"replicas"` // 0 means 1
}

// Workload says what is asked, and by how many clients.
type Workload struct {
	Kind        string  `yaml:"kind"`
	Preset      string  `yaml:"preset"` // classes of a paper; entries of Classes change or add to them
	Connections int     `yaml:"connections"`
	Arrivals    string  `yaml:"arrivals"` // poisson or constant
	Classes     []Class `yaml:"classes"`
}

// Class is one kind of request. Which fields it may have depends on the workload's kind.
type Class struct {
	Name  string  `yaml:"name"`
	Share float64 `yaml:"share"` // of the arrivals; the shares sum to 1
	SLO   SLO     `yaml:"slo"`

	// Of the kind kv.
	Key        string             `yaml:"key"`      // prefix of the keys
	Keys       uint64             `yaml:"keys"`     // how many there are
	KeySize    int                `yaml:"key_size"` // length of each, 0 for the prefix and 16 digits
	Value      string             `yaml:"value"`
	Op         string             `yaml:"op"`  // get, set or delete; or
	Mix        map[string]float64 `yaml:"mix"` // shares of several
	Popularity string             `yaml:"popularity"`

	// Of the kind synthetic.
	Work []Step `yaml:"work"`
}

// Step is one piece of modelled work. Exactly one of Compute, Stream, Section, Lock, Wait and Memory is set.
type Step struct {
	Compute string `yaml:"compute"` // a distribution of durations
	Stream  Size   `yaml:"stream"`  // bytes across the bus
	At      Size   `yaml:"at"`      // of Stream: its own lower rate, bytes per second
	Section string `yaml:"section"`
	Steps   []Step `yaml:"steps"` // of Section
	Lock    string `yaml:"lock"`
	For     string `yaml:"for"` // of Lock: a distribution of durations
	Wait    string `yaml:"wait"`
	Memory  Size   `yaml:"memory"` // bytes held until the request ends
}

// SLO is the objective on the latency of a class.
type SLO struct {
	Limit       time.Duration            // of one request: ok or late. The largest of Percentiles when these are given; 0 for none
	Percentiles map[string]time.Duration // such as p50: 18ms; nil when one duration was written
}

// Sweep says how much is offered. Exactly one of the fields is set.
type Sweep struct {
	Rates      []Rate   `yaml:"rates"`
	OfCapacity []Factor `yaml:"of_capacity"`
	Phases     []Phase  `yaml:"phases"`
}

// Phase is a stretch of time with its own rate and mix.
type Phase struct {
	For    time.Duration      `yaml:"for"`
	Rate   Rate               `yaml:"rate"`
	Shares map[string]float64 `yaml:"shares"`
}

// Controller is one overload control to be measured.
type Controller struct {
	Name     string            `yaml:"name"`
	As       string            `yaml:"as"`       // the label, Name by default
	Settings map[string]string `yaml:"settings"` // as written
}

// Retry says what clients do with refused requests.
type Retry struct {
	To     string  `yaml:"to"`
	Budget float64 `yaml:"budget"`
}

// Claim is a statement of a paper that the results are held against.
type Claim struct {
	Text       string   `yaml:"text"`
	Metric     string   `yaml:"metric"`
	Class      string   `yaml:"class"`
	Controller string   `yaml:"controller"`
	Over       []string `yaml:"over"`
	Take       string   `yaml:"take"`
	Paper      float64  `yaml:"paper"`
	HoldsAt    float64  `yaml:"holds_at"`
}

// defaults are what a profile gets that does not say otherwise.
func defaults() Profile {
	return Profile{
		On:       "host",
		Server:   Server{},
		Workload: Workload{Connections: 16, Arrivals: "poisson"},
		Timeout:  10 * time.Second,
		Drain:    2 * time.Second,
		WarmUp:   3 * time.Second,
		Window:   5 * time.Second,
		Repeats:  3,
		Seed:     1,
	}
}

// Names returns the names of the shipped profiles, sorted.
func Names() []string {
	entries, err := shipped.ReadDir(".")
	if err != nil {
		panic("profiles: the embedded folder cannot be read: " + err.Error())
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	slices.Sort(names)
	return names
}

// Load reads a profile: what contains a slash or ends in .yaml or .yml is a file, anything else the name of a shipped profile.
func Load(nameOrPath string) (*Profile, error) {
	if strings.ContainsRune(nameOrPath, filepath.Separator) || strings.HasSuffix(nameOrPath, ".yaml") ||
		strings.HasSuffix(nameOrPath, ".yml") {
		return loadFile(nameOrPath)
	}
	text, err := shipped.ReadFile(nameOrPath + ".yaml")
	if err != nil {
		names := Names()
		hint := "shipped are " + strings.Join(names, ", ")
		if near := Nearest(nameOrPath, names); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		return nil, fmt.Errorf("no shipped profile %q; %s (a file's name ends in .yaml or has a slash)", nameOrPath, hint)
	}
	p, err := Parse(nameOrPath+".yaml", text)
	if err != nil {
		return nil, err
	}
	if p.Name != nameOrPath {
		return nil, fmt.Errorf("%s.yaml: name is %q, but a shipped profile is named as its file", nameOrPath, p.Name)
	}
	return p, nil
}

func loadFile(path string) (*Profile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("profile %s: %w", path, plainPathError(err))
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("profile %s: %w", path, plainPathError(err))
	}
	return Parse(path, text)
}

// plainPathError strips the path from err, since the message around it already names the file.
func plainPathError(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// Parse reads the profile in text; file is what messages call it.
func Parse(file string, text []byte) (*Profile, error) {
	if len(text) > maxBytes {
		return nil, &Error{File: file, Line: 1, Column: 1, Message: fmt.Sprintf("a profile has at most %d bytes", maxBytes)}
	}
	root, err := parseTree(file, text)
	if err != nil {
		return nil, err
	}
	p, err := build(file, root)
	if err != nil {
		return nil, err
	}
	p.text = string(text)
	return p, nil
}

// build decodes, expands and checks a tree.
func build(file string, root *node) (*Profile, error) {
	p := defaults()
	d := &decoder{file: file, at: map[string]*node{}}
	if err := d.decode(&p, root); err != nil {
		return nil, err
	}
	if err := p.expand(d); err != nil {
		return nil, err
	}
	if err := p.check(d); err != nil {
		return nil, err
	}
	p.file = file
	return &p, nil
}

// File returns the path or name under which p was read.
func (p *Profile) File() string { return p.file }

// Text returns the profile as it was read, before any Set.
func (p *Profile) Text() string { return p.text }

// Label returns what column `controller`, --controllers and claims call c.
func (c *Controller) Label() string {
	if c.As != "" {
		return c.As
	}
	return c.Name
}
