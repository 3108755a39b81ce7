package staging

import (
	"fmt"
	"time"

	"spillway/control"
)

// The orders in which requests are taken out of the staging queue.
const (
	FIFO     = "fifo"     // the oldest first
	LIFO     = "lifo"     // the newest first: it has the best chance that somebody still waits for it
	Adaptive = "adaptive" // the oldest first until the queue has stood for LIFOAfter, then the newest first
)

// NoClass is the Exempt of a Config that exempts no class.
const NoClass = "none"

// Config are the settings of a Staging.
type Config struct {
	Queue  int           `setting:"queue" unit:"requests" doc:"at most this many unprocessed; one more is rejected on arrival"`
	MaxAge time.Duration `setting:"max_age" doc:"a request that has been unprocessed for longer expires; 0 for no limit"`
	Order  string        `setting:"order" doc:"which is next: fifo, lifo or adaptive, which is fifo until the queue has not been empty for lifo_after"`

	LIFOAfter time.Duration `setting:"lifo_after" doc:"of the order adaptive: for how long a queue may stand until the newest go first"`
	Workers   int           `setting:"workers" unit:"requests" doc:"at most this many in service in any state; 0 for no limit of its own"`

	Burst int `setting:"burst" unit:"requests" doc:"at most this many started from one look at the levels to the next, in any state; 0 for no limit"`

	Slow        float64       `setting:"slow" unit:"of a limit" doc:"a level at or above this slows down the taking from the queue"`
	Normal      float64       `setting:"normal" unit:"of a limit" doc:"a level below this ends slowed, when it has stayed there for normal_after"`
	NormalAfter time.Duration `setting:"normal_after" doc:"see normal"`
	Stop        float64       `setting:"stop" unit:"of a limit" doc:"a level at or above this stops it, except for one request in service"`
	Resume      float64       `setting:"resume" unit:"of a limit" doc:"a level below this ends stopped, when it has stayed there for resume_after"`
	ResumeAfter time.Duration `setting:"resume_after" doc:"see resume"`
	Interval    time.Duration `setting:"interval" doc:"from one look at the levels to the next"`

	Exempt string `setting:"exempt" doc:"classes that are never held back, such as health checks: names, or numbers as #1, joined by commas; or none"`
}

// Default returns the settings of the article's example where it has them (a queue of 4000), and otherwise ours.
//
// A level should reach stop when there is still room for what is under way: at 0.85 of a limit beyond which the process dies, a tenth of
// the limit may be added between two looks. The lower thresholds lie a tenth below the upper ones, which is more than most sensors
// stray. Leaving slowed is slow (10 s) because nothing is lost by it: as long as levels are low, slowed lets more and more in. Little is served
// while stopped, so that ends sooner; with less than two seconds, white noise of 5 % of the limit or a heap that goes up and down by 20 % in
// two seconds opened and closed the queue more than twice a minute.
func Default() Config {
	return Config{
		Queue: 4000, MaxAge: 30 * time.Second, Order: FIFO, LIFOAfter: 100 * time.Millisecond,
		Slow: 0.7, Normal: 0.6, NormalAfter: 10 * time.Second,
		Stop: 0.85, Resume: 0.75, ResumeAfter: 2 * time.Second,
		Interval: 100 * time.Millisecond,
		Exempt:   NoClass,
	}
}

// Check returns an error that names the setting that is out of range.
func (c Config) Check() error {
	switch {
	case c.Queue < 1:
		return fmt.Errorf("queue is %d, must be at least 1: every request goes through it", c.Queue)
	case c.MaxAge < 0:
		return fmt.Errorf("max_age is %v, must not be negative", c.MaxAge)
	case c.Order != FIFO && c.Order != LIFO && c.Order != Adaptive:
		return fmt.Errorf("order is %q, must be %s, %s or %s", c.Order, FIFO, LIFO, Adaptive)
	case c.LIFOAfter < 0:
		return fmt.Errorf("lifo_after is %v, must not be negative", c.LIFOAfter)
	case c.Workers < 0:
		return fmt.Errorf("workers is %d, must not be negative", c.Workers)
	case c.Burst < 0:
		return fmt.Errorf("burst is %d, must not be negative", c.Burst)
	case c.NormalAfter < 0:
		return fmt.Errorf("normal_after is %v, must not be negative", c.NormalAfter)
	case c.ResumeAfter < 0:
		return fmt.Errorf("resume_after is %v, must not be negative", c.ResumeAfter)
	case c.Interval < control.ShortestInterval:
		return fmt.Errorf("interval is %v, must be at least %v", c.Interval, control.ShortestInterval)
	}
	return c.checkThresholds()
}

// checkThresholds sees to it that every threshold down lies below its threshold up. Without a distance a level that rests near one of
// them would open and close the queue at every look.
func (c Config) checkThresholds() error {
	switch {
	case !(c.Normal > 0):
		return fmt.Errorf("normal is %g, must be above 0", c.Normal)
	case !(c.Slow > c.Normal):
		return fmt.Errorf("slow is %g, must be above normal, which is %g", c.Slow, c.Normal)
	case !(c.Resume > c.Normal):
		return fmt.Errorf("resume is %g, must be above normal, which is %g", c.Resume, c.Normal)
	case !(c.Stop > c.Slow):
		return fmt.Errorf("stop is %g, must be above slow, which is %g", c.Stop, c.Slow)
	case !(c.Stop > c.Resume):
		return fmt.Errorf("stop is %g, must be above resume, which is %g", c.Stop, c.Resume)
	case c.Stop > maxThreshold:
		return fmt.Errorf("stop is %g, must be at most %d; thresholds are shares of a limit", c.Stop, maxThreshold)
	}
	return nil
}

// maxThreshold bounds the thresholds: who writes 85 means 0.85.
const maxThreshold = 10
