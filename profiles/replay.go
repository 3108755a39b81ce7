package profiles

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"spillway/internal/replay"
	"spillway/workloads"
)

const kindReplay = "replay"

// ArrivalsRecorded are the arrivals of the kind replay: the instants of the log.
const ArrivalsRecorded = "recorded"

// The values of Replay.AtEnd and Replay.BadRows.
const (
	AtEndRepeat = "repeat"
	AtEndStop   = "stop"

	BadRowsRefuse = "refuse"
	BadRowsCount  = "count"
)

// Replay says which log is replayed: exactly one of File and Generate.
type Replay struct {
	File     string        `yaml:"file"` // see replay.Scan
	Generate *Generated    `yaml:"generate"`
	From     time.Duration `yaml:"from"`     // of a file: what is before it, counted from the first request, is left out
	For      time.Duration `yaml:"for"`      // of a file: so much is replayed, and a round of it takes so long; 0 for all
	AtEnd    string        `yaml:"at_end"`   // repeat (the default) or stop
	BadRows  string        `yaml:"bad_rows"` // of a file: refuse (the default) or count
}

// Generated describes a log that is drawn from a seed. Its classes say what is asked, as those of the kind kv do.
type Generated struct {
	Seed   uint64        `yaml:"seed"` // 1 unless it is given; not that of the profile, so all repeats have the same log
	Length time.Duration `yaml:"length"`
	Rate   Rate          `yaml:"rate"`
	Daily  *Daily        `yaml:"daily"`
	Bursts *Bursts       `yaml:"bursts"`
	Drift  *Drift        `yaml:"drift"` // of the shares of the classes
}

// Daily is a rate that rises and falls every day.
type Daily struct {
	Swing  float64       `yaml:"swing"`  // by which share of the mean
	Period time.Duration `yaml:"period"` // 24h unless it is given
	Peak   time.Duration `yaml:"peak"`   // when in the day it is highest
}

// Bursts are stretches of time with a higher rate.
type Bursts struct {
	Every time.Duration `yaml:"every"` // between the end of one and the beginning of the next, on average
	For   time.Duration `yaml:"for"`   // on average
	Times float64       `yaml:"times"`
}

const day = 24 * time.Hour

// defaultReplay fills in what a replay has unless it says otherwise.
func (p *Profile) defaultReplay(d *decoder) {
	if p.Workload.Kind != kindReplay {
		return
	}
	if d.at["workload.arrivals"] == nil {
		p.Workload.Arrivals = ArrivalsRecorded
	}
	if p.Workload.Replay == nil {
		return
	}
	r := p.Workload.Replay
	r.AtEnd, r.BadRows = cmp.Or(r.AtEnd, AtEndRepeat), cmp.Or(r.BadRows, BadRowsRefuse)
	if g := r.Generate; g != nil {
		if d.at["workload.replay.generate.seed"] == nil {
			g.Seed = 1
		}
		if g.Daily != nil {
			g.Daily.Period = cmp.Or(g.Daily.Period, day)
		}
	}
	p.recorded = &recorded{}
}

// generates reports whether w replays a log that is drawn.
func (w *Workload) generates() bool {
	return w.Kind == kindReplay && w.Replay != nil && w.Replay.Generate != nil
}

// logged reports whether the shares of w's classes are those of a file.
func (w *Workload) logged() bool { return w.Kind == kindReplay && !w.generates() }

// drifts reports whether a class gets a share in the course of a drawn log.
func (w *Workload) drifts(class string) bool {
	return w.generates() && w.Replay.Generate.Drift != nil && w.Replay.Generate.Drift.Shares[class] > 0
}

// LogOf returns the description of the log that w draws, in the form that package replay takes.
func (w *Workload) LogOf() (*replay.Generate, error) {
	kv := *w
	kv.Kind = kindKV
	classes, err := kv.KVClasses()
	if err != nil {
		return nil, err
	}
	d := w.Replay.Generate
	g := &replay.Generate{Seed: d.Seed, Length: d.Length, Rate: float64(d.Rate), Classes: classes}
	if d.Daily != nil {
		g.Swing, g.Day, g.Peak = d.Daily.Swing, d.Daily.Period, d.Daily.Peak
	}
	if d.Bursts != nil {
		g.Every, g.For, g.Times = d.Bursts.Every, d.Bursts.For, d.Bursts.Times
	}
	if d.Drift != nil {
		g.Drift, g.Mixed = d.Drift.Period, w.SharesOf(d.Drift.Shares)
	}
	return g, g.Check()
}

