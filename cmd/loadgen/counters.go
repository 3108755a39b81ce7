package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"spillway/counters"
)

func countersCommand() *cobra.Command {
	var watch, span time.Duration
	var asJSON bool
	var provider string
	cmd := &cobra.Command{
		Use:   "counters",
		Short: "Say what this machine can tell of its memory traffic and pressure",
		Long: `counters tries every source of memory bandwidth that Spillway knows, in order of belief: it opens it and looks whether its count moves while a
stream of our own reads memory. The table says which can be used, what each measures and how often it may be read, and of the others why not and
what would help. The first that can be used is what runs use.

With --watch it prints what they show, a line a period, until Ctrl-C or for as long as --for says.`,
		Example: "  loadgen counters\n  loadgen counters --watch 1s\n  loadgen counters --provider intel-imc --watch 100ms --for 10s --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch flags := cmd.Flags(); {
			case flags.Changed("watch") && (watch < counters.MinPeriod || watch > time.Hour):
				return wrong(fmt.Errorf("--watch %v: is at least %v and at most an hour", watch, counters.MinPeriod))
			case flags.Changed("for") && (!flags.Changed("watch") || span <= 0):
				return wrong(fmt.Errorf("--for %v: goes with --watch, and is longer than 0", span))
			case flags.Changed("watch"):
				return failed(watchCounters(cmd, watch, span, provider, asJSON))
			}
			m := counters.Here()
			llc, _ := m.Root.LLC()
			t, err := counters.Survey(cmd.Context(), m, counters.Config{Force: provider, Account: counters.NewAccount(llc.Bytes)})
			if err != nil {
				return failed(err)
			}
			if asJSON {
				text, err := t.JSON()
				if err == nil {
					_, err = cmd.OutOrStdout().Write(text)
				}
				return failed(err)
			}
			return failed(showCounters(cmd.OutOrStdout(), t))
		},
	}
	cmd.Flags().DurationVar(&watch, "watch", 0, "print a line of values every `period`")
	cmd.Flags().DurationVar(&span, "for", 0, "with --watch: stop after this `time`")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with --watch one object a line")
	cmd.Flags().StringVar(&provider, "provider", "", "use this `source` or fail: "+strings.Join(counters.Names(), ", "))
	cmd.AddCommand(countersSelftestCommand())
	return cmd
}

// showCounters prints a table for people: what can be used, then what cannot and why.
func showCounters(w io.Writer, t *counters.Table) error {
	where := ""
	if t.Hypervisor {
		where = ", a virtual machine"
	}
	fmt.Fprintf(w, "%s, kernel %s%s\n\n", t.Processor, t.Kernel, where)
	err := columns(w, func(row func(...string)) error {
		row("source", "usable", "kind", "sees", "resolution", "counted/read", "measures")
		for _, p := range t.Providers {
			if !p.Usable {
				row(p.Name, "no", "", "", "", "", p.Measures)
				continue
			}
			ratio := ""
			if p.Ratio != nil {
				ratio = fmt.Sprintf("%.2f", *p.Ratio)
			}
			row(p.Name, "yes", string(p.Kind), string(p.Scope), p.Resolution, ratio, p.Measures)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if t.Chosen != "" {
		fmt.Fprintf(w, "\nruns on this machine use %s\n", t.Chosen)
	}
	fmt.Fprintln(w, "\nremarks:")
	for _, p := range t.Providers {
		remarks := p.Notes
		if !p.Usable {
			remarks = []string{p.Reason}
			if p.Remedy != "" {
				remarks = []string{p.Reason + "; " + p.Remedy}
			}
		}
		for _, r := range remarks {
			fmt.Fprintf(w, "  %s: %s\n", p.Name, r)
		}
	}
	fmt.Fprintln(w, "\npressure:")
	return columns(w, func(row func(...string)) error {
		for _, g := range t.Gauges {
			if g.Usable {
				row("  "+g.Name, "yes", g.Unit, g.Resolution)
			} else {
				row("  "+g.Name, "no", g.Reason)
			}
		}
		return nil
	})
}

// watchCounters prints what sources and gauges show.
func watchCounters(cmd *cobra.Command, period, span time.Duration, provider string, asJSON bool) error {
	ctx, w := cmd.Context(), cmd.OutOrStdout()
	m := counters.Here()
	in, err := counters.Instrument(ctx, m, counters.Config{Force: provider})
	if err != nil {
		return err
	}
	defer in.Close()
	if span > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, span)
		defer cancel()
	}
	began := m.Clock.Now()
	var names []counters.Column
	cost, err := counters.Watch(ctx, m, in, period, func(list []counters.Column) {
		names = list
		if !asJSON {
			fmt.Fprintf(w, "source: %s\n%10s", in.Detection.Chosen, "s")
			for _, c := range names {
				fmt.Fprintf(w, " %*s", cellWidth(c), c.Name)
			}
			fmt.Fprintln(w)
		}
	}, func(row counters.Row) error {
		at := row.At.Sub(began).Seconds()
		if asJSON {
			return writeRow(w, at, in.Detection.Chosen, names, row)
		}
		fmt.Fprintf(w, "%10.3f", at)
		for i, c := range names {
			fmt.Fprintf(w, " %*s", cellWidth(c), cell(c, row.Values[i]))
		}
		_, err := fmt.Fprintln(w)
		return err
	})
	if err == nil && !asJSON {
		_, err = fmt.Fprintf(w, "sampling took %v a sample, %.2f %% of a core\n", cost.PerSample(), 100*cost.Share())
	}
	return err
}

func cellWidth(c counters.Column) int { return max(len(c.Name), 9) }

// cell prints a value in the unit of its column, and nothing for one that is not known.
func cell(c counters.Column, v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case c.Unit == "bytes_per_s":
		return fmt.Sprintf("%.2fGB/s", v/1e9)
	case c.Unit == "ratio":
		return fmt.Sprintf("%.1f%%", 100*v)
	default:
		return fmt.Sprintf("%.4g", v)
	}
}

