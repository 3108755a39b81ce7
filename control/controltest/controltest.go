// Package controltest runs transcripts: text files that show, event by event, what a controller decides. They are its readable
// specification. It is for tests only.
//
// A file belongs to one scenario. It begins with the directive new, whose lines name the controllers (several make a Chain), with their
// settings as in a profile:
//
//	new slots=1 queue=4
//	fixed limit=1 queue=2
//	----
//	ok
//
// Lines "class NAME [priority=N] [slo=D | p50=D p90=D …]" before them say what the controllers know of classes 0, 1 and so on.
//
// The directive run takes events, one a line, in order of time, and prints for each what the Gate does about it:
//
//	run
//	at 0ms arrive 1
//	at 1ms arrive 2 class=1
//	at 3ms finish 1
//	----
//	0s arrive 1: start 1
//	1ms arrive 2: wait 2
//	3ms finish 1: start 2 waited=2ms
//
// The events are
//
//	at T arrive ID [class=N] [priority=N] [client=N] [queue-delay=D] [bytes=N] [deadline=T] [budget=D] [demand=N]
//	at T finish ID [failed]
//	at T withdraw ID
//	at T tick [queue-delay=D] [saturated] [membytes=N [memat=T]]
//	at T enter ID [try|wait-if-uncongested|wait]
//	at T leave ID
//	at T lock ID
//	at T unlock ID
//	at T bus [total=RATE [per=RATE]] [every=D]
//	at T level NAME=SHARE...
//
// A request in service may enter the memory section that the controllers have, in the mode that they have it in unless the line says
// otherwise, and one that waits for it may be withdrawn; lock and unlock do the same at a lock. The event bus sets what the memory sensor
// looks at: a total of bytes a second from here on, or so many for each request in the memory section until they reach the total. The sensor is
// read at each tick, or takes readings of its own at that distance. One that is refused is still in service until it is finished. The event
// level says how full resources are from here on, as shares of their limits.
//
// A request with a demand asks for credits, and its reply says how many: credits=N behind its refusal, or behind finish. The event poll
// brings a question of a client (control.Polls), and forget says that it has gone. A Credit action for a client that has no question open
// is printed as unasked.
//
//	at T poll CLIENT demand=N
//	at T forget CLIENT
//
// The queueing delay that controllers see is the age of the oldest in the Gate, or what queue-delay says if it is more. Instants count from the
// beginning of the file; a deadline is an instant too. Ticks that the controller itself asked for happen by
// themselves, and are printed when something comes of them. Refusals are printed by their fate: reject, drop or expire, with the reason.
//
// The directive load offers many requests and serves each for the same time; it prints the refusals and a summary:
//
//	load first=1 from=0s every=5ms count=200 service=10ms
//
// With quiet it prints the summary only. The directives stats and meters print the Gate's counts and the controller's meters.
//
// The directive client is about one client's half of the controllers, alone and on a time of its own. Its events are requests that are due
// and news from the server, and it prints what the client sends, refuses or asks:
//
//	at T offer TOKEN [class=N] [priority=N]
//	at T reply [credits=N] [latency=D] [shed]
//	at T told [credits=N]
//	at T lose|part|tick
//
// `go test PACKAGE -rewrite` writes what happened into the files; read the difference before it is committed.
package controltest

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"spillway/clock"
	"spillway/control"
	"spillway/control/catalog"
)

// What controllers are told of the place where they run.
const (
	cores = 2
	slo   = 500 * time.Microsecond
)

// Run runs every transcript, *.txt, in folder dir as a subtest. Other files there are left alone: rapid keeps its failures beside them.
func Run(t *testing.T, dir string) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no transcripts in %s (%v)", dir, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			datadriven.RunTest(t, path, new(world).directive)
		})
	}
}

// world is what one transcript acts on.
type world struct {
	gate       *control.Gate
	controller control.Controller
	now        clock.Instant
	nextTick   clock.Instant
	places     map[uint64]control.Place // of those that wait
	inService  map[uint64]service
	sections   sections
	credits    credits
	half       *half
	levels     []control.Level // what every tick shows
	log        strings.Builder
}

// service is one request in service.
type service struct {
	request control.Request
	began   clock.Instant
}

