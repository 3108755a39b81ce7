package main

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"spillway/internal/harness"
)

// progress shows where a run stands: a bar on a terminal, elsewhere a line for every point and probe, or for every phase. Nothing of it runs on the thread that
// measures.
type progress struct {
	w     io.Writer
	bars  *mpb.Progress // nil where there is no terminal
	quiet bool
	every bool   // phase has a line
	told  string // the last line that was written
	bar   *mpb.Bar
	last  atomic.Pointer[harness.Event] // what the bar says; atomic because it is drawn by a goroutine of its own
}

func newProgress(w io.Writer, quiet, every bool) *progress {
	p := &progress{w: w, quiet: quiet, every: every}
	if !quiet && isTerminal(w) {
		p.bars = mpb.New(mpb.WithOutput(w), mpb.WithWidth(barWidth), mpb.WithRefreshRate(refresh))
	}
	return p
}

const (
	barWidth = 24
	refresh  = 250 * time.Millisecond
)

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb" && os.Getenv("TERM") != ""
}

// observe takes an event of the harness.
func (p *progress) observe(e harness.Event) {
	switch {
	case p.quiet:
	case p.bars != nil:
		p.draw(e)
	case e.Note != "":
		fmt.Fprintln(p.w, e.Note)
	case p.every || e.Total == 0: // each phase of a search is a probe
		fmt.Fprintln(p.w, line(e))
	default:
		if point := fmt.Sprintf("point %d of %d, %s", e.Done+1, e.Total, e.What); point != p.told {
			p.told = point
			fmt.Fprintln(p.w, point+left(e))
		}
	}
}

// line writes an event as text: "point 3 of 24, codel at 1.5x, repeat 1: window, 1m40s left".
func line(e harness.Event) string {
	s := fmt.Sprintf("%s: %s", e.What, e.Phase)
	if e.Total > 0 {
		s = fmt.Sprintf("point %d of %d, %s", e.Done+1, e.Total, s)
	}
	return s + left(e)
}

// left writes the estimate of what is still to be done.
func left(e harness.Event) string {
	if left := e.Left.Round(time.Second); left > 0 {
		return fmt.Sprintf(", %s left", left)
	}
	return ""
}

func (p *progress) draw(e harness.Event) {
	if e.Note != "" {
		fmt.Fprintln(p.bars, e.Note)
		return
	}
	p.last.Store(&e)
	if p.bar == nil {
		p.bar = p.bars.AddBar(0, mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return line(*p.last.Load()) })))
	}
	if e.Total > 0 {
		p.bar.SetTotal(int64(e.Total), false)
		p.bar.SetCurrent(int64(e.Done))
	}
}

// close takes the bar away.
func (p *progress) close() {
	if p.bars == nil {
		return
	}
	if p.bar != nil {
		p.bar.Abort(true)
	}
	p.bars.Wait()
}
