package limit

import (
	"fmt"
	"time"
)

// GradientConfig are the settings of the limit that NewGradient returns.
type GradientConfig struct {
	Initial   int           `setting:"initial" unit:"requests" doc:"the limit to begin with"`
	Min       int           `setting:"min" unit:"requests" doc:"the limit never falls below this"`
	Max       int           `setting:"max" unit:"requests" doc:"the limit never rises above this"`
	Smoothing float64       `setting:"smoothing" doc:"weight of the new limit"`
	Headroom  float64       `setting:"queue_size" unit:"requests" doc:"what the limit may grow by while times stay what they were"`
	Tolerance float64       `setting:"tolerance" doc:"times may rise by this factor over the long average before the limit shrinks"`
	Long      int           `setting:"long_window" unit:"samples" doc:"over how many samples the long average goes"`
	Window    time.Duration `setting:"window" doc:"a sample is the mean over so long; 0 takes each request for a sample"`
	Samples   int           `setting:"window_samples" unit:"requests" doc:"a window with fewer is no sample"`
	Ignore    time.Duration `setting:"ignore" doc:"shorter times are left out of windows; set it to 0 where services are that short"`
	Queue     int           `setting:"queue" unit:"requests" doc:"at most this many waiting; one more is rejected on arrival"`
}

// DefaultGradient returns the library's defaults for Gradient2 in a Windowed limit, and the queue of Fixed.
func DefaultGradient() GradientConfig {
	return GradientConfig{
		Initial: 20, Min: 20, Max: 200, Smoothing: 0.2, Headroom: 4, Tolerance: 1.5, Long: 600,
		Window: time.Second, Samples: 10, Ignore: 100 * time.Microsecond, Queue: DefaultFixed().Queue,
	}
}

func (c GradientConfig) bounds() bounds {
	return bounds{initial: c.Initial, min: c.Min, max: c.Max, queue: c.Queue}
}

// Check returns an error that names the setting that is out of range.
func (c GradientConfig) Check() error {
	switch {
	case c.Smoothing <= 0 || c.Smoothing > 1:
		return fmt.Errorf("smoothing is %v, must be above 0 and at most 1", c.Smoothing)
	case c.Headroom < 0:
		return fmt.Errorf("queue_size is %v, must not be negative", c.Headroom)
	case c.Tolerance < 1:
		return fmt.Errorf("tolerance is %v, must be at least 1", c.Tolerance)
	case c.Long < 1:
		return fmt.Errorf("long_window is %d, must be at least 1", c.Long)
	}
	if err := checkWindow(c.Window, c.Samples, c.Ignore); err != nil {
		return err
	}
	return c.bounds().check()
}

// NewGradient returns Netflix's Gradient2: the limit shrinks as far as times rise over their long average, and grows by some headroom while
// they do not.
//
//	gradient = clamp(tolerance · long/short, ½, 1)
//	limit ← (1 − smoothing)·limit + smoothing·(gradient·limit + queue_size)
//
// short is the latest sample and long an exponential average. An average that has grown to more than twice the latest sample is cut by a
// twentieth at each, so that a limit which overload has pressed down comes up again soon after. The limit stays as it is while less than
// half of it is in use. It panics when c is out of range.
func NewGradient(c GradientConfig) *Adaptive {
	if err := c.Check(); err != nil {
		panic("limit: " + err.Error())
	}
	return newAdaptive(&gradient{GradientConfig: c}, window{span: c.Window, least: c.Samples, ignore: c.Ignore}, c.bounds())
}

type gradient struct {
	GradientConfig
	long float64 // the long average, in nanoseconds
	n    int     // samples in it, as far as they are counted
}

// warmUp is for how many samples the long average is a plain mean: the first one alone would decide for long.
const warmUp = 10

func (l *gradient) sample(limit float64, o observation) float64 {
	short := max(float64(o.rtt), 1)
	if l.n < warmUp {
		l.n++
		l.long += (short - l.long) / float64(l.n)
	} else {
		l.long += (short - l.long) * 2 / float64(l.Long+1)
	}
	long := l.long
	if long > 2*short {
		l.long *= 0.95
	}
	if float64(o.inFlight) < limit/2 {
		return limit
	}
	g := min(max(l.Tolerance*long/short, 0.5), 1)
	return (1-l.Smoothing)*limit + l.Smoothing*(g*limit+l.Headroom)
}