func (w *world) directive(t *testing.T, d *datadriven.TestData) string {
	if w.gate == nil && d.Cmd != "new" {
		d.Fatalf(t, "the first directive must be new")
	}
	w.log.Reset()
	var err error
	switch d.Cmd {
	case "new":
		err = w.create(t, d)
	case "run":
		for line := range strings.Lines(d.Input) {
			if err = w.event(strings.TrimSpace(line)); err != nil {
				err = fmt.Errorf("%q: %w", strings.TrimSpace(line), err)
				break
			}
		}
	case "client":
		for line := range strings.Lines(d.Input) {
			if err = w.outboxEvent(strings.TrimSpace(line)); err != nil {
				err = fmt.Errorf("%q: %w", strings.TrimSpace(line), err)
				break
			}
		}
	case "load":
		var l load
		if l, err = scanLoad(t, d); err == nil {
			w.load(l)
		}
	case "stats":
		w.printStats()
	case "meters":
		w.printMeters()
	default:
		d.Fatalf(t, "unknown directive %s", d.Cmd)
	}
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	if w.log.Len() == 0 {
		return "ok\n"
	}
	return w.log.String()
}

// create makes the Gate that new describes. A wrong setting is a result, so that transcripts can show the error.
func (w *world) create(t *testing.T, d *datadriven.TestData) error {
	var config control.GateConfig
	d.MaybeScanArgs(t, "slots", &config.Slots)
	d.MaybeScanArgs(t, "queue", &config.Queue)
	var members []control.Controller
	var classes []catalog.Class
	var found sections
	var client *half
	for line := range strings.Lines(d.Input) {
		words := strings.Fields(line)
		if words[0] == "class" {
			c, err := class(words[1:])
			if err != nil {
				return err
			}
			classes = append(classes, c)
			continue
		}
		settings, err := catalog.ParseSettings(words[1:])
		if err != nil {
			return err
		}
		s, err := catalog.New(words[0], settings, catalog.Env{Cores: cores, SLO: slo, Seed: 1, Classes: classes})
		if err != nil {
			return err
		}
		members = append(members, s.Controller)
		found.adopt(&s)
		if h := newHalf(&s); h != nil {
			client = h
		}
	}
	switch len(members) {
	case 0:
		return fmt.Errorf("new without a controller")
	case 1:
		w.controller = members[0]
	default:
		w.controller = control.NewChain(members...)
	}
	*w = world{
		gate: control.NewGate(w.controller, config), controller: w.controller,
		places: make(map[uint64]control.Place), inService: make(map[uint64]service), sections: found,
		credits: newCredits(w.controller), half: client,
	}
	w.tick(control.Signals{})
	return nil
}

// advance goes to instant t, by way of the ticks that fall due before it.
func (w *world) advance(t clock.Instant) {
	for w.nextTick <= t {
		w.now = max(w.now, w.nextTick)
		if actions := w.tick(control.Signals{}); len(actions) > 0 {
			w.print("tick", actions)
		}
	}
	w.now = t
}

func (w *world) tick(s control.Signals) []control.Action {
	s = w.sensed(s)
	s.Levels = w.levels
	s.QueueDelay = max(s.QueueDelay, w.gate.QueueDelay(w.now))
	actions, next := w.gate.Tick(w.now, s, nil)
	if next <= w.now {
		next = w.now + 1 // a controller that is always due must not stop time
	}
	w.nextTick = next
	return w.apply(actions)
}

// apply keeps account of what the actions mean and returns them.
func (w *world) apply(actions []control.Action) []control.Action {
	for _, a := range actions {
		switch id := a.Request.ID; a.Kind {
		case control.Start:
			delete(w.places, id)
			w.inService[id] = service{request: a.Request, began: w.now}
		case control.Queue:
			w.places[id] = a.Place
		case control.Refuse:
			delete(w.places, id)
			if n, ok := w.reply(a.Request); ok {
				w.credits.told[id] = int32(n)
			}
		}
	}
	return actions
}

func (w *world) arrive(r control.Request) []control.Action {
	if r.Budget == 0 {
		r.Budget = w.sections.budget
	}
	r.QueueDelay = max(r.QueueDelay, w.gate.QueueDelay(w.now))
	return w.apply(w.gate.Arrive(w.now, r, nil))
}

func (w *world) finish(id uint64, failed bool) []control.Action {
	s := w.inService[id]
	delete(w.inService, id)
	actions := w.gate.Finish(w.now, s.request, w.now.Sub(s.began), failed, nil)
	w.credits.finished = ""
	if n, ok := w.reply(s.request); ok {
		w.credits.finished = fmt.Sprintf(" credits=%d", n)
	}
	return w.apply(actions)
}

// print writes one line: what happened, and the actions that followed.
func (w *world) print(what string, actions []control.Action) {
	fmt.Fprintf(&w.log, "%v %s:", w.now, what)
	for i, a := range actions {
		if i > 0 {
			w.log.WriteString(",")
		}
		w.log.WriteString(" " + describe(a) + w.note(a))
	}
	if len(actions) == 0 {
		w.log.WriteString(" nothing")
	}
	w.log.WriteString("\n")
}

