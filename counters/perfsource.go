//go:build linux

package counters

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"spillway/clock"
	"spillway/counters/perf"
)

// maxRate is more than one PMU can move, in bytes per second. Dead channels have been seen to return 1e19 and more.
const maxRate = 2e12

// reopenAfter is how long a group that fails is left alone before its events are opened anew.
const reopenAfter = time.Second

// Name implements Provider.
func (p *perfProvider) Name() string { return p.name }

// Measures implements Provider.
func (p *perfProvider) Measures() string { return p.measures }

// Open implements Provider.
func (p *perfProvider) Open(m *Machine) (Source, error) {
	plans, err := p.plan(m)
	if err != nil {
		return nil, err
	}
	s := &perfSource{machine: m, capability: Capability{Name: p.name, Kind: p.kind, Scope: p.scope, Directions: "sum", MinPeriod: p.minPeriod}}
	s.arrange(plans)
	if err := s.open(true); err != nil {
		// Pinned events that find no counter show it at the first reading; then all take turns.
		if !errors.Is(err, perf.ErrNotCounting) {
			return nil, err
		}
		if err := s.open(false); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// part is one group of events on one PMU and CPU.
type part struct {
	what   string // for messages
	pmu    string
	group  *perf.Group
	attrs  []perf.Attr
	roles  []role
	bytes  []float64
	values []float64
	socket int // index into the sockets of the source
	busy   float64
	row    *row
	muxMS  int
	failed bool
}

// perfSource sums the groups of all PMUs of a provider.
type perfSource struct {
	machine    *Machine
	capability Capability
	parts      []part
	sockets    []float64
	last       clock.Instant
	retryAt    clock.Instant
	pinned     bool
	presses    bool // one of the parts counts a pressure
}

// arrange turns plans into groups: what must be read at one instant is together, what takes turns is alone.
func (s *perfSource) arrange(plans []planned) {
	seen := map[perf.Attr]bool{}
	directions := map[role]bool{}
	for _, p := range plans {
		id := s.machine.Root.Package(p.cpu)
		at := slices.Index(s.capability.Sockets, id)
		if at < 0 {
			at = len(s.capability.Sockets)
			s.capability.Sockets = append(s.capability.Sockets, id)
		}
		if n := p.row.note; n != "" && !slices.Contains(s.capability.Notes, n) {
			s.capability.Notes = append(s.capability.Notes, n)
		}
		crowded := p.row.crowded()
		if crowded {
			s.capability.MinPeriod = max(s.capability.MinPeriod, evenAfter(len(p.row.wants), p.pmu.MuxMS))
		}
		var data, pressure part
		for i, w := range p.wants {
			if seen[p.attrs[i]] { // an event that is opened twice may be counted twice
				continue
			}
			seen[p.attrs[i]] = true
			s.capability.Events = append(s.capability.Events, p.events[i])
			directions[w.role] = true
			into := &data
			if w.role == roleBusy || w.role == roleClock {
				into, s.presses = &pressure, true
			}
			into.attrs, into.roles = append(into.attrs, p.attrs[i]), append(into.roles, w.role)
			into.bytes = append(into.bytes, p.events[i].Bytes)
		}
		for _, into := range []*part{&data, &pressure} {
			into.what = fmt.Sprintf("%s on CPU %d", p.pmu.Name, p.cpu)
			into.pmu, into.socket, into.busy, into.row, into.muxMS = p.pmu.Name, at, p.row.busyShare, p.row, p.pmu.MuxMS
			if crowded || p.row.separate {
				for i := range into.attrs {
					one := *into
					one.attrs, one.roles, one.bytes = into.attrs[i:i+1], into.roles[i:i+1], into.bytes[i:i+1]
					s.add(one)
				}
			} else if len(into.attrs) > 0 {
				s.add(*into)
			}
		}
	}
	if directions[roleRead] && directions[roleWrite] {
		s.capability.Directions = "read, write"
	}
	s.sockets = make([]float64, len(s.capability.Sockets))
}

// crowded reports whether there are more events than counters.
func (r *row) crowded() bool { return r.counters > 0 && len(r.wants) > r.counters }

// evenAfter returns how long events have to take turns, so many, for what each missed to even out. The kernel moves one event to the back of
// the line at a time, so each has been everywhere after as many moves as there are events, and is away for half of that in one piece when
// half of them fit; after ten moves each, as is often advised, a single busy channel that swings is estimated with an error of more than a
// tenth. Five whole rounds.
func evenAfter(events, muxMS int) time.Duration {
	return 5 * time.Duration(events*max(muxMS, 1)) * time.Millisecond
}

func (s *perfSource) add(p part) {
	p.values = make([]float64, len(p.attrs))
	s.parts = append(s.parts, p)
}

// open opens all groups. Where pinned is set, those that have counters of their own insist on them, and if one does not get any the result is
// perf.ErrNotCounting.
func (s *perfSource) open(pinned bool) error {
	_ = s.Close()
	s.pinned = pinned
	for i := range s.parts {
		p := &s.parts[i]
		if err := s.openPart(p); err != nil {
			_ = s.Close()
			if p.isPressure() && len(s.parts) > 1 { // bytes without a pressure are welcome too
				s.parts = slices.DeleteFunc(s.parts, func(p part) bool { return p.isPressure() })
				s.presses = false
				s.capability.Notes = append(s.capability.Notes, fmt.Sprintf("no pressure: %v", explain(s.machine, p.what, err)))
				return s.open(pinned)
			}
			return explain(s.machine, p.what, err)
		}
	}
	for i := range s.parts {
		if _, err := s.parts[i].group.Read(s.parts[i].values); err != nil {
			what := s.parts[i].what
			_ = s.Close()
			return explain(s.machine, what, err)
		}
	}
	s.last = s.machine.Clock.Now()
	return nil
}

func (p *part) isPressure() bool { return p.roles[0] == roleBusy || p.roles[0] == roleClock }

func (s *perfSource) openPart(p *part) error {
	for i := range p.attrs {
		p.attrs[i].Pinned = s.pinned && !p.row.crowded() && !p.isPressure()
	}
	g, err := perf.Open(s.machine.Perf, p.attrs, 64)
	if err != nil {
		return err
	}
	if p.row.saturates > 0 {
		g.SaturateAt(p.row.saturates)
	}
	p.group, p.failed = g, false
	return nil
}

// Capability implements Source.
func (s *perfSource) Capability() *Capability { return &s.capability }

// Close implements Source.
func (s *perfSource) Close() error {
	var first error
	for i := range s.parts {
		if g := s.parts[i].group; g != nil {
			if err := g.Close(); err != nil && first == nil {
				first = err
			}
			s.parts[i].group = nil
		}
	}
	return first
}

// sums is what the groups add up to.
type sums struct {
	read, write, total float64
	busy, clock        float64
	known, missing     int // groups of bytes
}

// Read implements Source.
func (s *perfSource) Read(r *Reading) {
	r.begin(s.machine.Clock.Now(), s.last)
	clear(s.sockets)
	var t sums
	for i := range s.parts {
		s.readPart(&s.parts[i], r, &t)
	}
	s.last = r.At
	if s.retryAt > 0 && r.At >= s.retryAt {
		s.reopen()
	}
	if t.clock > 0 && s.presses {
		r.Pressure = min(t.busy/t.clock, 1)
	}
	if t.known == 0 {
		r.Flags |= Missing
		return
	}
	if t.missing > 0 {
		r.Flags |= Partial
	}
	r.Total = t.read + t.write + t.total
	if s.capability.Directions == "read, write" {
		r.Read, r.Write = t.read, t.write
	}
	if s.capability.Kind == Estimate {
		r.Flags |= Estimated
	}
	r.Sockets = s.sockets
}

// readPart reads one group and adds it to the sums.
func (s *perfSource) readPart(p *part, r *Reading, t *sums) {
	bytes := !p.isPressure()
	if p.group == nil || p.failed {
		if bytes {
			t.missing++
		}
		return
	}
	w, err := p.group.Read(p.values)
	if err != nil {
		s.fail(p, err, r.At)
	}
	r.Flags |= translate(w.Flags)
	if w.Flags&perf.Multiplexed != 0 && p.muxMS > 0 && w.Running > 0 {
		even := s.capability.MinPeriod // where turns were planned
		if !p.row.crowded() {
			even = evenAfter(int(math.Round(float64(w.Enabled)/float64(w.Running))), p.muxMS)
		}
		if r.Span < even {
			r.Flags |= Coarse
		}
	}
	whole := err == nil && w.Flags&perf.None == 0
	for i, v := range p.values {
		if math.IsNaN(v) || perSecond(v*p.bytes[i], r.Span) > maxRate {
			whole = false
			continue
		}
		moved := v * p.bytes[i]
		switch p.roles[i] {
		case roleRead:
			t.read += moved
		case roleWrite:
			t.write += moved
		case roleTotal:
			t.total += moved
			if p.busy > 0 { // the pressure is a share of these
				t.clock += v
			}
		case roleBusy:
			t.busy += v * p.busy
		case roleClock:
			t.clock += v
		}
		s.sockets[p.socket] += moved
	}
	switch {
	case !bytes:
	case whole:
		t.known++
	default:
		t.missing++
	}
}

func translate(w perf.Flags) (f Flags) {
	for _, pair := range [...]struct {
		from perf.Flags
		to   Flags
	}{{perf.Multiplexed, Multiplexed}, {perf.Reset, Reset}, {perf.Wrapped, Wrapped}, {perf.Saturated, Stuck}} {
		if w&pair.from != 0 {
			f |= pair.to
		}
	}
	return f
}

// fail notes that a group can no longer be read. When its processor went offline the kernel moves it elsewhere, so it is opened again later; a
// pinned group that lost its counter is too, and then takes turns.
func (s *perfSource) fail(p *part, err error, now clock.Instant) {
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, perf.ErrShort) {
		return
	}
	p.failed = true
	if s.retryAt == 0 {
		s.retryAt = now.Add(reopenAfter)
	}
}

// reopen opens the groups that failed once more, without insisting on counters, where the kernel now wants them counted.
func (s *perfSource) reopen() {
	s.retryAt = 0
	s.pinned = false
	for i := range s.parts {
		p := &s.parts[i]
		if !p.failed {
			continue
		}
		if p.group != nil {
			_ = p.group.Close()
			p.group = nil
		}
		s.relocate(p)
		if err := s.openPart(p); err != nil {
			p.failed = true
			s.retryAt = s.last.Add(reopenAfter)
		}
	}
}

// relocate gives a part the processor on which the kernel now wants its unit to be counted, after the one before went offline.
func (s *perfSource) relocate(p *part) {
	pmu, err := s.machine.Root.PMU(p.pmu)
	if err != nil || slices.Contains(pmu.CPUs, p.attrs[0].CPU) {
		return
	}
	for _, cpu := range pmu.CPUs {
		taken := slices.ContainsFunc(s.parts, func(q part) bool { return q.pmu == p.pmu && !q.failed && q.attrs[0].CPU == cpu })
		if taken || s.machine.Root.Package(cpu) != s.capability.Sockets[p.socket] {
			continue
		}
		for i := range p.attrs {
			p.attrs[i].CPU = cpu
		}
		return
	}
}
