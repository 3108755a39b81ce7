package catalog

import (
	"errors"
	"math/rand/v2"
	"time"

	"spillway/control"
	"spillway/control/aqm"
	"spillway/control/credit"
)

// svalinnStream separates the draws of Svalinn's experiments from what others draw from the same seed.
const svalinnStream = 0x7376616c696e6e // "svalinn"

var errNoEnergy = errors.New("utility is power, and nothing here measures energy; set utility to throughput, goodput, delay or drop")

var errNoCores = errors.New("the pool begins with a credit for each core, and the number of cores is not known here")

// credits are the controllers that hand out credits.
func credits() []row {
	return []row{
		define("breakwater", "credits by the queueing delay: additive increase below a threshold, multiplicative decrease above",
			"Breakwater: Cho and others, OSDI '20; as compared in Svalinn",
			credit.DefaultBreakwater, newBreakwater),
		define("protego", "credits by what more requests bring in completions; a delay budget at ingress and at locks",
			"Protego: Cho and others, NSDI '23; as compared in Svalinn",
			credit.DefaultProtego, newProtego),
		withSection("try", define("svalinn", "credits by pairs of experiments on a utility; a delay budget at ingress and at every queue; a memory section",
			"Svalinn, OSDI '26",
			credit.DefaultSvalinn, newSvalinn)),
	}
}

func newBreakwater(c credit.BreakwaterConfig, env Env) (control.Stack, error) {
	c, err := c.For(env.SLO)
	if err != nil {
		return control.Stack{}, err
	}
	if env.Cores < 1 {
		return control.Stack{}, errNoCores
	}
	return control.Stack{Controller: credit.NewBreakwater(c, env.Cores), NewClient: c.NewOutbox}, nil
}

func newProtego(c credit.ProtegoConfig, env Env) (control.Stack, error) {
	c, err := c.For(env.SLO)
	if err != nil {
		return control.Stack{}, err
	}
	if env.Cores < 1 {
		return control.Stack{}, errNoCores
	}
	return control.Stack{
		Controller: credit.NewProtego(c, env.Cores), Budget: c.Budget,
		NewLock: lockQueues(c.Lock, c.Budget), NewClient: c.NewOutbox,
	}, nil
}

func newSvalinn(c credit.SvalinnConfig, env Env) (control.Stack, error) {
	c, err := c.For(env.SLO)
	if err != nil {
		return control.Stack{}, err
	}
	if env.Cores < 1 {
		return control.Stack{}, errNoCores
	}
	if c.Utility == credit.PowerUtility && !env.Energy {
		return control.Stack{}, errNoEnergy
	}
	rng := rand.New(rand.NewPCG(env.Seed, svalinnStream))
	return control.Stack{
		Controller: credit.NewSvalinn(c, env.Cores, rng, nil), Budget: c.Budget,
		NewLock: lockQueues(c.Lock, c.Budget), NewClient: c.NewOutbox,
	}, nil
}

// lockQueues returns what makes the queues of locks under a policy; nil when everybody waits.
func lockQueues(policy string, budget time.Duration) func() control.Section {
	if policy == control.LockOff {
		return nil
	}
	return func() control.Section { return aqm.NewLock(aqm.LockConfig{Policy: policy, Budget: budget}) }
}