func describe(a control.Action) string {
	var text string
	switch a.Kind {
	case control.Start:
		text = fmt.Sprintf("start %d", a.Request.ID)
	case control.Queue:
		text = fmt.Sprintf("wait %d", a.Request.ID)
	case control.Refuse:
		verb := [...]string{
			control.NotShed: "refuse", control.ShedRejected: "reject", control.ShedDropped: "drop", control.ShedExpired: "expire",
		}[a.Reason.Shed()]
		text = fmt.Sprintf("%s %d %v", verb, a.Request.ID, a.Reason)
	case control.Resume:
		text = fmt.Sprintf("resume %d", a.Request.ID)
	case control.Credit:
		text = fmt.Sprintf("credit client=%d %d", a.Request.Client, a.Credits)
	}
	if a.Kind != control.Queue && a.Request.Waited > 0 {
		text += fmt.Sprintf(" waited=%v", a.Request.Waited)
	}
	if a.Request.Tag != 0 {
		text += fmt.Sprintf(" tag=%d", a.Request.Tag)
	}
	return text
}

func (w *world) printStats() {
	s := w.gate.Stats()
	fmt.Fprintf(&w.log, "arrived=%d started=%d finished=%d failed=%d queued=%d in-service=%d max-queued=%d",
		s.Arrived, s.Started, s.Finished, s.Failed, s.Queued, s.InService, s.MaxQueued)
	for reason, n := range s.Shed {
		if n > 0 {
			fmt.Fprintf(&w.log, " %v=%d", control.Reason(reason), n)
		}
	}
	w.log.WriteString("\n")
}

func (w *world) printMeters() {
	if m, ok := w.controller.(control.Meter); ok {
		for name, value := range m.Meters() {
			fmt.Fprintf(&w.log, "%s=%v\n", name, value)
		}
	}
}

// load is what the directive of that name asks for.
type load struct {
	first, count int
	from         clock.Instant
	every        time.Duration
	service      time.Duration
	quiet        bool
}

func scanLoad(t *testing.T, d *datadriven.TestData) (l load, err error) {
	var from, every, served string
	d.ScanArgs(t, "first", &l.first)
	d.ScanArgs(t, "count", &l.count)
	d.ScanArgs(t, "from", &from)
	d.ScanArgs(t, "every", &every)
	d.ScanArgs(t, "service", &served)
	l.quiet = d.HasArg("quiet")
	if l.from, err = instant(from); err != nil {
		return l, err
	}
	if l.every, err = time.ParseDuration(every); err != nil {
		return l, err
	}
	l.service, err = time.ParseDuration(served)
	return l, err
}

// load lets requests arrive at even distances and serves each for the same time, until all are gone.
func (w *world) load(l load) {
	before := w.gate.Stats()
	arrived := 0
	for {
		id, ends := w.nextFinish(l.service)
		arrives := clock.Never
		if arrived < l.count {
			arrives = l.from.Add(time.Duration(arrived) * l.every)
		}
		switch {
		case ends == clock.Never && arrives == clock.Never:
			w.printLoad(before)
			return
		case ends <= arrives: // a slot that is freed at the instant of an arrival is free for it
			w.advance(ends)
			w.printRefusals(l, fmt.Sprintf("finish %d", id), w.finish(id, false))
		default:
			w.advance(arrives)
			r := control.Request{ID: uint64(l.first + arrived)}
			arrived++
			w.printRefusals(l, fmt.Sprintf("arrive %d", r.ID), w.arrive(r))
		}
	}
}

// nextFinish returns which request in service is served first, and when: clock.Never if there is none.
func (w *world) nextFinish(service time.Duration) (first uint64, ends clock.Instant) {
	ends = clock.Never
	for id, s := range w.inService {
		end := s.began.Add(service)
		if end < ends || end == ends && id < first {
			first, ends = id, end
		}
	}
	return first, ends
}

func (w *world) printRefusals(l load, what string, actions []control.Action) {
	refusals := slices.DeleteFunc(actions, func(a control.Action) bool { return a.Kind != control.Refuse })
	if len(refusals) > 0 && !l.quiet {
		w.print(what, refusals)
	}
}

// printLoad sums up what has happened since before.
func (w *world) printLoad(before control.Stats) {
	s := w.gate.Stats()
	fmt.Fprintf(&w.log, "%v: %d arrived, %d finished", w.now, s.Arrived-before.Arrived, s.Finished-before.Finished)
	for reason, n := range s.Shed {
		if n -= before.Shed[reason]; n > 0 {
			fmt.Fprintf(&w.log, ", %d %v", n, control.Reason(reason))
		}
	}
	w.log.WriteString("\n")
}
