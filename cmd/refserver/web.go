package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"spillway/control"
	"spillway/control/catalog"
	"spillway/internal/dist"
	"spillway/servers"
	"spillway/servers/allocator"
	"spillway/servers/synthetic"
	"spillway/servers/web"
)

// webFlags is the command line of refserver web.
type webFlags struct {
	config   web.Config
	stores   []string
	classes  []string
	class    string // of requests that name none
	control  string
	settings []string
	seed     uint64
	levels   levelFlags
	memory   string
	largest  string
	holds    string
	buffer   string
	edge     string
	alloc    string

	header, body, write, idle, deadline, slo, grace duration
}

const (
	storeKV   = "kv"
	storeWork = "synthetic"
)

func webCommand() *cobra.Command {
	f := webFlags{config: web.Default()}
	c := &cobra.Command{
		Use:   "web",
		Short: "An HTTP front end over a key-value store, spelled work, or another server",
		Long: `An HTTP front end (HTTP/1.1, and HTTP/2 without TLS) under an overload controller, over what --store names:

  kv         GET, PUT and DELETE of kv/KEY
  synthetic  GET of work/STEPS, such as http://127.0.0.1:8080/work/c72us,l0:10us; refserver synthetic --help has the steps

or, with --upstream, in front of another HTTP server, which it protects. A request says its class in the header X-Class or, with
--class-in-path, in front of its path (/CLASS/kv/KEY), and its priority in X-Priority.

Who is turned away gets 429 when the quota of the class is used up, and 503 when the server has too much to do, with Retry-After and
the reason in X-Shed-Reason; under the controller capacity also RateLimit and RateLimit-Policy. Replies say in Server-Timing how long a
request was queued and served. /healthz, /stats (JSON) and /metrics (Prometheus) are exempt from control, and so is, with --origin, /origin,
which has the requests by class and tenth of a second.

With --control capacity --edge NAME --allocator URL it is one of the locations that share a budget; see refserver allocator.
It prints one line a listener on standard output once it accepts connections, and serves until SIGTERM or SIGINT.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return serveWeb(c, &f) },
	}
	f.add(c)
	return c
}

func (f *webFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.SortFlags = false
	d := &f.config
	f.header, f.body, f.write = duration(d.HeaderTimeout), duration(d.BodyTimeout), duration(d.WriteTimeout)
	f.idle, f.grace = duration(d.IdleTimeout), duration(d.Grace)
	flags.StringArrayVar(&d.Listen, "listen", d.Listen, "address to listen on, host:port; may be repeated")
	flags.StringSliceVar(&f.stores, "store", []string{storeKV}, "what is served: kv, synthetic, or both joined by commas")
	flags.StringVar(&d.Upstream, "upstream", "", "http://host:port of a server that admitted requests are passed on to, instead of a store")
	flags.IntVar(&d.UpstreamConns, "upstream-conns", d.UpstreamConns, "connections to it at most; who would wait for one waits in the gate")
	flags.StringArrayVar(&f.classes, "class", nil, "a class of requests: NAME[,slo=5ms][,priority=1]; may be repeated (default: one class, all)")
	flags.StringVar(&f.class, "otherwise", "", "class of requests that name none, or none that there is (default: the last one)")
	flags.StringVar(&d.ClassHeader, "class-header", d.ClassHeader, "header that has the name of the class; empty for none")
	flags.BoolVar(&d.ClassInPath, "class-in-path", false, "the first segment of the path is the name of the class, and no header is looked at")
	flags.StringVar(&f.control, "control", "none", "overload controller: "+strings.Join(catalog.Names(), ", "))
	flags.StringArrayVar(&f.settings, "control-set", nil, "setting of the controller, key=value; may be repeated")
	flags.Uint64Var(&f.seed, "seed", 1, "of what the controller draws at random")
	flags.Var(&f.slo, "slo", "latency objective, from which controllers derive how long a request may wait; 0 for the tightest of the classes")
	flags.IntVar(&d.Slots, "slots", 0, "requests in service at once; 0 for what suits the store, -1 for no limit")
	flags.IntVar(&d.Queue, "queue", 0, "requests that may wait in the gate; 0 for no limit")
	flags.Var(&f.deadline, "deadline", "refuse a request that has waited longer than this; 0 for never")
	flags.IntVarP(&d.MaxConns, "max-conns", "c", d.MaxConns, "connections beyond this are turned away with 503")
	flags.IntVar(&d.MaxHeader, "max-header", d.MaxHeader, "bytes of the line and the headers of a request, beyond which it is answered 431")
	flags.Int64Var(&d.MaxBody, "max-body", d.MaxBody, "bytes of the body of a request, beyond which it is answered 413")
	flags.Var(&f.header, "header-timeout", "for a client to send the whole head of a request")
	flags.Var(&f.body, "body-timeout", "for a client to send the whole body of an admitted request")
	flags.Var(&f.write, "write-timeout", "for a client to take its reply")
	flags.Var(&f.idle, "idle-timeout", "close a connection without a request after this")
	flags.Var(&f.grace, "grace", "how long a shutdown waits for requests under way")
	flags.StringVarP(&f.memory, "memory", "m", "64MiB", "memory for values")
	flags.StringVarP(&f.largest, "max-item", "I", "1MiB", "largest value")
	flags.StringVar(&f.holds, "hold", "1GiB", "memory that all requests for work together may hold; beyond it they fail")
	flags.StringVar(&f.buffer, "stream-buffer", "auto", "memory that streams of work run over; auto for four times the largest cache")
	f.levels.add(flags)
	flags.BoolVar(&d.Origin, "origin", false, "count requests by class and tenth of a second, at /origin")
	flags.StringVar(&f.edge, "edge", "", "name of this location at the allocator")
	flags.StringVar(&f.alloc, "allocator", "", "http://host:port of the allocator that grants rates to --control capacity")
}

func serveWeb(c *cobra.Command, f *webFlags) error {
	classes, err := f.fill()
	if err == nil {
		err = f.config.Check()
	}
	if err != nil {
		return usageError{err}
	}
	stack, err := f.stack(classes)
	if err != nil {
		return usageError{err}
	}
	if err := raiseFiles(f.config.MaxConns); err != nil {
		return err
	}
	services, err := f.services()
	if err != nil {
		return err
	}
	// Signals are caught before anything says that the server is there to be signalled.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	server, err := web.New(services, stack, f.config)
	if err != nil {
		for _, s := range services {
			err = errors.Join(err, s.Close())
		}
		return err
	}
	var link *allocator.Link
	if f.alloc != "" {
		say := func(text string) { fmt.Fprintf(c.ErrOrStderr(), "refserver: %s\n", text) }
		if link, err = allocator.NewLink(f.edge, f.alloc, server, say); err != nil {
			return usageError{errors.Join(err, server.Close())}
		}
		server.Also(link.Figures)
	}
	if stack.NewClient != nil {
		if _, err := fmt.Fprintf(c.ErrOrStderr(), "refserver: note: half of %s is at clients, and this server tells them nothing: a service under package guard does\n", f.control); err != nil {
			return errors.Join(err, server.Close())
		}
	}
	for _, addr := range server.Addrs() {
		if _, err := fmt.Fprintf(c.OutOrStdout(), "refserver: listening on %s\n", addr); err != nil {
			return errors.Join(err, server.Close())
		}
	}
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if link != nil {
		running.Go(func() { link.Run(ctx) })
	}
	return server.Serve(ctx)
}

// fill completes the configuration. All errors are mistakes of usage.
func (f *webFlags) fill() ([]catalog.Class, error) {
	c := &f.config
	c.HeaderTimeout, c.BodyTimeout, c.WriteTimeout = time.Duration(f.header), time.Duration(f.body), time.Duration(f.write)
	c.IdleTimeout, c.Grace, c.Deadline = time.Duration(f.idle), time.Duration(f.grace), time.Duration(f.deadline)
	if c.Slots < -1 {
		return nil, errors.New("slots must be at least -1")
	}
	if (f.edge == "") != (f.alloc == "") {
		return nil, errors.New("--edge and --allocator belong together: the allocator knows an edge by its name")
	}
	classes, err := parseClasses(f.classes)
	if err != nil {
		return nil, err
	}
	if len(classes) > 0 {
		c.Classes = nil
	}
	for _, k := range classes {
		c.Classes = append(c.Classes, k.Name)
	}
	c.Otherwise = len(c.Classes) - 1
	if f.class != "" {
		if c.Otherwise = slices.Index(c.Classes, f.class); c.Otherwise < 0 {
			return nil, fmt.Errorf("--otherwise %s: there is no such class; there are %s", f.class, strings.Join(c.Classes, ", "))
		}
	}
	return classes, nil
}

// parseClasses reads the classes of requests as flags have them.
func parseClasses(list []string) (classes []catalog.Class, err error) {
	for _, text := range list {
		parts := strings.Split(text, ",")
		k := catalog.Class{Name: parts[0]}
		for _, part := range parts[1:] {
			key, value, _ := strings.Cut(part, "=")
			switch key {
			case "slo":
				if k.Limit, err = dist.ParseDuration(value); err != nil {
					return nil, fmt.Errorf("--class %s: %w", text, err)
				}
				// That of the 99th percentile is what a limit without another word means.
				k.SLO = []catalog.Objective{{Percentile: 0.99, Limit: k.Limit}}
			case "priority":
				n, err := strconv.ParseUint(value, 10, 8)
				if err != nil {
					return nil, fmt.Errorf("--class %s: a priority is from 0, the most important, to 255", text)
				}
				k.Priority = uint8(n)
			default:
				return nil, fmt.Errorf("--class %s: write NAME,slo=5ms,priority=1", text)
			}
		}
		classes = append(classes, k)
	}
	return classes, nil
}

// stack returns the control that the flags name. All errors are mistakes of usage.
func (f *webFlags) stack(classes []catalog.Class) (control.Stack, error) {
	var watched servers.Config
	if err := f.levels.watch(&watched, f.control); err != nil {
		return control.Stack{}, err
	}
	f.config.Levels, f.config.Control = watched.Levels, f.control
	settings, err := catalog.ParseSettings(f.settings)
	if err != nil {
		return control.Stack{}, err
	}
	slo := time.Duration(f.slo)
	for _, k := range classes {
		if f.slo == 0 && k.Limit > 0 && (slo == 0 || k.Limit < slo) {
			slo = k.Limit
		}
	}
	return catalog.New(f.control, settings, catalog.Env{Cores: f.config.Cores, SLO: slo, Seed: f.seed, Classes: classes})
}

// services returns what the flags say is served, by the first segment of the path.
func (f *webFlags) services() (map[string]web.Service, error) {
	if f.config.Upstream != "" {
		return nil, nil
	}
	list := map[string]web.Service{}
	for _, store := range f.stores {
		switch store {
		case storeKV:
			memory, err := dist.ParseMemcachedSize(f.memory, 1<<20)
			if err != nil {
				return nil, usageError{fmt.Errorf("memory: %w", err)}
			}
			largest, err := dist.ParseMemcachedSize(f.largest, 1)
			if err != nil {
				return nil, usageError{fmt.Errorf("largest value: %w", err)}
			}
			values, err := web.NewCached(memory, largest)
			if err != nil {
				return nil, usageError{err}
			}
			list["kv"] = web.NewKV(values, largest)
		case storeWork:
			s := syntheticFlags{memory: f.holds, buffer: f.buffer, stream: "store"}
			config, err := s.host()
			if err != nil {
				return nil, usageError{err}
			}
			host, err := synthetic.NewHost(config)
			if err != nil {
				return nil, err
			}
			list["work"] = web.NewWork(host)
		default:
			return nil, usageError{fmt.Errorf("--store %s: unknown; there are kv and synthetic", store)}
		}
	}
	return list, nil
}
