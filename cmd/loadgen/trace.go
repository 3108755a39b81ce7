package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"spillway/internal/dist"
	"spillway/internal/replay"
	"spillway/profiles"
)

func traceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "trace",
		Short: "Make, import and describe logs of requests, which profiles replay",
		Long: `A log says what was asked of a server, and when: a CSV file with the columns time, class, key, size and operation, which a profile
replays (workload: {kind: replay, replay: {file: LOG}}).

time is in seconds, exact to the nanosecond; class a name; operation get, set, delete or multiget; key has no spaces, and those of a multiget are
separated by them; size is the bytes of the value, empty where there was none (a read that missed).`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(traceGenerateCommand(), traceImportCommand(), traceDescribeCommand())
	return cmd
}

// drawing is the flags of trace generate.
type drawing struct {
	out, profile         string
	seed                 uint64
	length               time.Duration
	rate, classes        string
	daily, bursts, drift string
}

func traceGenerateCommand() *cobra.Command {
	var d drawing
	cmd := &cobra.Command{
		Use:   "generate --out FILE",
		Short: "Draw a log from a seed: with daily shape, bursts and a mix that drifts",
		Long: `generate draws a log: as many requests as rate and duration make, at random instants whose rate has the shape that is asked for. The same
flags give the same bytes. With --profile it writes the log that a profile draws.

--daily  swing=0.6,peak=20h        the rate rises and falls by six tenths of its mean, every 24 hours (period=…), and is highest at eight in the evening
--bursts every=2h,for=5m,times=3   stretches of three times the rate, five minutes long and two hours apart on average
--drift  period=24h,a=0.2,b=0.8    the shares of the classes drift to these and back, as a cosine does`,
		Example: "  loadgen trace generate --out day.csv --duration 24h --rate 20 --daily swing=0.6,peak=20h --bursts every=2h,for=5m,times=3",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return failed(d.run(cmd)) },
	}
	f := cmd.Flags()
	f.StringVarP(&d.out, "out", "o", "", "`file` to write")
	f.StringVar(&d.profile, "profile", "", "write the log that this `profile` draws; the other flags are then left out")
	f.Uint64Var(&d.seed, "seed", 1, "seed of all that is drawn")
	f.DurationVar(&d.length, "duration", time.Hour, "how long the log is")
	f.StringVar(&d.rate, "rate", "100", "requests per second on the mean, with k or M")
	f.StringVar(&d.classes, "classes", "etc", "what is asked: a preset, or a list of classes as in a profile of the kind kv")
	f.StringVar(&d.daily, "daily", "", "how the rate rises and falls over the day")
	f.StringVar(&d.bursts, "bursts", "", "stretches of a higher rate")
	f.StringVar(&d.drift, "drift", "", "what the shares of the classes drift to")
	return cmd
}

