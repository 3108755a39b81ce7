//go:build linux

// Package levels reads how full the resources of a process are: its memory, its files, the processor, and what the program adds of its
// own, such as a pool of connections to a database. A controller that holds requests back while something is scarce (package
// control/staging) is told with each tick:
//
//	r, err := levels.New(100*time.Millisecond, levels.RSS(200<<20), levels.Files(0), levels.Pool("db", func() (used, size int) {
//		s := db.Stats()
//		return s.InUse, s.MaxOpenConnections
//	}))
//	if err != nil { … }
//	defer r.Close()
//	g := guard.New(gate, clock.NewReal(), r.Signals)
//
// One goroutine reads all of them, so that whoever ticks never waits for a file; what it read last is kept.
package levels

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"spillway/control"
)

// Gauge reads how much of a resource is in use, in the unit of its limit.
type Gauge func() (used float64, err error)

// Level is one resource to be watched.
type Level struct {
	Name  string
	Limit float64 // at which it is full; above 0
	Read  Gauge
}

// Reader reads levels in the background.
type Reader struct {
	levels  []Level
	last    atomic.Pointer[[]control.Level]
	failed  atomic.Uint64
	closing chan struct{}
	once    sync.Once
	running sync.WaitGroup
}

// New reads every level once, and from then on again and again. An error names the levels that cannot be read here, and what they miss.
func New(every time.Duration, list ...Level) (*Reader, error) {
	if every <= 0 {
		return nil, errors.New("levels: the time between two readings must be above 0")
	}
	r := &Reader{levels: slices.Clone(list), closing: make(chan struct{})}
	first := make([]control.Level, len(list))
	var errs []error
	for i, l := range list {
		first[i].Name = l.Name
		var err error
		switch {
		case l.Name == "" || l.Read == nil:
			err = errors.New("a level has a name and something to read it")
		case slices.ContainsFunc(list[:i], func(o Level) bool { return o.Name == l.Name }):
			err = errors.New("stands there twice")
		case !(l.Limit > 0) || math.IsInf(l.Limit, 1):
			err = fmt.Errorf("its limit is %g; it must be above 0, and something that can be reached", l.Limit)
		default:
			first[i].Used, err = l.read()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("level %s: %w", l.Name, err))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	r.last.Store(&first)
	r.running.Go(func() { r.run(every) })
	return r, nil
}

func (l *Level) read() (share float64, err error) {
	used, err := l.Read()
	return used / l.Limit, err
}

// run reads until Close.
func (r *Reader) run(every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-r.closing:
			return
		case <-ticker.C:
			r.look()
		}
	}
}

// look reads every level. One that cannot be read keeps its last reading, and the failure is counted.
func (r *Reader) look() {
	// A new slice each time, since whoever asked may still look at the last one.
	next := slices.Clone(*r.last.Load())
	for i := range r.levels {
		share, err := r.levels[i].read()
		if err != nil {
			r.failed.Add(1)
			continue
		}
		next[i].Used = share
	}
	r.last.Store(&next)
}

// Levels returns what was read last. It must not be changed.
func (r *Reader) Levels() []control.Level { return *r.last.Load() }

// Signals returns what was read last in the form that guard.New takes.
func (r *Reader) Signals() control.Signals { return control.Signals{Levels: r.Levels()} }

// Failed returns how many readings have failed since New.
func (r *Reader) Failed() uint64 { return r.failed.Load() }

// Close ends the reading. What was read last stays.
func (r *Reader) Close() {
	r.once.Do(func() { close(r.closing) })
	r.running.Wait()
}