// replay checks a workload of the kind replay.
func (c *checker) replay(w *Workload) {
	r := w.Replay
	if r == nil && w.Allocation != nil {
		return // which says what is wrong
	}
	if r == nil || (r.File == "") == (r.Generate == nil) {
		c.fail("workload.replay", "a replay has one of file, a log, and generate, how one is drawn")
		return
	}
	c.oneOf("workload.replay.at_end", r.AtEnd, []string{AtEndRepeat, AtEndStop})
	c.oneOf("workload.replay.bad_rows", r.BadRows, []string{BadRowsRefuse, BadRowsCount})
	if r.Generate == nil {
		if r.From > maxDuration*366 || r.For > maxDuration*366 {
			c.fail("workload.replay", "from and for are at most a year")
		}
		return
	}
	for key, given := range map[string]bool{"from": r.From != 0, "for": r.For != 0, "bad_rows": r.BadRows != BadRowsRefuse} {
		if given {
			c.fail("workload.replay."+key, "%s is about a file, and this log is drawn; leave it out", key)
		}
	}
	if d := r.Generate.Drift; d != nil {
		c.shares("workload.replay.generate.drift.shares", d.Shares, w.classNames())
	}
	if c.err != nil {
		return
	}
	g, err := w.LogOf()
	if err != nil {
		c.fail("workload.replay.generate", "%v", err)
		return
	}
	if _, err := workloads.NewKV(g.Classes); err != nil {
		c.fail("workload.classes", "%v", err)
	}
}

// logClass checks what a class of a log in a file says: it is the log that says the rest.
func (c *checker) logClass(class *Class, path string, w *Workload) {
	if class.Share != 0 && w.Replay != nil {
		c.fail(path+".share", "the shares of a log are its own; leave out that of class %s", class.Name)
	}
	c.otherClass(class, path, kindReplay)
	if class.Work != nil {
		c.fail(path+".work", "work belongs to the workload kind synthetic, this is replay")
	}
}

// replayed checks how the requests of a log are offered.
func (c *checker) replayed(p *Profile) {
	w, l := &p.Workload, &p.Load
	switch {
	case w.Arrivals != ArrivalsRecorded:
		c.fail("workload.arrivals", "the requests of a log are due when it says; leave arrivals out")
	case w.Shape != "":
		c.fail("workload.shape", "the rate of a log has a shape of its own; leave the shape out")
	case len(l.Phases) > 0:
		c.fail("load.phases", "the rate of a log changes as it says; give speeds, rates or of_capacity")
	case l.Drift != nil:
		c.fail("load.drift", "the shares of a log change as it says; leave the drift out, or give a log that is drawn one (workload.replay.generate.drift)")
	}
}

// speeds checks load.speeds.
func (c *checker) speeds(p *Profile) {
	if len(p.Load.Speeds) > 0 && p.Workload.Kind != kindReplay {
		c.fail("load.speeds", "speeds are of the workload kind replay, this is %s", p.Workload.Kind)
	}
	c.length("load.speeds", len(p.Load.Speeds))
	for i, s := range p.Load.Speeds {
		for _, before := range p.Load.Speeds[:i] {
			if before.Value() == s.Value() {
				c.fail("load.speeds."+strconv.Itoa(i), "speed %s stands here a second time; use repeats", s)
			}
		}
	}
	if p.Workload.Replay != nil && p.Workload.Kind != kindReplay {
		c.fail("workload.replay", "replay belongs to the workload kind replay, this is %s", p.Workload.Kind)
	}
}

// Speed is how fast a log is replayed, as the profile writes it: 1 for as it was recorded, 60 for an hour in a minute.
type Speed string

const maxSpeed = 1e12

// ParseSpeed reads a speed such as 0.5 or 3600.
func ParseSpeed(s string) (Speed, error) {
	v, err := parseNumber(s)
	if err != nil {
		return "", fmt.Errorf("%q is not a speed; write a number such as 1, as it was recorded, or 60, an hour in a minute", s)
	}
	if v < 1/maxSpeed || v > maxSpeed {
		return "", fmt.Errorf("speed %s is outside 0 (excluded) to 10^12", s)
	}
	return Speed(s), nil
}

// Value returns the speed as a number.
func (s Speed) Value() float64 {
	v, err := parseNumber(string(s))
	if err != nil {
		panic("profiles: a Speed that ParseSpeed did not make: " + string(s))
	}
	return v
}

// recorded is the log of a profile once it has been read or drawn.
type recorded struct {
	once  sync.Once
	trace *replay.Trace
	err   error
}

// Recorded returns the log that p replays. It is read or drawn once. Several may ask at the same time.
func (p *Profile) Recorded() (*replay.Trace, error) {
	if p.recorded == nil {
		return nil, fmt.Errorf("the workload is of kind %s, not replay", p.Workload.Kind)
	}
	p.recorded.once.Do(func() { p.recorded.trace, p.recorded.err = p.record() })
	return p.recorded.trace, p.recorded.err
}

func (p *Profile) record() (*replay.Trace, error) {
	w := &p.Workload
	if w.generates() {
		g, err := w.LogOf()
		if err != nil {
			return nil, err
		}
		return g.Trace()
	}
	f, err := os.Open(w.Replay.File)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.Replay.File, plainPathError(err))
	}
	defer func() { _ = f.Close() }() // it has only been read
	load := replay.Load{
		Rules: replay.Rules{Skip: w.Replay.BadRows == BadRowsCount}, Classes: w.classNames(), Prefixes: w.keyPrefixes(), From: w.Replay.From, For: w.Replay.For,
	}
	return replay.Read(f, w.Replay.File, load)
}

// keyPrefixes returns what the keys of the classes begin with; nil where not every class says so.
func (w *Workload) keyPrefixes() (list []string) {
	for i := range w.Classes {
		if w.Classes[i].Key == "" {
			return nil
		}
		list = append(list, w.Classes[i].Key)
	}
	return list
}
