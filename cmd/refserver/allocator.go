package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"spillway/servers/allocator"
)

// allocatorFlags is the command line of refserver allocator.
type allocatorFlags struct {
	listen    string
	file      string
	config    allocator.Config
	classes   []string
	locations []string

	cycle, lease duration
}

func allocatorCommand() *cobra.Command {
	f := allocatorFlags{config: allocator.Default()}
	c := &cobra.Command{
		Use:   "allocator",
		Short: "Shares one budget of requests per second over several refserver web",
		Long: `Shares one budget, what a protected server may be asked for, over locations and classes of requests, anew in every cycle: first inside each
class over its locations, then between the classes. A location is a "refserver web --control capacity --edge NAME --allocator URL", which reports
what it is asked for and fetches what it may pass on.

Every class has a share of the budget, and every location a part of that by its weight: its baseline, which it falls back to when it does not
hear from the allocator for the time of a lease. The baselines are what its --control-set baseline=RATE,RATE says, class by class; this command prints them.

  refserver allocator --budget 1000 --class high=0.7 --class low=0.3 --location a --location b=2

or the same in a file, --config allocator.json:

  {"budget": 1000, "classes": [{"name": "high", "share": 0.7}, {"name": "low", "share": 0.3, "lend": 1}],
   "locations": [{"name": "a"}, {"name": "b", "weight": 2}], "cycle": "1s", "lease": "8s", "keep": 2, "absorb": 10}

POST /report is for locations; GET /state shows where everything stands. It serves until SIGTERM or SIGINT.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return serveAllocator(c, &f) },
	}
	flags := c.Flags()
	flags.SortFlags = false
	f.cycle, f.lease = duration(f.config.Cycle), duration(f.config.Lease)
	flags.StringVar(&f.listen, "listen", "127.0.0.1:8090", "address to listen on, host:port")
	flags.StringVar(&f.file, "config", "", "file with all that follows, in JSON")
	flags.Float64Var(&f.config.Budget, "budget", 0, "requests per second that all locations together may pass on")
	flags.StringArrayVar(&f.classes, "class", nil, "a class and its share of the budget, NAME=SHARE, or NAME=SHARE,lend=SHARE of what it does not use; the most important first")
	flags.StringArrayVar(&f.locations, "location", nil, "a location, NAME or NAME=WEIGHT; may be repeated")
	flags.Var(&f.cycle, "cycle", "how often it is decided anew")
	flags.Var(&f.lease, "lease", "how long a grant holds without a word from the allocator; what is above the baseline ends three cycles earlier")
	flags.IntVar(&f.config.Keep, "keep", f.config.Keep, "cycles for which the last demand of a location stands in for a report that is missing")
	flags.IntVar(&f.config.Absorb, "absorb", f.config.Absorb, "cycles without a report after which the baseline of a location is used elsewhere; 0 for never")
	flags.Float64Var(&f.config.Floor, "floor", 0, "share of its baseline that a class keeps at a location however little it is asked for")
	flags.BoolVar(&f.config.Alike, "alike", false, "all classes borrow in proportion to what they lack; otherwise the more important ones first")
	return c
}

func serveAllocator(c *cobra.Command, f *allocatorFlags) error {
	config, err := f.read(c)
	if err == nil {
		err = config.Check()
	}
	if err != nil {
		return usageError{err}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	server, err := allocator.New(f.listen, config)
	if err != nil {
		return err
	}
	p := config.Policy()
	for i, l := range config.Locations {
		var rates []string
		for k := range config.Classes {
			rates = append(rates, strconv.FormatFloat(p.Baseline[p.Cell(k, i)], 'g', -1, 64))
		}
		fmt.Fprintf(c.ErrOrStderr(), "refserver: location %s has baseline=%s\n", l.Name, strings.Join(rates, ","))
	}
	if _, err := fmt.Fprintf(c.OutOrStdout(), "refserver: listening on %s\n", server.Addr()); err != nil {
		return errors.Join(err, server.Close())
	}
	return server.Serve(ctx)
}

// read returns the configuration of the file or of the flags. All errors are mistakes of usage.
func (f *allocatorFlags) read(c *cobra.Command) (allocator.Config, error) {
	if f.file != "" {
		for _, name := range []string{"budget", "class", "location", "cycle", "lease", "keep", "absorb", "floor", "alike"} {
			if c.Flags().Changed(name) {
				return allocator.Config{}, fmt.Errorf("--%s: the file of --config has it; leave one of them out", name)
			}
		}
		text, err := os.ReadFile(f.file)
		if err != nil {
			return allocator.Config{}, err
		}
		config, err := allocator.ReadConfig(text)
		if err != nil {
			return config, fmt.Errorf("%s: %w", f.file, err)
		}
		return config, nil
	}
	config := f.config
	config.Cycle, config.Lease = time.Duration(f.cycle), time.Duration(f.lease)
	for _, text := range f.classes {
		first, rest, lends := strings.Cut(text, ",")
		name, share, ok := namedNumber(first)
		k := allocator.Class{Name: name, Share: share, Lend: 1}
		if lends {
			var word string
			var known bool
			word, k.Lend, known = namedNumber(rest)
			ok = ok && known && word == "lend"
		}
		if !ok {
			return config, fmt.Errorf("--class %s: write NAME=SHARE or NAME=SHARE,lend=SHARE, such as high=0.7", text)
		}
		config.Classes = append(config.Classes, k)
	}
	for _, text := range f.locations {
		l := allocator.Location{Name: text, Weight: 1}
		if strings.Contains(text, "=") {
			var ok bool
			if l.Name, l.Weight, ok = namedNumber(text); !ok {
				return config, fmt.Errorf("--location %s: write NAME or NAME=WEIGHT, such as b=2", text)
			}
		}
		config.Locations = append(config.Locations, l)
	}
	return config, nil
}

// namedNumber reads NAME=NUMBER.
func namedNumber(text string) (name string, number float64, ok bool) {
	name, value, _ := strings.Cut(text, "=")
	number, err := strconv.ParseFloat(value, 64)
	return name, number, err == nil
}
