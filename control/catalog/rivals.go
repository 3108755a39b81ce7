package catalog

import (
	"errors"
	"math/rand/v2"
	"time"

	"spillway/control"
	"spillway/control/bouncer"
	"spillway/control/dagor"
	"spillway/control/limit"
	"spillway/control/seda"
)

// Class is what a controller may know of a class of requests; its index in Env.Classes is Request.Class.
type Class struct {
	Name     string
	Priority uint8         // of the business, 0 the most important
	Limit    time.Duration // the objective of each request, 0 for none
	SLO      []Objective   // an objective of several percentiles instead; nil for none
}

// Objective says that a percentile of a class's response times is not to exceed a limit.
type Objective = bouncer.Objective

// The draws of controllers that draw, kept apart from each other and from those of the section.
const (
	vegasStream   = 0x7665676173     // "vegas"
	bouncerStream = 0x626f756e636572 // "bouncer"
)

// business returns how many business priorities the classes have.
func (e Env) business() int {
	most := 0
	for _, c := range e.Classes {
		most = max(most, int(c.Priority))
	}
	return most + 1
}

// limits are the concurrency limits that learn.
func limits() []row {
	const source = "Netflix concurrency-limits (78a74b9, 2026-01-12)"
	return []row{
		define("aimd", "concurrency limit: plus one while requests fare well, times 0.9 when one fails or takes too long", source,
			limit.DefaultAIMD,
			func(c limit.AIMDConfig, _ Env) (control.Stack, error) { return only(limit.NewAIMD(c)), nil }),
		define("gradient", "concurrency limit that shrinks as response times rise over their long average (Gradient2)", source,
			limit.DefaultGradient,
			func(c limit.GradientConfig, _ Env) (control.Stack, error) { return only(limit.NewGradient(c)), nil }),
		define("vegas", "concurrency limit that keeps a few requests queued behind it, by the shortest response time", source+"; after TCP Vegas",
			limit.DefaultVegas,
			func(c limit.VegasConfig, env Env) (control.Stack, error) {
				return only(limit.NewVegas(c, rand.New(rand.NewPCG(env.Seed, vegasStream)))), nil
			}),
	}
}

// clients are the controllers with a half at each client, but for those of credits.
func clients() []row {
	return []row{
		define("seda", "clients limit their own rates by a latency percentile: additive increase, multiplicative decrease",
			"SEDA: Welsh and Culler, USITS '03; as compared in Breakwater, Protego and Svalinn",
			seda.Default,
			func(c seda.Config, env Env) (control.Stack, error) {
				if c.Target == 0 && env.SLO <= 0 {
					return control.Stack{}, errors.New("target is 0, which stands for the tightest SLO, and there is none here; set target")
				}
				server, client := seda.New(c, env.SLO)
				return control.Stack{Controller: server, NewClient: client}, nil
			}),
		define("dagor", "admits requests by priority, at a level that every reply carries and clients apply themselves",
			"DAGOR: Zhou and others, SoCC '18; as compared in Breakwater, Protego and Svalinn",
			dagor.Default,
			func(c dagor.Config, env Env) (control.Stack, error) {
				business := env.business()
				return control.Stack{
					Controller: dagor.New(c, dagor.Env{SLO: env.SLO, Business: business}),
					NewClient:  func(rng *rand.Rand) *control.Outbox { return dagor.NewOutbox(c, business, rng) },
				}, nil
			}),
	}
}

// judges are the policies that stand in front of one queue and a number of processes.
func judges() []row {
	const source = "Bouncer: Xu and Colmenares, SIGMOD Companion '24"
	const compared = "as compared in " + source
	bounce := func(c bouncer.Config, env Env) (control.Stack, error) {
		return parallel(c.Parallelism, env, func() (control.Controller, error) { return newBouncer(c, env) })
	}
	return append(byClass(
		define("bouncer", "rejects on arrival what would miss its class's percentile objectives, by what is queued and how long classes take", source,
			bouncer.Default, bounce),
		define("bouncer-allowance", "bouncer, with a share of each class admitted whatever the estimates say", source,
			bouncer.DefaultAllowance, bounce),
		define("bouncer-underserved", "bouncer, with classes helped that are admitted less than the average class", source,
			bouncer.DefaultUnderserved, bounce)),
		define("maxql", "rejects on arrival while too many wait", compared,
			bouncer.DefaultMaxQL,
			func(c bouncer.MaxQLConfig, env Env) (control.Stack, error) {
				return parallel(c.Parallelism, env, func() (control.Controller, error) { return bouncer.NewMaxQL(c, env.Cores), nil })
			}),
		define("maxqwt", "rejects on arrival what would wait too long, by the mean processing time of all classes", compared,
			bouncer.DefaultMaxQWT,
			func(c bouncer.MaxQWTConfig, env Env) (control.Stack, error) {
				return parallel(c.Parallelism, env, func() (control.Controller, error) { return bouncer.NewMaxQWT(c, env.Cores), nil })
			}),
		define("acceptfraction", "admits by chance the fraction of arrivals that keeps the processes as busy as wanted", compared,
			bouncer.DefaultFraction,
			func(c bouncer.FractionConfig, env Env) (control.Stack, error) {
				return parallel(c.Parallelism, env, func() (control.Controller, error) {
					return bouncer.NewFraction(c, env.Cores, rand.New(rand.NewPCG(env.Seed, bouncerStream))), nil
				})
			}),
		define("seda-server", "admits at a rate that follows a response-time percentile: additive increase, multiplicative decrease",
			"SEDA's published Java source, the controller of a single class",
			bouncer.DefaultRate,
			func(c bouncer.RateConfig, env Env) (control.Stack, error) {
				if c.Target == 0 && env.SLO <= 0 {
					return control.Stack{}, errors.New("target is 0, which stands for the tightest SLO, and there is none here; set target")
				}
				return parallel(c.Parallelism, env, func() (control.Controller, error) { return bouncer.NewRate(c, env.Cores, env.SLO), nil })
			}),
	)
}

// parallel builds a controller that must know how many requests are processed at once.
func parallel(parallelism int, env Env, build func() (control.Controller, error)) (control.Stack, error) {
	if parallelism == 0 && env.Cores < 1 {
		return control.Stack{}, errors.New("parallelism is 0, which stands for the number of cores, and that is not known here; set parallelism")
	}
	c, err := build()
	return only(c), err
}

func newBouncer(c bouncer.Config, env Env) (control.Controller, error) {
	e := bouncer.Env{Cores: env.Cores, SLO: env.SLO, Rand: rand.New(rand.NewPCG(env.Seed, bouncerStream))}
	objectives := c.DefaultSLO > 0 || len(env.Classes) == 0 && env.SLO > 0
	for _, class := range env.Classes {
		e.Classes = append(e.Classes, bouncer.Class{Name: class.Name, Limit: class.Limit, SLO: class.SLO})
		objectives = objectives || class.Limit > 0 || len(class.SLO) > 0
	}
	if !objectives {
		return nil, errors.New("no class has an SLO, so nothing would be rejected; set default_slo")
	}
	return bouncer.New(c, e), nil
}
