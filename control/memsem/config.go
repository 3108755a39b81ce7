package memsem

import (
	"fmt"
	"math/rand/v2"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/control/bandit"
)

// Config are the settings of the memory section. They are common to all controllers.
type Config struct {
	Section  string        `setting:"section" doc:"memory section: off (and what else is said of it has no effect), try (refuse when it is full), wait-if-uncongested (wait while the budget allows) or wait"`
	Bandit   string        `setting:"bandit" doc:"what chooses the capacity of the section: egreedy, thompson, ucb, fixed or oracle"`
	Alpha    float64       `setting:"alpha" doc:"weight of bandwidth in the reward of a capacity, against 1 - alpha for the cores it takes"`
	Omega    float64       `setting:"omega" doc:"of egreedy: weight of the newest reward"`
	Epsilon  float64       `setting:"epsilon" doc:"of egreedy and thompson: probability of exploring"`
	Period   time.Duration `setting:"period" doc:"time between two choices; a sensor slower than a tenth of it stretches it to ten of its own periods"`
	BWWindow int           `setting:"bw_window" unit:"samples" doc:"bandwidth is judged against the greatest of so many samples; 0 for the greatest ever"`
	Capacity int           `setting:"capacity" unit:"requests" doc:"of fixed: at most so many in the section"`
	Target   float64       `setting:"target" doc:"share of the greatest bandwidth that is enough"`
}

// Default returns Svalinn's constants, with the section off. The weight α was 0.7 for RocksDB and memcached, 0.6 for the synthetic
// workload and 0.8 for the data frame. The published C code compares bandwidth with the greatest that it ever saw, the Go port with the
// greatest of its last 50 samples. The default is the latter: whoever changes to an access pattern with a lower bandwidth would
// otherwise be judged for ever against what the old one reached, and one wrong sample would spoil the scale for good.
func Default() Config {
	return Config{
		Section: "off", Bandit: "egreedy", Alpha: 0.7, Omega: 0.8, Epsilon: 0.3, Period: 500 * time.Microsecond, BWWindow: 50, Target: 1,
	}
}

// maxWindow bounds the memory that a setting can ask for: 16 MB, half a minute at 500 µs and more.
const maxWindow = 1 << 20

// Check returns an error that names the setting that is out of range.
func (c Config) Check() error {
	if _, _, err := c.Mode(); err != nil {
		return err
	}
	switch {
	case !(c.Alpha >= 0 && c.Alpha <= 1): // written so that it catches NaN too
		return fmt.Errorf("alpha is %v, must be from 0 to 1", c.Alpha)
	case c.Period < control.ShortestInterval:
		return fmt.Errorf("period is %v, must be at least %v", c.Period, control.ShortestInterval)
	case c.BWWindow < 0 || c.BWWindow > maxWindow:
		return fmt.Errorf("bw_window is %d, must be from 0 to %d", c.BWWindow, maxWindow)
	case !(c.Target > 0 && c.Target <= 1):
		return fmt.Errorf("target is %v, must be above 0 and at most 1", c.Target)
	}
	b := c.bandit()
	return b.Check()
}

func (c Config) bandit() bandit.Config {
	return bandit.Config{Name: c.Bandit, Omega: c.Omega, Epsilon: c.Epsilon, Capacity: c.Capacity}
}

// Mode returns how the section is entered; on is false when there is none.
func (c Config) Mode() (mode control.Mode, on bool, err error) {
	switch c.Section {
	case "off":
		return control.Try, false, nil
	case "try":
		return control.Try, true, nil
	case "wait-if-uncongested":
		return control.WaitWithinBudget, true, nil
	case "wait":
		return control.WaitMode, true, nil
	}
	return control.Try, false, fmt.Errorf("section is %q, must be off, try, wait-if-uncongested or wait", c.Section)
}

// Build returns the semaphore that c describes, whatever its Section says. cores is the greatest capacity; oracle, which only the bandit
// of that name needs, may be nil.
func Build(c Config, cores int, oracle func(clock.Instant) int, rng *rand.Rand) (*Semaphore, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if cores < 1 {
		return nil, fmt.Errorf("section is %s, and the number of cores, its greatest capacity, is not known here; set section to off", c.Section)
	}
	choice := c.bandit()
	choice.Arms, choice.Oracle, choice.Rand = cores, oracle, rng
	b, err := bandit.New(choice)
	if err != nil {
		return nil, err
	}
	return New(b, bandit.NewReward(c.Alpha, c.Target, cores, c.BWWindow), c.Period), nil
}
