package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"spillway/internal/harness"
)

// telling says how a command tells where it stands: the flags that run, drive, reproduce and the rest have in common.
type telling struct {
	quiet   bool
	verbose bool // phase has a line
	json    bool
}

func (t *telling) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&t.quiet, "quiet", false, "no progress on standard error")
	f.BoolVar(&t.verbose, "verbose", false, "a line of progress for every phase of a point, not one for the point; where there is no terminal")
	f.BoolVar(&t.json, "json-progress", false, "progress for machines: a JSON object a line on standard error, for every phase, point, note and second")
	cmd.PreRunE = func(*cobra.Command, []string) error { return wrong(t.check()) }
}

// check refuses what would be ignored.
func (t *telling) check() error {
	switch {
	case t.json && t.quiet:
		return errors.New("--json-progress and --quiet: one wants progress and the other none; leave one out")
	case t.json && t.verbose:
		return errors.New("--json-progress tells every phase; leave out --verbose")
	}
	return nil
}

// progress shows where a run stands: a bar on a terminal, elsewhere a line for every point and probe, or for every phase, or an object of JSON for
// everything. Nothing of it runs on the thread that measures. Its methods may be called by several runs at once.
type progress struct {
	telling

	mu    sync.Mutex
	w     io.Writer
	bar   *bar      // nil where there is no terminal
	told  string    // the last line that was written
	lives liveTimes // of JSON
	now   func() time.Time

	failure error // that ended told of
}

// open begins to tell on w.
func (t *telling) open(w io.Writer) *progress {
	p := &progress{telling: *t, w: w, now: time.Now}
	if t.quiet || t.json {
		return p
	}
	if on := terminalOf(w); on != nil {
		p.bar = &bar{w: on}
	}
	return p
}

// only returns what takes the events of the only profile that a command runs.
func (p *progress) only(profile string) func(harness.Event) {
	return func(e harness.Event) { p.take(profile, "", e) }
}

// of returns what takes the events of one profile of several: where people read, its name stands before what is told.
func (p *progress) of(profile string) func(harness.Event) {
	return func(e harness.Event) { p.take(profile, profile+": ", e) }
}

func (p *progress) take(profile, prefix string, e harness.Event) {
	if p.quiet {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.json:
		p.object(profile, &e)
	case p.bar != nil:
		p.bar.take(prefix, e)
	case e.Note != "":
		fmt.Fprintln(p.w, prefix+e.Note)
	case e.Kind == harness.Live:
	case e.Kind == harness.Finished && !p.verbose:
	case p.verbose || e.Total == 0: // each phase of a search is a probe
		fmt.Fprintln(p.w, prefix+line(e))
	default:
		if point := prefix + fmt.Sprintf("point %d of %d, %s", e.Done+1, e.Total, e.What); point != p.told {
			p.told = point
			fmt.Fprintln(p.w, point+goodput(e)+left(e))
		}
	}
}

// close takes the bar away.
func (p *progress) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		p.bar.close()
	}
}

// number returns which point an event is about, from 1.
func number(e *harness.Event) int {
	if e.Kind == harness.Finished {
		return e.Done
	}
	return e.Done + 1
}

// line writes an event as text: "point 3 of 24, codel at 1.5x, repeat 1: window, 41.2k/s in time, 1m40s left".
func line(e harness.Event) string {
	s := e.What + ": " + cmp.Or(e.Phase, "done")
	if e.Total > 0 {
		s = fmt.Sprintf("point %d of %d, %s", number(&e), e.Total, s)
	}
	return s + goodput(e) + left(e)
}

// goodput writes how many requests are answered in time, where that is known, and of which point that is.
func goodput(e harness.Event) string {
	v, ok := e.Goodput.Get()
	switch {
	case !ok:
		return ""
	case e.Earlier:
		return fmt.Sprintf(", %s/s in time at the point before", short(v))
	default:
		return fmt.Sprintf(", %s/s in time", short(v))
	}
}

// short writes a rate in three digits: 950, 41.2k, 1.20M.
func short(v float64) string {
	unit := ""
	for _, u := range []string{"k", "M", "G"} {
		if v < 999.5 {
			break
		}
		v, unit = v/1000, u
	}
	digits := 0
	if unit != "" && v < 99.95 {
		digits = 1
		if v < 9.995 {
			digits = 2
		}
	}
	return strconv.FormatFloat(v, 'f', digits, 64) + unit
}

// left writes the estimate of what is still to be done.
func left(e harness.Event) string {
	if left := e.Left.Round(time.Second); left > 0 {
		return fmt.Sprintf(", %s left", left)
	}
	return ""
}

// bar is progress on a terminal.
type bar struct {
	w    *os.File
	bars *mpb.Progress // nil until there is something to draw
	bar  *mpb.Bar
	last atomic.Pointer[shown] // what stands beside the bar; atomic because it is drawn by a goroutine of its own
}

type shown struct {
	harness.Event
	prefix string
}

const (
	barWidth = 24
	barLeast = 10 // what text leaves of it on a narrow terminal
	refresh  = 250 * time.Millisecond
)

func (b *bar) take(prefix string, e harness.Event) {
	if e.Note != "" {
		if b.bars == nil {
			fmt.Fprintln(b.w, prefix+e.Note)
		} else {
			fmt.Fprintln(b.bars, prefix+e.Note)
		}
		return
	}
	if e.Kind == harness.Finished {
		// Until the next point begins this one stands there, with the goodput of its window; and a bar that is full would be taken away.
		e.Kind, e.Phase, e.Done = harness.Live, "done", e.Done-1
	}
	b.last.Store(&shown{e, prefix})
	if b.bar == nil {
		b.bars = mpb.New(mpb.WithConsoleWriter(&console{out: b.w}), mpb.WithWidth(barWidth), mpb.WithRefreshRate(refresh))
		b.bar = b.bars.AddBar(0, mpb.BarRemoveOnComplete(), mpb.BarFillerTrim(), mpb.AppendDecorators(decor.Any(b.text)))
	}
	if e.Total > 0 {
		b.bar.SetTotal(int64(e.Total), false)
		b.bar.SetCurrent(int64(e.Done))
	}
}

// text is what stands beside the bar: as much as there is room for.
func (b *bar) text(s decor.Statistics) string {
	return " " + b.last.Load().fit(s.AvailableWidth-barLeast-1)
}

// fit returns the longest way to say where a run stands that takes no more than so many columns.
func (e *shown) fit(width int) string {
	point, what := "probing", e.What
	if e.Total > 0 {
		point = fmt.Sprintf("%d/%d", number(&e.Event), e.Total)
		what = point + " " + what
	}
	rate, earlier := "", ""
	if v, ok := e.Goodput.Get(); ok {
		rate = ", " + short(v) + "/s"
		if earlier = rate; e.Earlier {
			earlier = ", last " + short(v) + "/s"
		}
	}
	left := left(e.Event)
	for _, text := range []string{
		e.prefix + line(e.Event),
		e.prefix + what + ": " + e.Phase + earlier + left,
		what + earlier + left,
		point + earlier + left,
		point + left,
	} {
		if len(text) <= width {
			return text
		}
	}
	return point
}

func (b *bar) close() {
	if b.bars == nil {
		return
	}
	b.bar.Abort(true)
	b.bars.Wait()
	b.bars, b.bar = nil, nil
}
