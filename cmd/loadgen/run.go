package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"spillway/control/catalog"
	"spillway/profiles"
)

// overrides are the flags of run that change the profile.
type overrides struct {
	on, warmUp, window string
	set                []string
	controllers, rates []string
	repeats            int
	seed               uint64
	jobs               int
	timeScale          float64
}

func runCommand() *cobra.Command {
	var o overrides
	var s session
	cmd := &cobra.Command{
		Use:   "run PROFILE",
		Short: "Measure every point of a profile",
		Long: `run measures every point of a profile (controllers × loads × repeats, in an order shuffled by the seed), writes a result directory
and prints the comparison. PROFILE is the name of a shipped profile (see 'loadgen profiles') or a file.`,
		Example: "  loadgen run quickstart\n  loadgen run quickstart --rates 5k,10k --set controllers.1.settings.target=2ms",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := profiles.Load(args[0])
			if err != nil {
				return wrong(err)
			}
			if p, err = o.apply(cmd, p); err != nil {
				return wrong(err)
			}
			return failed(s.measure(cmd, p))
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.on, "on", "", "ground: host (sim and model are not part of this version); the profile's by default")
	f.StringArrayVar(&o.set, "set", nil, "`key=value`: set any key of the resolved profile, lists by index (controllers.0.settings.limit=8); repeatable")
	f.StringSliceVar(&o.controllers, "controllers", nil, "only these: labels of the profile, or names of controllers with default settings")
	f.StringSliceVar(&o.rates, "rates", nil, "offered rates in requests per second (50k,1.2M) instead of the profile's load")
	f.StringVar(&o.warmUp, "warmup", "", "`duration` of the load before the window")
	f.StringVar(&o.window, "window", "", "`duration` of the measured part")
	f.IntVar(&o.repeats, "repeats", 0, "how often each point is measured")
	f.Uint64Var(&o.seed, "seed", 0, "seed of arrivals and order")
	f.IntVar(&o.jobs, "jobs", 1, "points measured at the same time; 1 on host")
	f.Float64Var(&o.timeScale, "time-scale", 1, "stretch of time on the ground model, which is not part of this version")
	s.flags(cmd)
	return cmd
}

// apply returns the profile with the flags that were given.
func (o *overrides) apply(cmd *cobra.Command, p *profiles.Profile) (*profiles.Profile, error) {
	if o.jobs != 1 {
		return nil, fmt.Errorf("--jobs %d: on host one point is measured at a time, since two would measure each other", o.jobs)
	}
	if cmd.Flags().Changed("time-scale") {
		return nil, fmt.Errorf("--time-scale belongs to the ground model, which this version does not have")
	}
	var set []profiles.Assignment
	for _, text := range o.set {
		a, err := profiles.ParseAssignment(text)
		if err != nil {
			return nil, err
		}
		set = append(set, a)
	}
	flag := func(name, key, value string) {
		if cmd.Flags().Changed(name) {
			set = append(set, profiles.Assignment{Key: key, Value: value, Origin: "--" + name + " " + value})
		}
	}
	flag("on", "on", o.on)
	flag("warmup", "warmup", o.warmUp)
	flag("window", "window", o.window)
	flag("repeats", "repeats", strconv.Itoa(o.repeats))
	flag("seed", "seed", strconv.FormatUint(o.seed, 10))
	if cmd.Flags().Changed("rates") {
		for _, r := range o.rates {
			if _, err := profiles.ParseRate(r); err != nil {
				return nil, fmt.Errorf("--rates: %w", err)
			}
		}
		flag("rates", "load", "{rates: ["+strings.Join(o.rates, ", ")+"]}")
	}
	p, err := p.Set(set)
	if err != nil || !cmd.Flags().Changed("controllers") {
		return p, err
	}
	return p.WithControllers(o.controllers, catalog.Names())
}
