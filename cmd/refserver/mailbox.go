package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"spillway/guard/levels"
	"spillway/internal/dist"
	"spillway/machine"
	"spillway/servers"
	"spillway/servers/mailbox"
	"spillway/workloads"
)

// mailboxFlags is the command line of refserver mailbox.
type mailboxFlags struct {
	front   frontFlags
	machine machineFlags

	size, largest, rate string
	latency             duration
	seed                uint64
	limit, limitBy      string
	putBack, takeAgain  float64
	rivals              []string
}

func mailboxCommand() *cobra.Command {
	var f mailboxFlags
	c := &cobra.Command{
		Use:   "mailbox",
		Short: "A server of mailboxes, which hold memory while they are fetched, so that too many at once kill it",
		Long: `A server of mailboxes. A get names one, of a size that follows from the name; the server holds so much memory, really written to,
while it fetches the mailbox and hands it over, and then answers with the size. Too many at once kill it:

  refserver mailbox --limit 400MB                                          dies when requests hold more than 400 MB together
  refserver mailbox --limit 400MB --level memory --control staging         keeps requests unprocessed instead

--limit is a hard limit on this process and nobody else: a control group where it may make one, otherwise RLIMIT_AS; it says which. The
level memory is the share of it in use, held what requests hold (held=200MB). A key such as !150000000:4000ms asks for so many
bytes and for how long they are held.

With --put-back half-done work is put back on the queue when so much of the limit is in use: requests, the youngest first, give back what they
hold and begin anew below --take-again. What that costs is counted (stats: put_back, put_back_bytes, put_back_lost_us).

A --rival takes memory away as another program on this host would, so long after the first request: --rival 150MB@20s+5s. It is this
process that maps it, so that it counts under either kind of limit; but no request holds it.

On a modelled machine (--machine) the instants are computed, and its ram is the limit.

It prints one line a listener on standard output once it accepts connections, and serves until SIGTERM or SIGINT.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return serveMailbox(c, &f) },
	}
	f.front.add(c)
	f.machine.add(c)
	flags := c.Flags()
	d := workloads.DefaultMailboxes()
	f.latency = duration(d.Latency)
	flags.StringVar(&f.size, "size", fmt.Sprint(d.Size), "of mailboxes: a distribution")
	flags.StringVar(&f.largest, "largest", dist.FormatSize(d.Largest), "no mailbox is larger")
	flags.Uint64Var(&f.seed, "mailbox-seed", d.Seed, "of which mailbox is how large")
	flags.Var(&f.latency, "latency", "of fetching a mailbox, whatever its size")
	flags.StringVar(&f.rate, "rate", dist.FormatSize(int64(d.Rate)), "bytes a second at which a mailbox is fetched and handed over")
	flags.StringVar(&f.limit, "limit", "", "memory that this process may take; beyond it dies; empty for no limit")
	flags.StringVar(&f.limitBy, "limit-by", byAny, "what limits: "+strings.Join([]string{byAny, mailbox.ByCgroup, mailbox.ByRlimit}, ", "))
	flags.Float64Var(&f.putBack, "put-back", 0, "share of the limit at which half-done work is put back on the queue; 0 for never")
	flags.Float64Var(&f.takeAgain, "take-again", 0, "share of the limit below which it is begun anew; 0 for 0.8 of --put-back")
	flags.StringArrayVar(&f.rivals, "rival", nil, "memory that is taken away, BYTES@AFTER+FOR; may be repeated")
	return c
}

// again is which share of --put-back --take-again is, unless it is given: enough below for what is begun anew to have room to grow.
const again = 0.8

func serveMailbox(c *cobra.Command, f *mailboxFlags) error {
	front, config, err := f.config(c.Flags().Changed)
	if err != nil {
		return usageError{err}
	}
	limit, err := f.setLimit(c.ErrOrStderr())
	if err != nil {
		return err
	}
	if limit != nil {
		defer func() { _ = limit.Close() }()
		config.Memory = func() (used, most float64, err error) {
			used, err = limit.Used()
			return used, float64(limit.Bytes), err
		}
		config.Die = func(err error) { die(c.ErrOrStderr(), err) }
	}
	backend, err := mailbox.New(config)
	if err != nil {
		return usageError{err}
	}
	f.front.levels.own = ownLevels(backend, limit)
	controller, err := f.front.newController(&front)
	if err != nil {
		return usageError{errors.Join(err, backend.Close())}
	}
	return serve(c, backend, controller, front)
}

// The values of --limit-by.
const byAny = "any" // a control group where it may make one, RLIMIT_AS otherwise

// setLimit limits the memory of this process as the flags say, and says on w by what; nil for no limit.
func (f *mailboxFlags) setLimit(w io.Writer) (*mailbox.Limit, error) {
	if f.limit == "" {
		return nil, nil
	}
	bytes, err := dist.ParseSize(f.limit)
	if err == nil && f.limitBy != byAny && f.limitBy != mailbox.ByCgroup && f.limitBy != mailbox.ByRlimit {
		err = fmt.Errorf("--limit-by %q: must be %s, %s or %s", f.limitBy, byAny, mailbox.ByCgroup, mailbox.ByRlimit)
	}
	if err != nil {
		return nil, usageError{fmt.Errorf("limit: %w", err)}
	}
	why := ""
	if f.limitBy != mailbox.ByRlimit {
		limit, err := mailbox.SetLimit(bytes, mailbox.ByCgroup)
		if err == nil {
			fmt.Fprintf(w, "refserver: memory limited to %s by %s\n", f.limit, limit)
			return limit, nil
		}
		if f.limitBy == mailbox.ByCgroup {
			return nil, fmt.Errorf("limit of %s: %w", f.limit, err)
		}
		why = " (" + err.Error() + ")"
	}
	if err := oneArena(); err != nil {
		return nil, fmt.Errorf("limit of %s: %w", f.limit, err)
	}
	limit, err := mailbox.SetLimit(bytes, mailbox.ByRlimit)
	if err != nil {
		return nil, fmt.Errorf("limit of %s: %w", f.limit, err)
	}
	fmt.Fprintf(w, "refserver: memory limited to %s by %s%s\n", f.limit, limit, why)
	return limit, nil
}

// arenas is the environment variable that says how many arenas the C library's allocator may have.
const arenas = "MALLOC_ARENA_MAX"

// oneArena starts this process anew with one arena. The C library, which a server with RocksDB in it has, reserves 64 MiB of addresses for
// every thread that allocates; a limit on addresses would count them.
func oneArena() error {
	if os.Getenv(arenas) != "" {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(self, os.Args, append(os.Environ(), arenas+"=1"))
}

// die ends this process at once, as the kernel ends one that is out of memory, with a word about why.
func die(w io.Writer, why error) {
	fmt.Fprintf(w, "refserver: %v\n", why)
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // until the signal has come
}

// ownLevels are the levels that only a mailbox server has.
func ownLevels(b *mailbox.Backend, l *mailbox.Limit) map[string]maker {
	return map[string]maker{
		"memory": func(text string) (levels.Level, error) {
			if l == nil {
				return levels.Level{}, errors.New("there is no limit that it could be a level of; add --limit")
			}
			level := l.Level()
			if text == "" {
				return level, nil
			}
			n, err := sizeOf(text)
			level.Limit = float64(n)
			return level, err
		},
		"held": func(text string) (levels.Level, error) {
			n, err := sizeOf(text)
			return levels.Level{Name: "held", Limit: float64(n), Read: func() (float64, error) { return float64(b.Held()), nil }}, err
		},
	}
}

// config turns flags into configurations. All its errors are mistakes of usage.
func (f *mailboxFlags) config(changed func(string) bool) (front servers.Config, config mailbox.Config, err error) {
	if front, err = f.front.config(); err != nil {
		return front, config, err
	}
	if front.Slots == 0 {
		front.Slots = -1 // a mailbox that is waited for costs no thread, so nothing but memory says how many may be open
	}
	if config.Boxes, err = f.boxes(); err != nil {
		return front, config, err
	}
	front.Model, err = f.machine.model(changed, func(machine.Spec) (servers.Coster, error) { return mailbox.NewCosts(config.Boxes) })
	if err == nil {
		err = front.Check()
	}
	if err != nil {
		return front, config, err
	}
	if f.machine.modelled() {
		for _, name := range []string{"limit", "limit-by", "put-back", "take-again", "rival"} {
			if changed(name) {
				return front, config, fmt.Errorf("--%s is for a real machine: a modelled one has its ram", name)
			}
		}
		return front, config, nil
	}
	config.PutBack, config.TakeAgain = f.putBack, f.takeAgain
	if config.PutBack > 0 && f.limit == "" {
		return front, config, errors.New("--put-back is a share of --limit, which is missing")
	}
	if config.PutBack > 0 && config.TakeAgain == 0 {
		config.TakeAgain = again * config.PutBack
	}
	for _, text := range f.rivals {
		r, err := parseRival(text)
		if err != nil {
			return front, config, err
		}
		config.Rivals = append(config.Rivals, r)
	}
	return front, config, nil
}

func (f *mailboxFlags) boxes() (c workloads.MailboxConfig, err error) {
	c = workloads.DefaultMailboxes()
	c.Seed, c.Latency = f.seed, time.Duration(f.latency)
	if c.Size, err = dist.Parse(f.size, dist.Bytes); err != nil {
		return c, fmt.Errorf("size: %w", err)
	}
	if c.Largest, err = dist.ParseSize(f.largest); err != nil {
		return c, fmt.Errorf("largest: %w", err)
	}
	rate, err := dist.ParseSize(f.rate)
	if err != nil {
		return c, fmt.Errorf("rate: %w", err)
	}
	c.Rate = float64(rate)
	return c, c.Check()
}

// parseRival reads BYTES@AFTER+FOR.
func parseRival(text string) (r mailbox.Rival, err error) {
	size, when, found := strings.Cut(text, "@")
	after, length, found2 := strings.Cut(when, "+")
	if !found || !found2 {
		return r, fmt.Errorf("--rival %q: write BYTES@AFTER+FOR, such as 150MB@20s+5s", text)
	}
	var err1, err2, err3 error
	r.Bytes, err1 = dist.ParseSize(size)
	r.After, err2 = dist.ParseDuration(after)
	r.For, err3 = dist.ParseDuration(length)
	if err := errors.Join(err1, err2, err3); err != nil {
		return r, fmt.Errorf("--rival %q: %w", text, err)
	}
	return r, nil
}
