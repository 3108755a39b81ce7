package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"spillway/control"
	"spillway/control/catalog"
	"spillway/internal/dist"
	"spillway/servers"
	"spillway/servers/memcached"
)

// memcachedFlags is the command line of refserver memcached.
type memcachedFlags struct {
	listen   []string
	host     string
	port     int
	memory   string
	item     string
	conns    int
	threads  int
	control  string
	settings []string
	slots    int
	queue    int
	reply    string
	metrics  string

	slo, deadline, idle duration
}

// duration is a flag that requires a unit and refuses what is negative.
type duration time.Duration

func (d *duration) String() string { return dist.FormatDuration(time.Duration(*d)) }
func (d *duration) Type() string   { return "duration" }

func (d *duration) Set(text string) error {
	v, err := dist.ParseDuration(text)
	*d = duration(v)
	return err
}

func memcachedCommand() *cobra.Command {
	var f memcachedFlags
	c := &cobra.Command{
		Use:   "memcached",
		Short: "An in-memory cache that speaks memcached's text and meta commands",
		Long: `An in-memory cache that speaks memcached's text and meta commands, under an overload controller.

It prints one line a listener on standard output once it accepts connections, and serves until SIGTERM or SIGINT.
With --reply header a value is read through, so that its memory traffic happens, but a hit is answered without it:
HD and the flags for mg, and for get a VALUE line with length 0 and an empty block.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return serveMemcached(c, &f) },
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringArrayVar(&f.listen, "listen", nil, "address to listen on: host:port or unix:///path; may be repeated (default 127.0.0.1:11211)")
	flags.StringVarP(&f.host, "address", "l", "127.0.0.1", "host to listen on, as memcached has it; goes with -p, not with --listen")
	flags.IntVarP(&f.port, "port", "p", 11211, "port to listen on; 0 takes a free one")
	flags.StringVarP(&f.memory, "memory", "m", "64MiB", "memory for items; a plain number is MiB, as memcached has it")
	flags.StringVarP(&f.item, "max-item", "I", "1MiB", "largest item; memcached's form (512k, 2m, plain bytes) works too")
	flags.IntVarP(&f.conns, "max-conns", "c", 1024, "connections beyond this are turned away")
	flags.IntVarP(&f.threads, "threads", "t", 0, "event loops; 0 for one a core")
	flags.StringVar(&f.control, "control", "none", "overload controller: "+strings.Join(catalog.Names(), ", "))
	flags.StringArrayVar(&f.settings, "control-set", nil, "setting of the controller, key=value; may be repeated")
	flags.Var(&f.slo, "slo", "latency objective, given to the controller as each request's budget of waiting; 0 for none")
	flags.IntVar(&f.slots, "slots", 0, "requests in service at once; 0 for one a loop, -1 for no limit")
	flags.IntVar(&f.queue, "queue", 0, "requests that may wait in the gate; 0 for no limit")
	flags.Var(&f.deadline, "deadline", "refuse a request that has waited longer than this; 0 for never")
	flags.Var(&f.idle, "idle-timeout", "close a connection without traffic after this; 0 for never")
	flags.StringVar(&f.reply, "reply", "full", "full, or header: read values through but do not send them")
	flags.StringVar(&f.metrics, "metrics", "", "host:port of a /metrics page for Prometheus; empty for none")
	return c
}

// config turns flags into configurations. All its errors are mistakes of usage.
func (f *memcachedFlags) config(changed func(string) bool) (servers.Config, memcached.Config, error) {
	front, store := servers.Default(), memcached.DefaultConfig()
	switch {
	case f.listen == nil:
		if f.port < 0 || f.port > math.MaxUint16 {
			return front, store, fmt.Errorf("port %d: must be from 0 to %d", f.port, math.MaxUint16)
		}
		front.Listen = []string{net.JoinHostPort(f.host, strconv.Itoa(f.port))}
	case changed("port") || changed("address"):
		return front, store, errors.New("give --listen, or -l and -p, not both")
	default:
		front.Listen = f.listen
	}
	memory, err := parseSize(f.memory, 1<<20)
	if err != nil {
		return front, store, fmt.Errorf("memory: %w", err)
	}
	item, err := parseSize(f.item, 1)
	if err != nil {
		return front, store, fmt.Errorf("largest item: %w", err)
	}
	switch f.reply {
	case "full":
	case "header":
		store.HeaderOnly = true
	default:
		return front, store, fmt.Errorf("reply %q: must be full or header", f.reply)
	}
	if f.slots < -1 || f.threads < 0 {
		return front, store, errors.New("slots must be at least -1 and threads at least 0")
	}
	if f.threads > 0 {
		front.Loops = f.threads
	}
	store.Memory, store.MaxItem, front.MaxItem = memory, int(min(item, math.MaxInt32)), int(min(item, math.MaxInt32))
	front.MaxConns, front.Slots, front.Queue, front.Metrics = f.conns, f.slots, f.queue, f.metrics
	front.SLO, front.Deadline, front.IdleTimeout = time.Duration(f.slo), time.Duration(f.deadline), time.Duration(f.idle)
	return front, store, errors.Join(front.Check(), store.Check())
}

func (f *memcachedFlags) controller(loops int) (control.Controller, error) {
	settings, err := catalog.ParseSettings(f.settings)
	if err != nil {
		return nil, err
	}
	return catalog.New(f.control, settings, catalog.Env{Cores: loops})
}

func serveMemcached(c *cobra.Command, f *memcachedFlags) error {
	front, store, err := f.config(c.Flags().Changed)
	if err != nil {
		return usageError{err}
	}
	controller, err := f.controller(front.Loops)
	if err != nil {
		return usageError{err}
	}
	// Signals are caught before anything says that the server is there to be signalled.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	backend, err := memcached.New(store)
	if err != nil {
		return err
	}
	server, err := servers.New(backend, controller, front)
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

// parseSize reads a size with a unit, or in memcached's form: a number that counts units of plain, or with k, m or g behind it, which
// are powers of 1024.
func parseSize(text string, plain int64) (int64, error) {
	number, unit := text, plain
	for suffix, scale := range map[string]int64{"k": 1 << 10, "m": 1 << 20, "g": 1 << 30} {
		if head, ok := strings.CutSuffix(strings.ToLower(text), suffix); ok {
			number, unit = head, scale
		}
	}
	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		if n < 0 || n > math.MaxInt64/unit {
			return 0, fmt.Errorf("size %q is out of range", text)
		}
		return n * unit, nil
	}
	return dist.ParseSize(text)
}
