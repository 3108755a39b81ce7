package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"spillway/control"
	"spillway/control/catalog"
	"spillway/machine"
	"spillway/servers"
)

// frontFlags are about the front end and its controller, whatever kind of server is behind it.
type frontFlags struct {
	listen   []string
	conns    int
	threads  int
	control  string
	settings []string
	slots    int
	queue    int
	seed     uint64
	metrics  string
	levels   levelFlags
	classes  classFlags
	sensing  sensorFlags

	parallelism int // how many requests the server works on at once where that is not one a loop; 0 otherwise

	slo, deadline, idle duration
}

func (f *frontFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringArrayVar(&f.listen, "listen", []string{"127.0.0.1:11211"}, "address to listen on: host:port or unix:///path; may be repeated")
	flags.IntVarP(&f.conns, "max-conns", "c", 1024, "connections beyond this are turned away")
	flags.IntVarP(&f.threads, "threads", "t", 0, "event loops; 0 for one a core")
	flags.StringVar(&f.control, "control", "none", "overload controller: "+strings.Join(catalog.Names(), ", "))
	flags.StringArrayVar(&f.settings, "control-set", nil, "setting of the controller, key=value; may be repeated")
	flags.Uint64Var(&f.seed, "seed", 1, "of what the controller draws at random")
	flags.Var(&f.slo, "slo", "latency objective, from which controllers derive how long a request may wait; 0 for none")
	f.classes.add(flags)
	flags.IntVar(&f.slots, "slots", 0, "requests in service at once; 0 for what suits the server, -1 for no limit")
	flags.IntVar(&f.queue, "queue", 0, "requests that may wait in the gate; 0 for no limit")
	flags.Var(&f.deadline, "deadline", "refuse a request that has waited longer than this; 0 for never")
	flags.Var(&f.idle, "idle-timeout", "close a connection without traffic after this; 0 for never")
	f.levels.add(flags)
	f.sensing.add(flags)
	flags.StringVar(&f.metrics, "metrics", "", "host:port of a /metrics page for Prometheus; empty for none")
}

// config returns the front end's configuration. All errors are mistakes of usage.
func (f *frontFlags) config() (servers.Config, error) {
	c := servers.Default()
	if f.slots < -1 || f.threads < 0 {
		return c, errors.New("slots must be at least -1 and threads at least 0")
	}
	if f.threads > 0 {
		c.Loops = f.threads
	}
	c.Listen, c.MaxConns, c.Slots, c.Queue, c.Metrics = f.listen, f.conns, f.slots, f.queue, f.metrics
	c.Deadline, c.IdleTimeout = time.Duration(f.deadline), time.Duration(f.idle)
	var err error
	c.Classes, err = f.classes.parse()
	return c, err
}

// newController returns the control that the flags name, for the machine that the server runs on, and sees to it that c shows what it watches.
func (f *frontFlags) newController(c *servers.Config) (control.Stack, error) {
	c.Control = f.control
	if err := f.levels.watch(c, f.control); err != nil {
		return control.Stack{}, err
	}
	parsed, err := catalog.ParseSettings(f.settings)
	if err != nil {
		return control.Stack{}, err
	}
	cores := c.Loops
	if c.Model != nil {
		cores = c.Model.Machine.Cores
	}
	env := catalog.Env{Cores: cmp.Or(f.parallelism, cores), SLO: time.Duration(f.slo), Seed: f.seed}
	if env.Classes, err = f.classes.classes(c.Classes, env.SLO); err != nil {
		return control.Stack{}, err
	}
	env.SLO = cmp.Or(env.SLO, tightest(env.Classes))
	return catalog.New(f.control, parsed, env)
}

// workers fits a front end to a backend with workers of its own. On a modelled machine its cores have a queue of their own.
func (f *frontFlags) workers(front *servers.Config, m *machineFlags) {
	if f.parallelism == 0 && !m.modelled() {
		f.parallelism = runtime.GOMAXPROCS(0)
	}
	if front.Slots == 0 {
		front.Slots = f.parallelism // what waits for a worker waits in the gate, where the controller sees it
	}
}

// under returns the controller that is asked for, with the modelled machine in front. All errors are mistakes of usage.
func (f *frontFlags) under(c *cobra.Command, m *machineFlags, front *servers.Config, costs func(machine.Spec) (servers.Coster, error)) (stack control.Stack, err error) {
	front.Model, err = m.model(c.Flags().Changed, costs)
	if err == nil {
		err = front.Check()
	}
	if err == nil {
		stack, err = f.newController(front)
	}
	if err != nil {
		return stack, usageError{err}
	}
	return stack, nil
}

// serve serves until SIGTERM or SIGINT. It owns the backend.
func serve(c *cobra.Command, backend servers.Backend, stack control.Stack, front servers.Config) (err error) {
	// Signals are caught before anything says that the server is there to be signalled.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	measuring, err := sensingOf(c).open(ctx, c, backend, stack, &front)
	defer func() { err = errors.Join(err, measuring.Close()) }()
	if err != nil {
		return errors.Join(err, backend.Close())
	}
	server, err := servers.New(backend, stack, front)
	if err != nil {
		return errors.Join(err, backend.Close())
	}
	if addr := server.MetricsAddr(); addr != "" {
		fmt.Fprintf(c.ErrOrStderr(), "refserver: metrics on http://%s/metrics\n", addr)
	}
	for _, addr := range server.Addrs() {
		if _, err := fmt.Fprintf(c.OutOrStdout(), "refserver: listening on %s\n", addr); err != nil {
			return errors.Join(err, server.Close())
		}
	}
	return server.Serve(ctx)
}
