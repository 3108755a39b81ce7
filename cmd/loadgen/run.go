package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"spillway/control/catalog"
	"spillway/internal/harness"
	"spillway/profiles"
	"spillway/report"
)

// overrides are the flags of run that change the profile.
type overrides struct {
	on, warmUp, window string
	machine            string
	set                []string
	controllers, rates []string
	repeats            int
	seed               uint64
	size               size
}

func runCommand() *cobra.Command {
	var o overrides
	var s session
	var against string
	var c comparison
	cmd := &cobra.Command{
		Use:   "run [PROFILE]",
		Short: "Measure every point of a profile",
		Long: `run measures every point of a profile (controllers × loads × repeats, in an order shuffled by the seed), writes a result directory
and prints the comparison, and whether what the profile claims holds. PROFILE is the name of a shipped profile (see 'loadgen profiles') or a file.

A profile runs on one of three grounds:
  host   this machine: real servers, clients and sockets, real time
  sim    a modelled machine in virtual time, in this process: fast, and the same seed gives the same bytes
  model  a modelled machine in stretched time: real servers and sockets, so that a laptop shows what a large machine would do
The last two need a machine: the profile's, or --set machine=NAME. Every duration and rate is then modelled time.

With --against a run is measured in turns with another one, the base: point by point, A B and then B A, so that what drifts on this machine falls on both
alike. The base is another executable of refserver (--against old/refserver) or other settings (--against set:controllers.0.settings.limit=8,server.slots=16).
The results go to DIR-a (base) and DIR-b, and what is printed is their comparison, as of 'loadgen compare'; so is the exit code. Each point is measured
six times, unless --repeats says otherwise.

A run that was interrupted or killed goes on with 'loadgen run --resume DIR': points that are finished are not measured again.`,
		Example: "  loadgen run quickstart\n  loadgen run svalinn-synthetic\n  loadgen run quickstart --rates 5k,10k --set controllers.1.settings.target=2ms\n" +
			"  loadgen run model-check --on sim\n  loadgen run model-check --on model --time-scale 200\n" +
			"  loadgen run model-check --on sim --set machine=xl170 --set machine.bus.total=55GB\n" +
			"  loadgen run model-check --against set:controllers.2.settings.target=400us",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := s.profile(args)
			if err != nil {
				return wrong(err)
			}
			if p, err = o.apply(cmd, p); err != nil {
				return wrong(err)
			}
			for _, name := range []string{"metric", "threshold"} {
				if !cmd.Flags().Changed("against") && cmd.Flags().Changed(name) {
					return wrong(fmt.Errorf("--%s belongs to a comparison, with --against or in 'loadgen compare'", name))
				}
			}
			if cmd.Flags().Changed("against") {
				return failed(s.against(cmd, p, against, &c))
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
	f.StringVar(&against, "against", "", "measure in turns with this `base`, the path of a refserver or set:key=value,key=value, and compare")
	c.flags(cmd)
	o.size.flags(cmd)
	s.flags(cmd)
	f.StringVar(&s.resume, "resume", "", "go on with the run in this `folder`: of the same profile, flags and version; without PROFILE, of what it says itself")
	cmd.MarkFlagsMutuallyExclusive("resume", "out")
	return cmd
}

// profile returns the profile that is to be run: the one named, or that of the run which is gone on with.
func (s *session) profile(args []string) (*profiles.Profile, error) {
	if len(args) > 0 {
		return profiles.Load(args[0])
	}
	if s.resume == "" {
		return nil, errors.New("which profile? 'loadgen profiles' lists the shipped ones")
	}
	before, err := report.ReadInterrupted(s.resume)
	if err != nil {
		return nil, err
	}
	return profiles.Parse(filepath.Join(s.resume, "manifest.json"), []byte(before.Manifest.ResolvedProfile))
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
	p, err := p.Sized(o.size.name())
	if err != nil {
		return nil, err
	}
	// What is set of a machine is of the one that --machine names.
	if name := cmd.Flags().Lookup("machine"); name.Changed && slices.ContainsFunc(set, func(a profiles.Assignment) bool { return strings.HasPrefix(a.Key, "machine.") }) {
		origin := "--machine " + o.machine
		if p, err = p.Set(append(p.Unvaried(origin, "machine"), profiles.Assignment{Key: "machine", Value: o.machine, Origin: origin})); err != nil {
			return nil, err
		}
		name.Changed = false
	}
	// The other flags are about the profile that --set leaves, whose lists may be of another length.
	p, err = p.Set(set)
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
		flag("rates", "["+strings.Join(o.rates, ", ")+"]", "load.rates", "load.of_capacity", "load.phases", "load.speeds")
		for _, key := range []string{"load.of_capacity", "load.phases", "load.speeds"} {
			set = append(set, profiles.Assignment{Key: key, Value: "null", Origin: "--rates " + strings.Join(o.rates, ",")})
		}
	}
	p, err = p.Set(set)
	if err != nil || !cmd.Flags().Changed("controllers") {
		return p, err
	}
	return p.WithControllers(o.controllers, harness.ControllerNames(p, catalog.Names()))
}
