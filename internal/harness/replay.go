//go:build linux

package harness

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"time"

	"spillway/internal/arrival"
	"spillway/internal/replay"
	"spillway/profiles"
	"spillway/report"
	"spillway/sim"
	"spillway/workloads"
)

const kindReplay = "replay"

// replayed is the workload of a log, which knows when its requests were due too.
type replayed struct {
	*workloads.Replay
	trace *replay.Trace
	scans bool // the server takes keys of some forms for scans, which cannot be stored
}

var _ workloads.Preloader = (*replayed)(nil)

// scanForms are what the keys of scans begin with, as servers/rocksdb documents them.
var scanForms = []string{"scan:", "keys:"}

// Preload yields what the log's workload does, without scans: what a scan found has no key of its own, and a store refuses to keep it under that.
func (r *replayed) Preload() iter.Seq[*workloads.Op] {
	if !r.scans {
		return r.Replay.Preload()
	}
	return func(yield func(*workloads.Op) bool) {
		for op := range r.Replay.Preload() {
			scan := slices.ContainsFunc(scanForms, func(form string) bool { return bytes.HasPrefix(op.Key, []byte(form)) })
			if !scan && !yield(op) {
				return
			}
		}
	}
}

// stored returns how many keys are stored before the first request, and the bytes of their values.
func (r *replayed) stored() (items, size int64) {
	if !r.scans {
		items, size, _ = r.trace.Stored()
		return items, size
	}
	for op := range r.Preload() {
		items, size = items+1, size+int64(len(op.Value))
	}
	return items, size
}

// replayOf returns the workload of a profile that replays a log. The log is read once and shared.
func replayOf(p *profiles.Profile) (*replayed, error) {
	t, err := p.Recorded()
	if err != nil {
		return nil, err
	}
	w, err := workloads.NewReplay(t.Recording)
	return &replayed{Replay: w, trace: t, scans: p.Server.Kind == "rocksdb"}, err
}

// refuseReplay says what of a log cannot be replayed. It reads the log.
func refuseReplay(p *profiles.Profile) error {
	if p.Workload.Kind != kindReplay {
		return nil
	}
	path := "workload.replay.file"
	if p.Workload.Replay.Generate != nil {
		path = "workload.replay.generate"
	}
	w, err := replayOf(p)
	if err != nil {
		return mistake(p, path, "%s: %w", path, err)
	}
	switch n := multigets(w.trace); {
	case n > 0 && p.On == groundModel:
		return mistake(p, path, "%s: has %d multigets: not on the ground model: the classic get carries no modelled instants", path, n)
	case n > 0 && overHTTP(p.Server.Settings["target"]):
		return mistake(p, path, "%s: has %d multigets: HTTP has none", path, n)
	}
	for i, s := range p.Load.Speeds {
		if _, _, err := replay.NewArrivals(w.trace, replay.Pace{Speed: s.Value()}); err != nil {
			return mistake(p, fmt.Sprintf("load.speeds.%d", i), "load.speeds: %w", err)
		}
	}
	for _, r := range p.Load.Rates {
		if _, _, err := replay.NewArrivals(w.trace, replay.Pace{Speed: float64(r) / w.trace.Rate()}); err != nil {
			return mistake(p, "load.rates", "load.rates: %w", err)
		}
	}
	return nil
}

// multigets returns how many requests of a log are reads of several keys.
func multigets(t *replay.Trace) (n int) {
	var e workloads.Entry
	for i := range t.Times {
		if t.Entry(i, &e); e.Kind == workloads.MultiGet {
			n++
		}
	}
	return n
}

// recordedRate returns the mean rate of the log of p, which has been read. A log that cannot be read has been refused.
func recordedRate(p *profiles.Profile) float64 {
	t, err := p.Recorded()
	if err != nil {
		return 0
	}
	return t.Rate()
}

// pace returns how fast the log is replayed at a point.
func (r *replayed) pace(p *profiles.Profile, point *Point, warmUp time.Duration) replay.Pace {
	pace := replay.Pace{Speed: point.Rate / r.trace.Rate(), WarmUp: warmUp, Stop: p.Workload.Replay.AtEnd == profiles.AtEndStop}
	if point.speed != "" {
		pace.Speed = point.speed.Value() // which no rounding has been through
	}
	return pace
}

// arrivals returns when the requests of a log are due at a point, and has the workload begin with the first of them. Where one steady rate is asked
// for, it is the order of the log at that rate.
func (r *replayed) arrivals(p *profiles.Profile, point *Point, warmUp time.Duration) (arrival.Process, error) {
	if point.steady {
		return arrival.New(arrival.KindPoisson, point.Rate, 0)
	}
	a, first, err := replay.NewArrivals(r.trace, r.pace(p, point, warmUp))
	if err != nil {
		return nil, fmt.Errorf("replay at %s: %w", point.row().Load(), err)
	}
	r.Start(first)
	return a, nil
}