// writeRow prints a row as one JSON object, without what is not known.
func writeRow(w io.Writer, at float64, source string, names []counters.Column, row counters.Row) error {
	object := map[string]any{"time_s": at, "membw_source": source}
	for i, c := range names {
		if v := row.Values[i]; !math.IsNaN(v) {
			object[c.Name] = v
			if f := row.Flags[i]; f != 0 {
				object[c.Name+"_flags"] = f.String()
			}
		}
	}
	return json.NewEncoder(w).Encode(object)
}

func countersSelftestCommand() *cobra.Command {
	var out string
	var span time.Duration
	cmd := &cobra.Command{
		Use:   "selftest",
		Short: "Write down how this machine's counters look, to be sent in",
		Long: `selftest copies the files below /sys and /proc that describe this machine's counters, without names, serial numbers and identities of
containers, tries every source, and writes what they saw of a stream at 25, 50, 75 and 100 % duty. With that, this machine can stand in for itself in
our tests. Look at the folder before you send it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if span < time.Second || span > 10*time.Minute {
				return wrong(fmt.Errorf("--duration %v: is at least a second and at most ten minutes", span))
			}
			if entries, err := os.ReadDir(out); err == nil && len(entries) > 0 {
				return wrong(fmt.Errorf("--out %s: is not empty; name another folder", out))
			}
			t, err := counters.RunSelfTest(cmd.Context(), counters.Here(), out, span, func(what string) {
				fmt.Fprintln(cmd.ErrOrStderr(), what)
			})
			if err != nil {
				return failed(err)
			}
			return failed(showSelfTest(cmd.OutOrStdout(), out, t))
		},
	}
	cmd.Flags().StringVarP(&out, "out", "o", "counters-selftest", "`folder` to write to; must be empty or not exist")
	cmd.Flags().DurationVar(&span, "duration", 4*time.Second, "how long to stream, all duties together")
	return cmd
}

func showSelfTest(w io.Writer, out string, t *counters.SelfTest) error {
	err := columns(w, func(row func(...string)) error {
		row("duty", "read", t.Table.Chosen, "self-probe")
		bytes, share := counters.Column{Unit: "bytes_per_s"}, counters.Column{Unit: "ratio"}
		for _, s := range t.Steps {
			row(cell(share, s.Duty), cell(bytes, s.Read), cell(bytes, s.Seen), cell(share, s.Pressure))
		}
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "sampling took %v a sample, %.2f %% of a core, %v at the longest\n", t.Cost.PerSample(), 100*t.Cost.Share(), t.Cost.Longest)
	_, err = fmt.Fprintf(w, "%d files describe this machine: %s\n", t.Files, out)
	return err
}
