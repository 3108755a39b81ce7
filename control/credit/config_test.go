package credit

import (
	"strings"
	"testing"
)

func TestSettingsOutOfRange(t *testing.T) {
	t.Parallel()
	check := func(err error, want string) {
		t.Helper()
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	s := func(change func(*SvalinnConfig)) error {
		c := DefaultSvalinn()
		change(&c)
		return c.Check()
	}
	check(s(func(c *SvalinnConfig) { c.Budget = -1 }), "budget is -1ns, must not be negative")
	check(s(func(c *SvalinnConfig) { c.Prepare = -1 }), "prepare is -1ns, must not be negative")
	check(s(func(c *SvalinnConfig) { c.Interval = 0 }), "interval is 0s, must be above 0")
	check(s(func(c *SvalinnConfig) { c.Step = 0 }), "step is 0, must be at least 1")
	check(s(func(c *SvalinnConfig) { c.DropBound = 0 }), "drop_bound is 0, must be above 0 and at most 1")
	check(s(func(c *SvalinnConfig) { c.PowerCap = 0 }), "power_cap is 0, must be above 0")
	check(s(func(c *SvalinnConfig) { c.Deadband = -1 }), "deadband is -1, must not be negative")
	check(s(func(c *SvalinnConfig) { c.Utility = "profit" }), `utility is "profit", must be throughput, goodput, delay, drop or power`)
	check(s(func(c *SvalinnConfig) { c.Comparator = "" }), `comparator is "", must be deadband, simple or slope`)
	check(s(func(c *SvalinnConfig) { c.Label = "x" }), `label is "x", must be lazy or strict`)
	check(s(func(c *SvalinnConfig) { c.Late = "x" }), `late is "x", must be wait or lose`)
	check(s(func(c *SvalinnConfig) { c.Lock = "x" }), `lock is "x", must be off, qdelay or qlen`)
	check(s(func(c *SvalinnConfig) { c.RTT = 0 }), "rtt is 0s, must be above 0")
	check(s(func(c *SvalinnConfig) { c.Delay = -1 }), "client_delay is -1ns, must not be negative")
	check(s(func(c *SvalinnConfig) { c.Queue = -1 }), "client_queue is -1, must not be negative")
	p := func(change func(*ProtegoConfig)) error {
		c := DefaultProtego()
		change(&c)
		return c.Check()
	}
	check(p(func(c *ProtegoConfig) { c.Budget = -1 }), "budget is -1ns, must not be negative")
	check(p(func(c *ProtegoConfig) { c.Skip = -1 }), "skip is -1ns, must not be negative")
	check(p(func(c *ProtegoConfig) { c.Update = c.Skip }), "update is 200µs, must be longer than skip, which is 200µs")
	check(p(func(c *ProtegoConfig) { c.K = 0 }), "k is 0, must be above 0")
	check(p(func(c *ProtegoConfig) { c.Increase = -1 }), "a is -1, must be from 0 to 64")
	check(p(func(c *ProtegoConfig) { c.Lock = "x" }), `lock is "x", must be off, qdelay or qlen`)
	b := func(change func(*BreakwaterConfig)) error {
		c := DefaultBreakwater()
		change(&c)
		return c.Check()
	}
	check(b(func(c *BreakwaterConfig) { c.Threshold = -1 }), "threshold is -1ns, must not be negative")
	check(b(func(c *BreakwaterConfig) { c.AQM = -1 }), "aqm is -1ns, must not be negative")
	check(b(func(c *BreakwaterConfig) { c.Increase = 0 }), "increase is 0, must be above 0")
	check(b(func(c *BreakwaterConfig) { c.Decrease = 0 }), "decrease is 0, must be above 0")
}

// TestPanics: a law without what it needs is a mistake of the program, and says which.
func TestPanics(t *testing.T) {
	t.Parallel()
	wrong := DefaultSvalinn()
	wrong.Step = 0
	for want, make := range map[string]func(){
		"svalinn without a budget":          func() { NewSvalinn(DefaultSvalinn(), 1, nil, nil) },
		"step is 0":                         func() { NewSvalinn(wrong, 1, nil, nil) },
		"protego without a budget":          func() { NewProtego(DefaultProtego(), 1) },
		"breakwater without thresholds":     func() { NewBreakwater(DefaultBreakwater(), 1) },
		"a pool without cores":              func() { newPool(PoolConfig{}) },
		"a drained client is on a list alr": func() { var l drained; c := new(client); l.pushBack(c); l.pushFront(c) },
	} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.Contains(text, want) {
					t.Errorf("panicked with %q, want %q", text, want)
				}
			}()
			make()
		}()
	}
}
