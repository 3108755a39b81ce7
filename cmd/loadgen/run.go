package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"spillway/control/catalog"
	"spillway/internal/harness"
	"spillway/profiles"
)

// overrides are the flags of run that change the profile.
type overrides struct {
	on, warmUp, window string
	machine            string
	set                []string
	controllers, rates []string
	repeats            int
	seed               uint64
}

func runCommand() *cobra.Command {
	var o overrides
	var s session
	cmd := &cobra.Command{
		Use:   "run PROFILE",
		Short: "Measure every point of a profile",
		Long: `run measures every point of a profile (controllers × loads × repeats, in an order shuffled by the seed), writes a result directory
and prints the comparison, and whether what the profile claims holds. PROFILE is the name of a shipped profile (see 'loadgen profiles') or a file.

A profile runs on one of three grounds:
  host   this machine: real servers, clients and sockets, real time
  sim    a modelled machine in virtual time, in this process: fast, and the same seed gives the same bytes
  model  a modelled machine in stretched time: real servers and sockets, so that a laptop shows what a large machine would do
The last two need a machine: the profile's, or --set machine=NAME. Every duration and rate is then modelled time.`,
		Example: "  loadgen run quickstart\n  loadgen run svalinn-synthetic\n  loadgen run quickstart --rates 5k,10k --set controllers.1.settings.target=2ms\n" +
			"  loadgen run model-check --on sim\n  loadgen run model-check --on model --time-scale 200\n" +
			"  loadgen run model-check --on sim --set machine=xl170 --set machine.bus.total=55GB",
		Args: cobra.ExactArgs(1),
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
	f.StringVar(&o.on, "on", "", "ground: sim, model or host; the profile's by default")
	f.StringVar(&o.machine, "machine", "", "the modelled machine: a `name` of a shipped one, or a file such as 'loadgen calibrate' writes; the profile's by default")
	f.StringArrayVar(&o.set, "set", nil, "`key=value`: set any key of the resolved profile, lists by index (controllers.0.settings.limit=8); repeatable")
	f.StringSliceVar(&o.controllers, "controllers", nil, "only these: labels of the profile, or names of controllers with default settings")
	f.StringSliceVar(&o.rates, "rates", nil, "offered rates in requests per second (50k,1.2M) instead of the profile's load")
	f.StringVar(&o.warmUp, "warmup", "", "`duration` of the load before the window")
	f.StringVar(&o.window, "window", "", "`duration` of the measured part")
	f.IntVar(&o.repeats, "repeats", 0, "how often each point is measured")
	f.Uint64Var(&o.seed, "seed", 0, "seed of arrivals and order")
	f.IntVar(&s.jobs, "jobs", 0, "points simulated at the same time on sim (default one a core); on model and host it is 1")
	f.IntVar(&s.timeScale, "time-scale", 0, "wall-clock time that a unit of modelled time takes on model (default 100)")
	s.flags(cmd)
	return cmd
}

// apply returns the profile with the flags that were given.
func (o *overrides) apply(cmd *cobra.Command, p *profiles.Profile) (*profiles.Profile, error) {
	for _, name := range []string{"jobs", "time-scale"} {
		if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "0" {
			return nil, fmt.Errorf("--%s 0: it is at least 1", name)
		}
	}
	var set []profiles.Assignment
	for _, text := range o.set {
		a, err := profiles.ParseAssignment(text)
		if err != nil {
			return nil, err
		}
		set = append(set, a)
	}
	// The flags are about the profile that --set leaves, whose lists may be of another length.
	p, err := p.Set(set)
	if err != nil {
		return nil, err
	}
	set = nil
	// What a flag says wins over what the variants of the profile have there.
	flag := func(name, value string, keys ...string) {
		if cmd.Flags().Changed(name) {
			origin := "--" + name + " " + value
			set = append(set, profiles.Assignment{Key: keys[0], Value: value, Origin: origin})
			set = append(set, p.Unvaried(origin, keys...)...)
		}
	}
	flag("on", o.on, "on")
	flag("machine", o.machine, "machine")
	flag("warmup", o.warmUp, "warmup")
	flag("window", o.window, "window")
	flag("repeats", strconv.Itoa(o.repeats), "repeats")
	flag("seed", strconv.FormatUint(o.seed, 10), "seed")
	if cmd.Flags().Changed("warmup") { // of all, those too that have one of their own
		for i := range p.Controllers {
			set = append(set, profiles.Assignment{Key: fmt.Sprintf("controllers.%d.warmup", i), Value: "null", Origin: "--warmup " + o.warmUp})
		}
	}
	if cmd.Flags().Changed("rates") {
		for _, r := range o.rates {
			if _, err := profiles.ParseRate(r); err != nil {
				return nil, fmt.Errorf("--rates: %w", err)
			}
		}
		flag("rates", "["+strings.Join(o.rates, ", ")+"]", "load.rates", "load.of_capacity", "load.phases")
		for _, key := range []string{"load.of_capacity", "load.phases"} {
			set = append(set, profiles.Assignment{Key: key, Value: "null", Origin: "--rates " + strings.Join(o.rates, ",")})
		}
	}
	p, err = p.Set(set)
	if err != nil || !cmd.Flags().Changed("controllers") {
		return p, err
	}
	return p.WithControllers(o.controllers, harness.ControllerNames(p, catalog.Names()))
}
