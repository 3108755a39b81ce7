//go:build linux

package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"spillway/clock"
	"spillway/report"
)

const (
	defaultTimeScale = 100
	maxTimeScale     = clock.MaxScale
)

// stretched measures real servers on a modelled machine, in stretched time. It is the host's runner with another clock and another
// machine; what it measures is in modelled time.
type stretched struct {
	*host
	folder string // of the machine's file
}

// newModel returns the runner of the ground model.
func newModel(c *Config, m *modelled) (Runner, error) {
	h, err := newHost(c, m.profile)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "spillway-")
	if err != nil {
		return nil, fmt.Errorf("a folder for the machine's file: %w", err)
	}
	s := &stretched{host: h, folder: folder}
	// The file rather than the name: what --set made of the machine has no name.
	name := m.profile.Machine.Name
	if name == "" {
		name = "machine"
	}
	path := filepath.Join(folder, name+".yaml")
	if err := os.WriteFile(path, m.profile.Machine.Text(), 0o666); err != nil {
		return nil, errors.Join(fmt.Errorf("the machine's file: %w", err), s.Close())
	}
	h.modelled, h.scale = m, c.TimeScale
	h.flags = append(h.flags, "--machine", path, "--time-scale", strconv.Itoa(c.TimeScale))
	return s, nil
}

// Run implements Runner.
func (s *stretched) Run(ctx context.Context, p Point) (Result, error) {
	began := time.Now()
	r, err := s.host.Run(ctx, p)
	r.Modelled, r.Wall = true, time.Since(began)
	s.modelled.best(&r, &p)
	if s.modelled.blind(&p) && r.Load.Tally != nil {
		r.Load.Warnings = append(r.Load.Warnings, warnSlotsUnlimited)
	}
	return r, err
}

// Close implements Runner.
func (s *stretched) Close() error {
	return os.RemoveAll(s.folder)
}

// timing is the clock of a point, and where its instants lie in calendar time.
type timing struct {
	clock.Clock
	wall  time.Time
	at    clock.Instant
	scale int
}

// newTiming returns a real clock, or a stretched one for a scale above 0.
func newTiming(scale int) (timing, error) {
	t := timing{Clock: clock.NewReal(), scale: max(scale, 1)}
	if scale > 0 {
		var err error
		if t.Clock, err = clock.NewStretched(scale); err != nil {
			return t, err
		}
	}
	t.wall, t.at = time.Now(), t.Now()
	return t, nil
}

// calendar returns the calendar time of an instant.
func (t *timing) calendar(i clock.Instant) time.Time {
	return t.wall.Add(i.Sub(t.at) * time.Duration(t.scale))
}

// modelFigures are what a modelled server's statistics say of its machine.
const (
	statBusy  = "model_busy_ns"     // core-time used
	statMoved = "model_bytes_moved" // over the memory bus
	statNow   = "model_now_ns"      // the modelled instant of the answer
)

// bandwidth returns the bytes per second that moved over the modelled bus from one instant to another.
func (w *watch) bandwidth(from, to clock.Instant) (report.Value, string) {
	first, ok1 := w.valueAt(from, func(o *observation) float64 { return o.moved })
	last, ok2 := w.valueAt(to, func(o *observation) float64 { return o.moved })
	if seconds := to.Sub(from).Seconds(); ok1 && ok2 && seconds > 0 {
		return report.Known(max(last-first, 0) / seconds), sourceModel
	}
	return report.Value{}, ""
}
