//go:build linux

package harness

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"spillway/report"
	"spillway/report/document"
)

// checkResume refuses to go on with what has a part that cannot be gone on with.
func (c *Config) checkResume() error {
	switch {
	case !c.Resume:
		return nil
	case c.Record:
		return usage("--record: what was recorded of a run that was interrupted is lost, so it cannot be gone on with; begin anew with another --out")
	case c.Profile.Validate != nil:
		return usage("%s: validate: this computer is measured at the beginning of a run, so it cannot be gone on with; begin anew with another --out", c.Profile.File())
	}
	return nil
}

// openWriter begins the result directory, or goes on with one. It leaves no writer where everything is there already.
func (e *experiment) openWriter() (err error) {
	m, order := e.manifest(), labels(e.config.Profile)
	if !e.config.Resume {
		e.writer, err = report.NewWriter(e.config.Out, m, order)
		if errors.Is(err, report.ErrNotEmpty) {
			err = usageError{err}
		}
		return err
	}
	in, err := report.ReadInterrupted(e.config.Out)
	if errors.Is(err, report.ErrNoRun) {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	if differ := in.Differences(&m); len(differ) > 0 {
		return usage("results folder %s has another run: %s; begin a new one with another --out", in.Dir, strings.Join(differ, "; "))
	}
	e.before = in
	for _, r := range in.Points() {
		e.out.Points++
		if !r.Valid {
			e.out.Invalid++
		}
	}
	if in.Complete {
		e.note("%s is complete: its %d points are not measured again", in.Dir, e.out.Points)
		return nil
	}
	old := &in.Manifest
	m.Started, m.Argv, m.ProfileText = old.Started, old.Argv, old.ProfileText
	m.Resumed = append(old.Resumed, e.now().UTC())
	if e.out.Points > 0 {
		m.Server = old.Server
		e.note("going on after %d of %d points", e.out.Points, m.Planned)
	}
	e.writer, err = report.Continue(in, m, order)
	return err
}

// unfinished returns the points that are still to be measured, and counts the others.
func (e *experiment) unfinished(points []Point) (list []Point) {
	if e.before == nil {
		return points
	}
	for i := range points {
		if e.before.Finished(points[i].row().Point()) {
			e.done++
		} else {
			list = append(list, points[i])
		}
	}
	return list
}

// capacity searches the capacity, or takes the one that was found before the run was interrupted: factors of load are shares of it, and points
// of one run must be shares of the same.
func (e *experiment) capacity(ctx context.Context) (*report.Capacity, error) {
	if e.config.found != nil {
		return e.config.found, nil
	}
	if e.before == nil || len(e.before.Manifest.Points) == 0 || e.before.Manifest.Capacity == nil {
		return e.search(ctx)
	}
	c := *e.before.Manifest.Capacity
	remark := fmt.Sprintf("it was found before the run was interrupted, and taken over at %s", e.now().UTC().Format("2006-01-02 15:04:05"))
	c.Remarks = append(c.Remarks, remark)
	e.note("capacity: %s", remark)
	return &c, nil
}

// documents writes what follows from a run that is complete, should its process have been killed before it did.
func (e *experiment) documents() error {
	if e.before == nil || !e.before.Complete {
		return nil
	}
	_, err := os.Stat(filepath.Join(e.out.Dir, report.PageFile))
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return document.Write(e.out.Dir)
}
