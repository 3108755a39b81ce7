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
	"os"
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
	Variants    []Variant     `yaml:"variants"`
	Server      Server        `yaml:"server"`
	Workload    Workload      `yaml:"workload"`
	Load        Sweep         `yaml:"load"`
	Controllers []Controller  `yaml:"controllers"`
	Retry       *Retry        `yaml:"retry"`
	Timeout     time.Duration `yaml:"timeout"` // from the due instant; then the client has stopped waiting
	Drain       time.Duration `yaml:"drain"`   // how long answers are waited for after the window
	WarmUp      time.Duration `yaml:"warmup"`  // cut off the front
	Window      time.Duration `yaml:"window"`  // the measured part; with phases the sum of them
	Repeats     int           `yaml:"repeats"`
	Seed        uint64        `yaml:"seed"`
	Claims      []Claim       `yaml:"claims"`
	Validate    *Validation   `yaml:"validate"`

	// What --quick and --full set, by key with dots as in Variant.Set; see Sized.
	Quick map[string]Inline `yaml:"quick"`
	Full  map[string]Inline `yaml:"full"`

	file string // where it was read, for messages
	text string // as it was read

	places   places     // of what was written
	recorded *recorded  // the log, of the kind replay; else nil
	variant  string     // which of the variants this is; empty for the profile as it stands
	runs     []*Profile // the variants, each a profile of its own
}

// Source says which figure of which paper a profile repeats.
type Source struct {
	Paper  string `yaml:"paper"`
	Figure string `yaml:"figure"`
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
	Arrivals    string  `yaml:"arrivals"` // one of arrival.Forms, or closed
	Shape       string  `yaml:"shape"`    // of the rate over the window, one of arrival.ShapeForms; empty for constant
	Classes     []Class `yaml:"classes"`

	MaxConnections int    `yaml:"max_connections"` // up to how many are added when all have in_flight requests under way; 0 for none
	InFlight       int    `yaml:"in_flight"`       // bound on the requests under way on one connection; 0 for the client's own
	Senders        int    `yaml:"senders"`         // threads that send; 0 means 1
	CatchUp        string `yaml:"catch_up"`        // send (all that is overdue, at once) or skip:DURATION (what is later is unsent); empty for send
	Client         string `yaml:"client"`          // pipelined or gomemcache; empty for pipelined

	Allocation *Allocation `yaml:"allocation"` // of the kind allocation
	Replay     *Replay     `yaml:"replay"`     // of the kind replay
}

// Class is one kind of request. Which fields it may have depends on the workload's kind.
type Class struct {
	Name     string  `yaml:"name"`
	Share    float64 `yaml:"share"` // of the arrivals, in an allocation of the budget; the shares sum to 1
	SLO      SLO     `yaml:"slo"`
	Priority int     `yaml:"priority"` // of the business, for controllers that go by it: 0 is the most important, 255 the least

	// Of the kind kv.
	Key        string             `yaml:"key"`      // prefix of the keys
	Keys       uint64             `yaml:"keys"`     // how many there are
	KeySize    string             `yaml:"key_size"` // length of each, or a distribution; empty for the prefix and 16 digits
	Value      string             `yaml:"value"`
	Op         string             `yaml:"op"`  // get, set, delete or multiget, of the kind dataframe the operation; or
	Mix        map[string]float64 `yaml:"mix"` // shares of several
	Popularity string             `yaml:"popularity"`
	Batch      int                `yaml:"batch"`      // keys of a multiget
	Expire     time.Duration      `yaml:"expire"`     // of what is set; 0 for never
	WriteBack  string             `yaml:"write_back"` // the class of the writes that follow misses

	// Of the kind graph, which has Popularity too.
	Query    string  `yaml:"query"`    // one of workloads.GraphQueries
	Accuracy float64 `yaml:"accuracy"` // of pagerank; 0 for the server's own
	Hops     int     `yaml:"hops"`     // of path: at most so many edges; 0 for workloads.DefaultHops

	// Of the kind synthetic.
	Work []Step `yaml:"work"`
}

