package main

import (
	"encoding/json"
	"errors"
	"math"
	"time"

	"spillway/internal/harness"
)

// object is a line of --json-progress. Its keys are documented in docs/cli.md and stable: more may come, none changes its meaning. What is not known
// or does not apply is left out.
type object struct {
	Time    string `json:"time"`  // of the wall clock, RFC 3339 in UTC
	Event   string `json:"event"` // start, phase, live, point, note, end, failed
	Profile string `json:"profile,omitempty"`

	Point      int    `json:"point,omitempty"` // from 1
	Total      int    `json:"total,omitempty"`
	What       string `json:"what,omitempty"`
	Variant    string `json:"variant,omitempty"`
	Controller string `json:"controller,omitempty"`
	Load       string `json:"load,omitempty"`
	Repeat     int    `json:"repeat,omitempty"`
	Phase      string `json:"phase,omitempty"`

	Goodput   *float64 `json:"goodput_rps,omitempty"`
	GoodputOf string   `json:"goodput_of,omitempty"` // now, point, previous
	Valid     *bool    `json:"valid,omitempty"`
	Left      *float64 `json:"left_s,omitempty"`
	Note      string   `json:"note,omitempty"`

	Dir     string `json:"dir,omitempty"`
	State   string `json:"state,omitempty"` // complete, cut short, failed
	Points  *int   `json:"points,omitempty"`
	Invalid *int   `json:"invalid,omitempty"`
	Error   string `json:"error,omitempty"`
}

// liveEvery is how often --json-progress says the goodput of a point that is under way.
const liveEvery = time.Second

// liveTimes is when that was said last, of each profile.
type liveTimes map[string]time.Time

// object writes an event of a profile.
func (p *progress) object(profile string, e *harness.Event) {
	o := object{
		Profile: profile, What: e.What, Variant: e.Variant, Controller: e.Controller, Load: e.Load, Repeat: e.Repeat, Phase: e.Phase, Note: e.Note,
	}
	switch {
	case e.Note != "":
		o.Event = "note"
	case e.Kind == harness.Live:
		if p.now().Sub(p.lives[profile]) < liveEvery {
			return
		}
		if p.lives == nil {
			p.lives = make(liveTimes)
		}
		p.lives[profile] = p.now()
		o.Event, o.GoodputOf = "live", "now"
	case e.Kind == harness.Finished:
		o.Event, o.GoodputOf, o.Valid = "point", "point", &e.Valid
	default:
		o.Event, o.GoodputOf = "phase", "now"
	}
	if e.Earlier {
		o.GoodputOf = "previous"
	}
	if e.Total > 0 {
		o.Point, o.Total = number(e), e.Total
	}
	if v, ok := e.Goodput.Get(); ok {
		v = math.Round(v*10) / 10
		o.Goodput = &v
	} else {
		o.GoodputOf = ""
	}
	if e.Left > 0 || e.Kind == harness.Finished && e.Done == e.Total {
		s := e.Left.Round(100 * time.Millisecond).Seconds()
		o.Left = &s
	}
	p.write(&o)
}

// started tells that a run of a profile begins, and where its results go.
func (p *progress) started(profile, dir string) {
	if p.json {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.write(&object{Event: "start", Profile: profile, Dir: dir})
	}
}

// ended tells how it ended.
func (p *progress) ended(profile string, out *harness.Outcome, err error) {
	if !p.json {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	o := object{Event: "end", Profile: profile, Dir: out.Dir, State: "complete", Points: &out.Points, Invalid: &out.Invalid}
	switch {
	case err != nil:
		o.State, o.Error, p.failure = "failed", err.Error(), err
	case out.CutShort:
		o.State = "cut short"
	}
	p.write(&o)
}

func (p *progress) write(o *object) {
	o.Time = p.now().UTC().Format("2006-01-02T15:04:05.000Z07:00")
	text, err := json.Marshal(o)
	if err != nil { // there is nothing in it that could not be written
		return
	}
	// A reader that is gone must not end a measurement.
	_, _ = p.w.Write(append(text, '\n'))
}

// spoken returns err without its text where --json-progress is used: it is told as an object, unless it has been, so that standard error has nothing else.
func (p *progress) spoken(err error) error {
	var e *exit
	if !p.json || !errors.As(err, &e) || e.err == nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure == nil || !errors.Is(e.err, p.failure) {
		p.write(&object{Event: "failed", Error: e.err.Error()})
	}
	return &exit{code: e.code}
}
