package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"spillway/control"
	"spillway/internal/dist"
	"spillway/machine"
	"spillway/servers"
	"spillway/servers/memcached"
)

// memcachedFlags is the command line of refserver memcached: memcached's own letters beside the flags that all kinds of servers have.
type memcachedFlags struct {
	frontFlags
	hosts     []string
	port      int
	socket    string
	mask      string
	memory    string
	item      string
	noEvict   bool
	pipeline  int
	reply     string
	user      string
	verbose   int
	udp       int
	version   bool
	daemonize bool
	machine   machineFlags
	costs     string
	large     string
	queues    bool
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
HD and the flags for mg, and for get a VALUE line with length 0 and an empty block.

Under a controller with a memory section, reads of large values (--large) go through it before the value is touched, and may be refused
there. With --reply full a value is copied by the kernel, after the section has been left.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return serveMemcached(c, &f) },
	}
	flags := c.Flags()
	f.frontFlags.add(c)
	flags.StringArrayVarP(&f.hosts, "address", "l", nil, "host, or host:port, to listen on; several with commas or repeated (default 127.0.0.1)")
	flags.IntVarP(&f.port, "port", "p", 11211, "port to listen on; 0 takes a free one")
	flags.StringVarP(&f.socket, "unix-socket", "s", "", "unix socket to listen on, instead of a port unless -l or -p is given too")
	flags.StringVarP(&f.mask, "unix-mask", "a", "0700", "permissions of unix sockets, in octal")
	flags.StringVarP(&f.memory, "memory", "m", "64MiB", "memory for items; a plain number is MiB, as memcached has it")
	flags.StringVarP(&f.item, "max-item", "I", "1MiB", "largest item, 1 KiB to 1 GiB; memcached's form (512k, 2m, plain bytes) works too")
	flags.BoolVarP(&f.noEvict, "disable-evictions", "M", false, "answer with an error when memory is full, instead of evicting")
	flags.IntVarP(&f.pipeline, "max-reqs-per-event", "R", servers.Default().Pipeline, "requests of one connection under way; with more it is not read for now")
	flags.StringVarP(&f.user, "user", "u", "", "user to run as; only root may choose")
	flags.CountVarP(&f.verbose, "verbose", "v", "say what goes wrong; -vv: connections and commands too")
	flags.IntVarP(&f.udp, "udp-port", "U", 0, "there is no UDP here: only 0 is accepted")
	flags.BoolVarP(&f.version, "version", "V", false, "print the version and exit")
	flags.BoolVarP(&f.daemonize, "daemon", "d", false, "refused: it stays in the foreground")
	flags.StringVar(&f.reply, "reply", "full", "full, or header: read values through but do not send them")
	flags.StringVar(&f.large, "large", dist.FormatSize(memcached.DefaultLarge), "reads of values of this size and more go through the memory section; from 4096 bytes on, 0 for none; on a modelled machine its costs say which (section_from)")
	flags.BoolVar(&f.queues, "lock-queues", false, "commands queue for the lock of their item, where the controller may refuse them; it costs more than such locks are held")
	f.machine.add(c)
	flags.StringVar(&f.costs, "costs", "memcached", "what requests cost on a modelled machine: a file, or a shipped table")
	return c
}