// Step is one piece of modelled work. Exactly one of Compute, Stream, Section, Lock, Wait and Memory is set.
type Step struct {
	Compute string `yaml:"compute"` // a distribution of durations
	Stream  string `yaml:"stream"`  // a distribution of bytes across the bus
	At      Size   `yaml:"at"`      // of Stream: its own lower rate, bytes per second
	Section string `yaml:"section"`
	Steps   []Step `yaml:"steps"` // of Section
	Lock    string `yaml:"lock"`
	For     string `yaml:"for"` // of Lock: a distribution of durations
	Wait    string `yaml:"wait"`
	Memory  string `yaml:"memory"` // a distribution of bytes held until the request ends
}

// SLO is the objective on the latency of a class.
type SLO struct {
	Limit       time.Duration            // of one request: ok or late. The largest of Percentiles when these are given; 0 for none
	Percentiles map[string]time.Duration // such as p50: 18ms; nil when one duration was written
}

// Sweep says how much is offered. Exactly one of Rates, OfCapacity, Phases and Speeds is set.
type Sweep struct {
	Rates      []Rate   `yaml:"rates"`
	OfCapacity []Factor `yaml:"of_capacity"`
	Phases     []Phase  `yaml:"phases"` // one point, whose window they make up; the warm-up is at the first
	Drift      *Drift   `yaml:"drift"`  // of the shares, beside Rates or OfCapacity
	Speeds     []Speed  `yaml:"speeds"` // of the kind replay: how much faster than it was recorded
}

// Phase is a stretch of time with its own rate and mix.
type Phase struct {
	For    time.Duration      `yaml:"for"`
	Rate   Rate               `yaml:"rate"`
	Shares map[string]float64 `yaml:"shares"` // by class; who is not named has none. Nil for the classes' own
}

// Drift lets the shares swing between the classes' own and Shares, as a cosine does: at the beginning of the window they are the classes'
// own, half a period later those of Shares. They do so in the warm-up too.
type Drift struct {
	Period time.Duration      `yaml:"period"`
	Shares map[string]float64 `yaml:"shares"`
}

// Controller is one overload control to be measured.
type Controller struct {
	Name     string            `yaml:"name"`
	As       string            `yaml:"as"`       // the label, Name by default
	Settings map[string]string `yaml:"settings"` // as written
	Parts    []string          `yaml:"parts"`    // what it is made of, for sharing out what each part brings; nil when it takes no part in that
	WarmUp   time.Duration     `yaml:"warmup"`   // of this controller's points; 0 for the profile's
}

// Retry says what clients do with requests that are refused before or by their server.
type Retry struct {
	To      string  `yaml:"to"`      // other: once, at once, to the next replica
	Budget  float64 `yaml:"budget"`  // retries that each first attempt earns
	Primary string  `yaml:"primary"` // which replica is asked first: spread (each client its own) or first (the first for all)
}

// The values of Retry.Primary.
const (
	PrimarySpread = "spread"
	PrimaryFirst  = "first"
)

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
func Names() []string { return yamlNames(shipped, ".") }

// Load reads a profile: what contains a slash or ends in .yaml or .yml is a file, anything else the name of a shipped profile.
func Load(nameOrPath string) (*Profile, error) {
	file, text, err := readNamed(shipped, ".", "profile", nameOrPath)
	if err != nil {
		return nil, err
	}
	p, err := Parse(file, text)
	if err != nil {
		return nil, err
	}
	if !isPath(nameOrPath) && p.Name != nameOrPath {
		return nil, fmt.Errorf("%s.yaml: name is %q, but a shipped profile is named as its file", nameOrPath, p.Name)
	}
	return p, nil
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
	p, err := build(file, root, "")
	if err != nil {
		return nil, err
	}
	p.text = string(text)
	return p, nil
}

// build decodes, expands and checks a tree.
//
// elsewhere is the origin of what stands in the tree as it was before assignments changed other parts of it; empty without any.
func build(file string, root *node, elsewhere string) (*Profile, error) {
	p := defaults()
	d := &decoder{file: file, at: map[string]*node{}}
	if err := d.decode(&p, root); err != nil {
		return nil, err
	}
	if err := p.expandMachine(d); err != nil {
		return nil, err
	}
	if err := p.expand(d); err != nil {
		return nil, err
	}
	if len(p.Load.Phases) > 0 {
		p.Window = p.Load.length()
	}
	p.defaultValidation()
	p.defaultReplay(d)
	p.file, p.places = file, placesOf(root)
	if err := p.check(&checker{d: d, elsewhere: elsewhere}); err != nil {
		return nil, err
	}
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