func (d *drawing) run(cmd *cobra.Command) error {
	if d.out == "" {
		return wrong(errors.New("--out: name the file to write"))
	}
	g, err := d.log(cmd)
	if err != nil {
		return wrong(err)
	}
	var rows int64
	err = replay.Create(d.out, func(w io.Writer) error {
		out := replay.NewWriter(w)
		err := g.Each(func(r *replay.Row) error {
			if out.Rows()%4096 == 0 && cmd.Context().Err() != nil {
				return errInterrupted
			}
			return out.Write(r)
		})
		rows = out.Rows()
		return errors.Join(err, out.Close())
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d requests in %s, %d bursts: %s\n", rows, dist.FormatDuration(g.Length), len(g.Bursts()), d.out)
	return err
}

var errInterrupted = errors.New("interrupted; no file was written")

// log returns what is to be drawn. It goes through a profile, so that it passes the same checks.
func (d *drawing) log(cmd *cobra.Command) (*replay.Generate, error) {
	if d.profile != "" {
		for _, name := range []string{"seed", "duration", "rate", "classes", "daily", "bursts", "drift"} {
			if cmd.Flags().Changed(name) {
				return nil, fmt.Errorf("--%s: the profile says it; leave one of them out", name)
			}
		}
		p, err := profiles.Load(d.profile)
		if err != nil {
			return nil, err
		}
		if p.Workload.Replay == nil || p.Workload.Replay.Generate == nil {
			return nil, fmt.Errorf("--profile %s: it draws no log (workload.replay.generate)", d.profile)
		}
		return p.Workload.LogOf()
	}
	parts := []string{fmt.Sprintf("seed: %d, length: %s", d.seed, dist.FormatDuration(d.length))}
	if _, err := profiles.ParseRate(d.rate); err != nil {
		return nil, fmt.Errorf("--rate: %w", err)
	}
	parts = append(parts, "rate: "+d.rate)
	for _, f := range []struct{ key, text string }{{"daily", d.daily}, {"bursts", d.bursts}} {
		if f.text != "" {
			body, err := flow(f.text)
			if err != nil {
				return nil, fmt.Errorf("--%s %s: %w", f.key, f.text, err)
			}
			parts = append(parts, fmt.Sprintf("%s: {%s}", f.key, body))
		}
	}
	if d.drift != "" {
		period, shares, _ := strings.Cut(d.drift, ",")
		body, err := flow(shares)
		if !strings.HasPrefix(period, "period=") || err != nil {
			return nil, fmt.Errorf("--drift %s: write period=DURATION,CLASS=SHARE,…", d.drift)
		}
		parts = append(parts, fmt.Sprintf("drift: {period: %s, shares: {%s}}", strings.TrimPrefix(period, "period="), body))
	}
	classes := fmt.Sprintf("preset: %q", d.classes)
	if strings.HasPrefix(strings.TrimSpace(d.classes), "[") {
		classes = "classes: " + d.classes
	}
	p, err := profiles.Parse("trace generate", []byte("name: trace\nserver: {kind: memcached}\ncontrollers: [{name: none}]\nload: {speeds: [1]}\n"+
		"workload: {kind: replay, "+classes+", replay: {generate: {"+strings.Join(parts, ", ")+"}}}\n"))
	var mistake *profiles.Error
	if errors.As(err, &mistake) {
		err = errors.New(mistake.Message) // its place is in text that nobody wrote
	}
	if err != nil {
		return nil, err
	}
	return p.Workload.LogOf()
}

// flow turns a=1,b=2 into what a YAML mapping has between its braces.
func flow(text string) (string, error) {
	var parts []string
	for part := range strings.SplitSeq(text, ",") {
		key, value, found := strings.Cut(part, "=")
		if !found || key == "" || value == "" || strings.ContainsAny(part, "{}[]:#&*!|>'\"%@` ") {
			return "", fmt.Errorf("%q: write NAME=VALUE, with commas between", part)
		}
		parts = append(parts, key+": "+value)
	}
	return strings.Join(parts, ", "), nil
}

// importing is the flags of trace import.
type importing struct {
	replay.Import
	badRows string
	spread  string
}

func traceImportCommand() *cobra.Command {
	var c importing
	cmd := &cobra.Command{
		Use:   "import --from FORMAT IN OUT",
		Short: "Make a log of a trace in another form",
		Long: `import reads a trace row by row (IN may be - for standard input, so a compressed one needs no room: zstd -dc TRACE | loadgen trace import … - OUT).

--from twitter   Twitter's cache traces, without a header: timestamp in seconds, key, key size, value size, client, operation, TTL. gets is a get; add, replace,
                 cas, append, prepend, incr and decr are sets. A get of size 0 missed. Requests of one second are spread evenly over it (--spread)
--from msr       block traces of MSR Cambridge, without a header: timestamp in 100 ns, host, disk, Read or Write, offset, size, response time. The key is
                 host.disk.offset: what is asked for is where it begins, ranges that overlap are different keys
--from columns   any CSV file with a header: --columns time=ts,key=id,size=bytes,operation=op (and class=…) names its columns, --unit the unit of its times

The first request is at time 0. Columns that are not named here (clients, TTLs, response times) are left out: a log says what is asked.`,
		Example: "  zstd -dc cluster26.sort.zst | loadgen trace import --from twitter --class size:10kB - cluster26.csv\n  loadgen trace import --from msr --slack 1s hm_0.csv hm_0.log.csv",
		Args:    cobra.ExactArgs(2),
		RunE:    func(cmd *cobra.Command, args []string) error { return failed(c.run(cmd, args[0], args[1])) },
	}
	f := cmd.Flags()
	f.StringVar(&c.Format, "from", "", "`format` of the trace: "+strings.Join(replay.Formats, ", "))
	f.StringVar(&c.Columns, "columns", "", "of --from columns: which columns have what")
	f.StringVar(&c.Unit, "unit", "", "of --from columns: the unit of its times, "+strings.Join(replay.Units, ", ")+" (default s)")
	f.StringVar(&c.Class, "class", "", "class of a request: operation, size:BYTES (small below, large from there on), or name:NAME (default operation, or the column)")
	f.DurationVar(&c.Slack, "slack", 0, "by how much a row may be earlier than the one above it; it then counts as of the same instant")
	f.StringVar(&c.spread, "spread", "", "spread rows with one timestamp evenly over so `long` (default 1s for twitter, else 0s)")
	f.StringVar(&c.badRows, "bad-rows", profiles.BadRowsRefuse, "what becomes of rows that are no requests: refuse, or count")
	return cmd
}

func (c *importing) run(cmd *cobra.Command, in, out string) error {
	c.Spread = -1
	if c.spread != "" {
		d, err := dist.ParseDuration(c.spread)
		if err != nil {
			return wrong(fmt.Errorf("--spread: %w", err))
		}
		c.Spread = d
	}
	if c.Slack < 0 {
		return wrong(fmt.Errorf("--slack %v: must not be negative", c.Slack))
	}
	skip, err := skips(c.badRows)
	if err != nil {
		return wrong(err)
	}
	c.Rules.Skip = skip
	r, name, err := openLog(cmd, in)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // it has only been read
	var done *replay.Imported
	err = replay.Create(out, func(w io.Writer) (err error) {
		done, err = c.Run(&interruptible{r, cmd}, name, w)
		return err
	})
	switch {
	case replay.IsUsage(err):
		return wrong(err)
	case err != nil:
		return err
	}
	text := bufio.NewWriter(cmd.OutOrStdout())
	fmt.Fprintf(text, "%d requests over %s, classes %s: %s\n", done.Rows, done.Span.Round(time.Millisecond), strings.Join(done.Classes, ", "), out)
	if done.Earlier > 0 {
		fmt.Fprintf(text, "%d were earlier than the row above them, and count as of its instant\n", done.Earlier)
	}
	passedOver(text, name, done.Bad, done.Passed)
	return text.Flush()
}

// skips reads --bad-rows.
func skips(text string) (bool, error) {
	switch text {
	case profiles.BadRowsRefuse:
		return false, nil
	case profiles.BadRowsCount:
		return true, nil
	}
	return false, fmt.Errorf("--bad-rows %s: it is refuse or count", text)
}

// openLog opens a file, or standard input for -.
func openLog(cmd *cobra.Command, path string) (io.ReadCloser, string, error) {
	if path == "-" {
		return io.NopCloser(cmd.InOrStdin()), "standard input", nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, "", err
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, "", errors.Join(fmt.Errorf("%s is a folder; name a file", path), f.Close())
	}
	return f, path, nil
}

// interruptible is a reader that ends with an error once the command is interrupted, also while it waits for what is not there yet: standard input
// may be a terminal.
type interruptible struct {
	io.Reader
	cmd *cobra.Command
}

// Read implements io.Reader.
func (r *interruptible) Read(b []byte) (int, error) {
	ctx := r.cmd.Context()
	if ctx.Err() != nil {
		return 0, errInterrupted
	}
	// What reads into b after an interruption does so unheeded: nobody looks at b any more, and the command ends.
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	go func() {
		n, err := r.Reader.Read(b)
		done <- result{n, err}
	}()
	select {
	case got := <-done:
		return got.n, got.err
	case <-ctx.Done():
		return 0, errInterrupted
	}
}

// passedOver tells which rows were no requests.
func passedOver(w io.Writer, file string, bad []replay.BadRow, passed int64) {
	if passed == 0 {
		return
	}
	fmt.Fprintf(w, "%d rows were passed over:\n", passed)
	for _, b := range bad {
		fmt.Fprintf(w, "  %s:%d: %s\n", file, b.Line, b.Reason)
	}
	if more := passed - int64(len(bad)); more > 0 {
		fmt.Fprintf(w, "  and %d more\n", more)
	}
}