// config turns flags into configurations. All its errors are mistakes of usage.
func (f *memcachedFlags) config(changed func(string) bool) (servers.Config, memcached.Config, error) {
	store := memcached.DefaultConfig()
	front, err := f.frontFlags.config()
	if err != nil {
		return front, store, err
	}
	if err := f.refused(); err != nil {
		return front, store, err
	}
	if !changed("listen") {
		if front.Listen, err = f.addresses(changed); err != nil {
			return front, store, err
		}
	} else if changed("port") || changed("address") || changed("unix-socket") {
		return front, store, errors.New("give --listen, or -l, -p and -s, not both")
	}
	mask, err := strconv.ParseUint(f.mask, 8, 32)
	if err != nil || mask > 0o777 {
		return front, store, fmt.Errorf("permissions %q: must be octal, up to 777", f.mask)
	}
	memory, err := dist.ParseMemcachedSize(f.memory, 1<<20)
	if err != nil {
		return front, store, fmt.Errorf("memory: %w", err)
	}
	item, err := dist.ParseMemcachedSize(f.item, 1)
	if err != nil {
		return front, store, fmt.Errorf("largest item: %w", err)
	}
	large, err := dist.ParseMemcachedSize(f.large, 1)
	if err != nil {
		return front, store, fmt.Errorf("large: %w", err)
	}
	if f.queues && f.machine.modelled() {
		return front, store, errors.New("--lock-queues is for a real machine: a modelled one has the locks of its cost table")
	}
	switch f.reply {
	case "full":
	case "header":
		store.HeaderOnly = true
	default:
		return front, store, fmt.Errorf("reply %q: must be full or header", f.reply)
	}
	store.Memory, store.MaxItem, store.NoEvict = memory, int(min(item, math.MaxInt32)), f.noEvict
	store.Large, store.LockQueues = int(min(large, math.MaxInt32)), f.queues
	front.MaxItem, front.Pipeline, front.UnixMode, front.Verbose = store.MaxItem, f.pipeline, fs.FileMode(mask), f.verbose
	return front, store, errors.Join(front.Check(), store.Check())
}

// refused says what there is of memcached's flags only to say that it is not there.
func (f *memcachedFlags) refused() error {
	switch {
	case f.udp != 0:
		return errors.New("-U: UDP is not spoken here; leave it out, or say -U 0")
	case f.daemonize:
		return errors.New("-d: it stays in the foreground; have a service manager or the shell put it in the background")
	case f.pipeline < 1:
		return fmt.Errorf("-R %d: must be at least 1", f.pipeline)
	}
	return nil
}

// addresses returns where to listen according to memcached's flags.
func (f *memcachedFlags) addresses(changed func(string) bool) (list []string, err error) {
	if f.port < 0 || f.port > math.MaxUint16 {
		return nil, fmt.Errorf("port %d: must be from 0 to %d", f.port, math.MaxUint16)
	}
	if f.socket != "" {
		list = append(list, "unix://"+f.socket)
		if !changed("port") && !changed("address") {
			return list, nil
		}
	}
	hosts := f.hosts
	if len(hosts) == 0 {
		hosts = []string{"127.0.0.1"}
	}
	for _, some := range hosts {
		for host := range strings.SplitSeq(some, ",") {
			if host == "" {
				return nil, fmt.Errorf("-l %q: an address is empty", some)
			}
			if _, _, err := net.SplitHostPort(host); err != nil { // it has no port of its own
				host = net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(f.port))
			}
			list = append(list, host)
		}
	}
	return list, nil
}

func serveMemcached(c *cobra.Command, f *memcachedFlags) error {
	if f.version {
		return printVersion(c)
	}
	front, store, err := f.config(c.Flags().Changed)
	if err != nil {
		return usageError{err}
	}
	front.Log = c.ErrOrStderr()
	var backend *memcached.Backend
	front.Model, err = f.machine.model(c.Flags().Changed, func(spec machine.Spec) (servers.Coster, error) {
		return loadCosts(f.costs, spec, func(key []byte) int { return backend.ValueSize(key) })
	})
	if err == nil {
		err = front.Check()
	}
	if err != nil {
		return usageError{err}
	}
	controller, err := f.newController(&front)
	if err != nil {
		return usageError{err}
	}
	if err := errors.Join(raiseFiles(front.MaxConns), switchUser(f.user)); err != nil {
		return err
	}
	if backend, err = memcached.New(store); err != nil {
		return err
	}
	return serve(c, sectioned(backend, &store, controller, &front), controller, front)
}

// sectioned returns what is to be served: the backend itself, whose commands ask nobody, unless the controller reaches into service.
func sectioned(backend *memcached.Backend, store *memcached.Config, stack control.Stack, front *servers.Config) servers.Backend {
	inside := stack.Memory != nil && store.Large > 0
	if front.Model != nil || !inside && !store.LockQueues {
		return backend
	}
	if front.Slots == 0 && stack.Mode == control.Try && !store.LockQueues {
		front.Slots = front.Loops // nobody waits halfway, so what waits does so in the gate
	}
	return memcached.Sectioned{Backend: backend}
}
