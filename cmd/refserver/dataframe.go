package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"spillway/internal/frames"
	"spillway/machine"
	"spillway/profiles"
	"spillway/servers"
	"spillway/servers/dataframe"
	"spillway/workloads"
)

// dataframeFlags is the command line of refserver dataframe.
type dataframeFlags struct {
	front     frontFlags
	machine   machineFlags
	shape     frames.Shape
	csv       string
	form      frames.CSV
	delimiter string
	reply     string
	costs     string
}

func dataframeCommand() *cobra.Command {
	f := dataframeFlags{shape: frames.DefaultShape()}
	f.front.classes.own = dataframe.ClassNames()
	c := &cobra.Command{
		Use:   "dataframe",
		Short: "A server that computes over a data frame of minute bars in memory",
		Long: `A server that computes over a data frame of minute bars in memory: open, high, low, close, volume, and return, the log return of close. The key of a get
is the operation, and the value the result:

  max  max/volume            the greatest value of a column, of close unless it is named
  mean  mean/return          the mean
  quantile/0.99  .../high    the quantile
  corr  corr/open/close      the correlation of two columns, of close and volume unless they are named
  vwap                       the average close, weighted by volume
  mid/15                     half-way between the highest high and the lowest low of 15 rows
  kmeans/4/10                returns in 4 clusters, after 10 iterations
  ppo/5/9/4                  percentage price oscillator of close: fast, slow and signal period
  decompose/170/0.01/1       returns as trend (LOESS over 0.01 of all rows, at every row), season of 170 rows and remainder
  decay/5                    exponential decay of close
  ad                         accumulation/distribution

Without parameters these are taken. What follows a # is a comment. A vector is returned in summary, as n, first, last, min, mean and max of its numbers. The
classes of requests are the operations. decompose, decay and ad are bound by memory bandwidth, and go through the controller's memory section.

The frame is made at random, a year of a pair of currencies, or read from a CSV of minute data with or without names of columns: date and time in the
common forms, open, high, low, close and volume, between ; tab | or comma. Rows that are no bars are left out, counted, and named with their lines.

It prints one line a listener on standard output once it accepts connections, and serves until SIGTERM or SIGINT.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return serveDataFrame(c, &f) },
	}
	f.front.add(c)
	f.machine.add(c)
	flags := c.Flags()
	flags.StringVar(&f.costs, "costs", "dataframe", "what requests cost on a modelled machine: a file, or a shipped table")
	flags.IntVar(&f.front.parallelism, "parallelism", 0, "operations computed at a time; 0 for one a core")
	flags.StringVar(&f.reply, "reply", "summary", "of vectors: summary, or full for all of them")
	flags.StringVar(&f.csv, "csv", "", "file with minute bars, - for standard input; empty for random ones")
	flags.StringVar(&f.delimiter, "delimiter", "auto", "between the fields of the file: one character, tab, or auto")
	flags.StringVar(&f.form.Dates, "dates", "auto", "order of day, month and year in the file: "+strings.Join(frames.DateOrders, ", "))
	flags.IntVar(&f.shape.Rows, "rows", f.shape.Rows, "random bars: 7200 are a week")
	flags.Float64Var(&f.shape.Price, "price", f.shape.Price, "that the first random bar opens at")
	flags.Float64Var(&f.shape.Year, "volatility", f.shape.Year, "of log returns over a year of random bars")
	flags.Float64Var(&f.shape.Shock, "shock", f.shape.Shock, "share of a minute's surprise in the variance of the next (alpha of GARCH)")
	flags.Float64Var(&f.shape.Persistence, "persistence", f.shape.Persistence, "share of a minute's variance in that of the next (beta of GARCH)")
	flags.Float64Var(&f.shape.Volume, "volume", f.shape.Volume, "median of random bars")
	flags.Uint64Var(&f.shape.Seed, "frame-seed", f.shape.Seed, "of the random bars")
	return c
}

// shapeFlags are the flags that say nothing about a frame that is read from a file.
var shapeFlags = []string{"rows", "price", "volatility", "shock", "persistence", "volume", "frame-seed"}

// check says what is wrong with the flags beside the front end's.
func (f *dataframeFlags) check(changed func(string) bool) error {
	switch {
	case f.front.parallelism < 0:
		return errors.New("parallelism must not be negative")
	case f.reply != "summary" && f.reply != "full":
		return fmt.Errorf("reply %q: must be summary or full", f.reply)
	case f.csv == "" && (changed("delimiter") || changed("dates")):
		return errors.New("--delimiter and --dates are for a file: add --csv, or leave them out")
	case f.csv == "":
		return f.shape.Check()
	}
	for _, name := range shapeFlags {
		if changed(name) {
			return fmt.Errorf("--%s is for random bars: leave it out, or --csv", name)
		}
	}
	switch f.delimiter {
	case "auto":
	case "tab", `\t`:
		f.form.Delimiter = '\t'
	default:
		if len(f.delimiter) != 1 {
			return fmt.Errorf("delimiter %q: must be one character, tab, or auto", f.delimiter)
		}
		f.form.Delimiter = f.delimiter[0]
	}
	return f.form.Check()
}

func serveDataFrame(c *cobra.Command, f *dataframeFlags) error {
	front, err := f.front.config()
	if err == nil {
		err = f.check(c.Flags().Changed)
	}
	if err != nil {
		return usageError{err}
	}
	f.front.workers(&front, &f.machine)
	costs := &laterCosts{}
	var table map[string]workloads.FrameCost
	stack, err := f.front.under(c, &f.machine, &front, func(spec machine.Spec) (servers.Coster, error) {
		t, err := profiles.LoadCosts(f.costs)
		if err != nil {
			return nil, err
		}
		table = t.FrameTable()
		if costs.Coster, err = dataframe.NewCosts(f.shape.Rows, table, spec.Bus.Total > 0); err != nil {
			return nil, fmt.Errorf("cost table %s: %w", f.costs, err)
		}
		return costs, nil
	})
	if err != nil {
		return err
	}
	frame, err := f.frame(c.InOrStdin(), c.ErrOrStderr())
	if err != nil {
		return err
	}
	if front.Model != nil { // a file has rows of its own
		if costs.Coster, err = dataframe.NewCosts(frame.Rows(), table, front.Model.Machine.Bus.Total > 0); err != nil {
			return err
		}
	}
	if !f.machine.modelled() {
		// Each worker has a processor of Go's scheduler beside those of the loops. Otherwise an operation would keep a loop from its sockets until
		// the scheduler takes it off, which is after 10 ms.
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + f.front.parallelism)
	}
	backend, err := dataframe.New(dataframe.Config{Frame: frame, Parallelism: max(f.front.parallelism, 1), Full: f.reply == "full"})
	if err != nil {
		return err
	}
	return serve(c, backend, stack, front)
}

// frame returns the frame that the flags ask for, and says what it is.
func (f *dataframeFlags) frame(stdin io.Reader, stderr io.Writer) (*frames.Frame, error) {
	if f.csv == "" {
		frame, err := frames.Generate(f.shape)
		if err == nil {
			fmt.Fprintf(stderr, "refserver: a data frame of %d random rows\n", frame.Rows())
		}
		return frame, err
	}
	in, name := stdin, "standard input"
	if f.csv != "-" {
		file, err := os.Open(f.csv)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }() // it has only been read
		in, name = file, f.csv
	}
	frame, found, err := frames.Read(in, f.form)
	for i, bad := range found.BadRows {
		if i == toldRows {
			break
		}
		fmt.Fprintf(stderr, "refserver: %s:%d: left out: %s\n", name, bad.Line, bad.Reason)
	}
	if more := found.Bad - toldRows; more > 0 {
		fmt.Fprintf(stderr, "refserver: %s: %d more rows left out\n", name, more)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	fmt.Fprintf(stderr, "refserver: %s: a data frame of %d rows, %d left out; %s\n", name, frame.Rows(), found.Bad, formOf(found))
	return frame, nil
}

// toldRows is how many rows that were left out are told of one by one.
const toldRows = 10

// formOf says how a file was understood.
func formOf(f *frames.Found) string {
	text := fmt.Sprintf("delimiter %q, dates as %s", f.Delimiter, f.Dates)
	if f.Header {
		text += ", names of columns"
	}
	if f.NoVolume {
		text += ", no volumes"
	}
	if f.Sorted {
		text += ", put in order of time"
	}
	return text
}