// replayCosts returns what is asked by a log, without values, and what that costs.
func (m *modelled) replayCosts() (*replayed, *workloads.ReplayCosts, error) {
	w, err := replayOf(m.profile)
	if err != nil {
		return nil, nil, usage("%s: workload.replay: %w", m.profile.File(), err)
	}
	w.WithoutValues()
	c, err := workloads.NewReplayCosts(w.Replay, m.table)
	if err != nil {
		return nil, nil, usage("%s: server.settings.costs: %w", m.profile.File(), err)
	}
	return w, c, nil
}

var _ sim.Coster = (*workloads.ReplayCosts)(nil)

// Over a log the load is taken for constant in stretches of so many requests at least: few enough to follow the day, enough for their number to be
// that of the load rather than of chance.
const (
	momentRequests = 1000
	mostMoments    = driftMoments
)

// replayMoments cuts the window into stretches and counts what the log asks in each.
func (m *modelled) replayMoments(p *Point) []moment {
	w, err := replayOf(m.profile)
	if err != nil {
		return nil // it has been refused
	}
	window := m.profile.Window
	n := min(max(int(p.Rate*window.Seconds()/momentRequests), 1), mostMoments)
	parts, err := w.trace.Parts(w.pace(m.profile, p, 0), window, n)
	if err != nil {
		return nil
	}
	list := make([]moment, 0, n)
	for _, part := range parts {
		now := moment{weight: 1 / float64(n), rate: part.Rate, shares: part.Counts}
		total := 0.0
		for _, c := range part.Counts {
			total += c
		}
		for i := range now.shares {
			now.shares[i] /= max(total, 1)
		}
		list = append(list, now)
	}
	return list
}

// unstored says what to do about reads of a log that find nothing because their keys are not stored first. It is empty of any other workload, and of a
// log that says of all its reads how much they found.
func unstored(p *profiles.Profile) string {
	if p.Workload.Kind != kindReplay {
		return ""
	}
	t, err := p.Recorded()
	if err != nil {
		return ""
	}
	reads, sizeless := 0, 0
	var e workloads.Entry
	for i := range t.Times {
		if t.Entry(i, &e); e.Kind != workloads.Get && e.Kind != workloads.MultiGet {
			continue
		}
		for _, size := range e.Sizes {
			reads++
			if size == workloads.NoValue {
				sizeless++
			}
		}
	}
	if sizeless == 0 {
		return ""
	}
	return fmt.Sprintf("; %d of the %d reads of the log have no size: they found nothing when it was made, so their keys are not stored first. "+
		"Where the log only lacks the sizes, fill in its column size", sizeless, reads)
}

// ofReplay describes the log of a run for its manifest; nil where none is replayed.
func ofReplay(p *profiles.Profile) *report.Replay {
	if p.Workload.Kind != kindReplay {
		return nil
	}
	w, err := replayOf(p)
	if err != nil {
		return nil
	}
	t := w.trace
	f := &report.Replay{
		Requests: int64(t.Len()), Seconds: t.Round.Seconds(), RPS: t.Rate(), Keys: int64(t.Keys()), Digest: fmt.Sprintf("%016x", t.Digest()), Passed: t.Passed,
	}
	f.Stored, f.StoredBytes = w.stored()
	return f
}

// replayRemarks tells what of a log is measured, and what of it was passed over.
func (e *experiment) replayRemarks(p *profiles.Profile) {
	f := ofReplay(p)
	if f == nil {
		return
	}
	e.note("the log has %d requests in %s, %.3g a second; %d of its keys are read before they are written, and stored first",
		f.Requests, (time.Duration(f.Seconds * float64(time.Second))).Round(time.Millisecond), f.RPS, f.Stored)
	t, err := p.Recorded()
	if err != nil {
		return
	}
	for _, b := range t.Bad {
		e.note("%s:%d: passed over: %s", p.Workload.Replay.File, b.Line, b.Reason)
	}
	if more := t.Passed - int64(len(t.Bad)); more > 0 {
		e.note("%s: %d rows more were passed over", p.Workload.Replay.File, more)
	}
}

// refuseStored says when a log has values that the server cannot hold.
func refuseStored(p *profiles.Profile) error {
	_, bytes, largest := footprint(p)
	memory, item := sizes(p)
	switch {
	case p.Server.Kind != "memcached":
		return nil
	case largest+itemOverhead > item:
		return mistake(p, "server.settings.max_item", "the largest value of the log has %s and server.settings.max_item is %s: make it %s",
			profiles.Size(largest), profiles.Size(item), profiles.Size(roomFor(largest)))
	case bytes > memory:
		return mistake(p, "server.settings.memory", "the values of the log take %s and server.settings.memory is %s: give it more, or take a part of the log (from, for)",
			profiles.Size(bytes), profiles.Size(memory))
	}
	return nil
}

// roomFor returns a size of item that holds a value: in it are key and header too.
func roomFor(value int64) int64 {
	const step = 1 << 20
	return ((value+itemOverhead)/step + 1) * step
}
