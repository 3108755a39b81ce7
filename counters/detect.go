//go:build linux

package counters

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// How long the gate looks at counters without our stream and with it, and what it wants to see.
const (
	quietTime  = 200 * time.Millisecond
	streamTime = 300 * time.Millisecond
	// minMoved is the least share of our stream's bytes that a counter must show to be believed to count at all. It is below a half, which is what
	// a known mistake gives that deserves a hint instead.
	minMoved = 0.3
	// A ratio of counter to stream outside of these means that a factor is wrong, or that somebody else moves a lot.
	lowRatio, highRatio = 0.8, 1.3
)

// Config says what Detect looks for.
type Config struct {
	// Force is the only provider that will do, or "". If it does not work Detect fails: nothing else takes its place.
	Force string
	// All tries every provider, for a table; else Detect stops at the first that works.
	All bool
	// Check looks for a second source that counts bytes as well, to hold the first against: Detection.Second.
	Check bool
	// Account is what the program accounts for; nil: nobody does, except for our own stream when All is set.
	Account *Account
	// Peak is the most bytes per second that this machine's memory can move, where it has been measured; 0: it is not known. Readings that are well
	// above are marked Overcount.
	Peak float64
	// Extra are providers of the caller's own. They stand before all others.
	Extra []Provider
	// Run reads memory for d and returns how many bytes it read; nil is a stream of our own.
	Run func(ctx context.Context, d time.Duration) (bytes int64)
}

// Candidate is what became of one provider.
type Candidate struct {
	Name       string
	Measures   string
	Usable     bool
	Reason     string   // why it is not usable; "" if it is
	Remedy     string   // what would help; "" if nothing is known to
	Capability          // of what was opened
	Ratio      float64  // of what it counted to what our stream read, NaN where it was not tried
	Quiet      float64  // bytes per second before our stream began, NaN where it was not tried
	Hints      []string // what a ratio that is off usually means
}

// Detection is what was found out of this machine.
type Detection struct {
	// Source is the chosen one, nil if no provider works. It belongs to the caller, who closes it.
	Source Source
	Chosen string
	// Second is the next that counts bytes, nil if none was looked for or found. It is the caller's, too.
	Second     Source
	Candidates []Candidate // in order of belief
}

// Providers returns all providers in order of belief: counters of memory controllers, of fabrics, the kernel's resource control, cache misses, then
// what needs no hardware. peak is that of Config.
func Providers(a *Account, peak float64) []Provider {
	var list []Provider
	for i := range perfProviders {
		list = append(list, &perfProviders[i])
	}
	return append(list, resctrlProvider{}, &llcProvider, Accounted{Account: a, Peak: peak}, selfProbeProvider{}, latencyProvider{})
}

// Names returns the names of all providers, in order of belief.
func Names() []string {
	var names []string
	for _, p := range Providers(nil, 0) {
		names = append(names, p.Name())
	}
	return names
}

// Detect opens providers and believes those whose count moves while a stream of ours runs. It takes half a second where there is hardware to try.
// The detection is complete, with all reasons, also when the error is not nil because nothing works.
func Detect(ctx context.Context, m *Machine, c Config) (*Detection, error) {
	list := append(slices.Clone(c.Extra), Providers(c.Account, c.Peak)...)
	if c.Force != "" {
		at := slices.IndexFunc(list, func(p Provider) bool { return p.Name() == c.Force })
		if at < 0 {
			return nil, fmt.Errorf("no provider %q; there are %s", c.Force, strings.Join(Names(), ", "))
		}
		list = list[at : at+1]
	}
	g := gate{machine: m, config: c}
	defer g.close()
	d := &Detection{}
	var sources []Source
	for _, p := range list {
		cand := Candidate{Name: p.Name(), Measures: p.Measures(), Ratio: math.NaN(), Quiet: math.NaN()}
		s := g.try(ctx, p, &cand)
		d.Candidates, sources = append(d.Candidates, cand), append(sources, s)
		switch {
		case s == nil:
		case d.Source == nil:
			d.Source, d.Chosen = s, cand.Name
		case c.Check && d.Second == nil && cand.Kind == Counted && d.Source.Capability().Kind == Counted:
			d.Second = s
		}
		if d.Source != nil && !c.All && !d.lacksSecond(c) {
			break
		}
	}
	for _, s := range sources {
		if s != nil && s != d.Source && s != d.Second {
			_ = s.Close()
		}
	}
	if err := ctx.Err(); err != nil {
		d.close()
		return d, err
	}
	switch {
	case d.Source == nil && c.Force != "":
		u := &d.Candidates[0]
		return d, &Unusable{Reason: fmt.Sprintf("provider %s: %s", c.Force, u.Reason), Remedy: u.Remedy}
	case d.Source == nil:
		return d, &Unusable{Reason: "nothing on this machine tells of memory traffic", Remedy: "`loadgen counters` has the reason of each source"}
	}
	return d, nil
}

// lacksSecond reports whether a second source is still worth looking for. Behind the kernel's resource control nothing counts any more.
func (d *Detection) lacksSecond(c Config) bool {
	last := d.Candidates[len(d.Candidates)-1].Name
	return c.Check && d.Second == nil && d.Source.Capability().Kind == Counted && last != resctrlProvider{}.Name()
}

func (d *Detection) close() {
	for _, s := range []Source{d.Source, d.Second} {
		if s != nil {
			_ = s.Close()
		}
	}
	d.Source, d.Second, d.Chosen = nil, nil, ""
}

// gate opens providers and holds their counts against a stream.
type gate struct {
	machine *Machine
	config  Config
	memory  *Memory
}

func (g *gate) close() {
	if g.memory != nil {
		_ = g.memory.Close()
	}
}

// try opens a provider and returns its source if it can be believed.
func (g *gate) try(ctx context.Context, p Provider, c *Candidate) Source {
	s, err := p.Open(g.machine)
	if err != nil {
		c.Reason = err.Error()
		var u *Unusable
		if errors.As(err, &u) {
			c.Reason, c.Remedy = u.Reason, u.Remedy
		}
		return nil
	}
	c.Capability = *s.Capability()
	// The caller's own providers see another machine than the one our stream runs on; accounts and probes are our own.
	if c.Scope == ScopeModel || c.Scope == ScopeProcess || c.Kind == Pressure {
		c.Usable = true
		return s
	}
	if err := g.hold(ctx, s, c); err != nil {
		_ = s.Close()
		c.Reason = err.Error()
		var u *Unusable
		if errors.As(err, &u) {
			c.Reason, c.Remedy = u.Reason, u.Remedy
		}
		return nil
	}
	c.Usable = true
	m := &marked{Source: s, peak: g.config.Peak}
	if len(c.Hints) > 0 {
		m.flags = Uncalibrated
	}
	return m
}

// marked is a source of whose readings something more is known than itself can tell.
type marked struct {
	Source
	flags Flags
	peak  float64
}

// Read implements Source.
func (s *marked) Read(r *Reading) {
	s.Source.Read(r)
	r.Flags |= s.flags
	if s.peak > 0 && r.Rate() > overcount*s.peak {
		r.Flags |= Overcount
	}
}

// hold reads a source while the machine is left alone and while our stream runs.
func (g *gate) hold(ctx context.Context, s Source, c *Candidate) error {
	run, err := g.stream()
	if err != nil {
		return err
	}
	var quiet, loaded Reading
	s.Read(&quiet)
	g.machine.Wait(ctx, quietTime)
	s.Read(&quiet)
	bytes := run(ctx, streamTime)
	s.Read(&loaded)
	if err := ctx.Err(); err != nil {
		return err
	}
	if loaded.Flags&Missing != 0 {
		return &Unusable{
			Reason: "it opens and never counts: " + (loaded.Flags | quiet.Flags).String(),
			Remedy: "stop whatever else counts on this machine (PCM, likwid, a monitoring agent)",
		}
	}
	c.Quiet = quiet.Rate()
	background := 0.0
	if !math.IsNaN(c.Quiet) {
		background = c.Quiet * loaded.Span.Seconds()
	}
	// Other traffic than ours is taken off as far as it was there before. If it has grown meanwhile, the ratio comes out too high.
	c.Ratio = (loaded.Total - background) / float64(bytes)
	// What the counter showed altogether decides whether it counts: background that has shrunk must not make it look dead.
	if loaded.Total < minMoved*float64(bytes) && c.Kind == Counted || loaded.Total == 0 {
		return &Unusable{
			Reason: fmt.Sprintf("it opens and does not count: %.3g of the %.3g bytes that our stream read", loaded.Total, float64(bytes)),
			Remedy: hintOf(c.Ratio, g.machine.Root.CPU().Hypervisor),
		}
	}
	if c.Kind == Counted && (c.Ratio < lowRatio || c.Ratio > highRatio) {
		c.Hints = append(c.Hints, fmt.Sprintf("counts %.2f of what our stream read: %s", c.Ratio, hintOf(c.Ratio, false)))
	}
	return nil
}

// hintOf says what a ratio of counter to stream usually means.
func hintOf(ratio float64, vm bool) string {
	near := func(x float64) bool { return ratio > x*0.85 && ratio < x*1.15 }
	switch {
	case vm:
		return "a virtual machine may open counters and never move them; " + remedyVM
	case ratio < 0.02:
		return "the counters are dead, or another program has reprogrammed them"
	case near(1.0 / 16):
		return "the scale in sysfs is 4 B where it should be 64 B (a kernel before 5.6)"
	case near(0.5):
		return "half is what too few counters, one of two subchannels or one of two memory domains give"
	case near(2):
		return "twice is what several memory domains a socket (NPS) give, or stores that are read first"
	case near(16):
		return "the scale is 16 times too large"
	case ratio < lowRatio:
		return "channels are missing, or others stopped moving memory meanwhile"
	default:
		return "channels are counted twice, or others move memory as well"
	}
}

// stream returns what runs our stream.
func (g *gate) stream() (func(context.Context, time.Duration) int64, error) {
	if g.config.Run != nil {
		return g.config.Run, nil
	}
	if g.memory == nil {
		m, err := NewMemory(StreamSize(g.machine))
		if err != nil {
			return nil, err
		}
		g.memory = m
	}
	load := Load{Stream: NewStream(g.memory), Duty: 1, Period: streamTime, Machine: g.machine}
	return load.Run, nil
}
