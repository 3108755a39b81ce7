package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"spillway/internal/calibrate"
	"spillway/internal/harness"
	"spillway/profiles"
)

// calibration is the flags of calibrate.
type calibration struct {
	out         string
	quick, json bool
	quiet       bool
	streams     []int
	costs       string
}

func calibrateCommand() *cobra.Command {
	var c calibration
	cmd := &cobra.Command{
		Use:   "calibrate",
		Short: "Measure what this machine can do, and write it down as a machine to simulate",
		Long: `calibrate measures this machine: the bandwidth of its memory with one stream and with more, the latency of loads meanwhile, computing,
hand-overs of locks, round trips, pacing. It prints a machine file, or writes it to -o FILE, which 'loadgen run --machine FILE' takes.

It takes half a minute or less, wants the machine for itself, and says so when it did not have it. Where the cores are too few to saturate the memory, it says
that too: what a simulation says of saturation is then not about this machine.

With --costs KIND it measures instead what requests of a reference server cost, and prints a cost table, which server.settings.costs takes.`,
		Example: "  loadgen calibrate -o here.yaml\n  loadgen run model-check --on sim --machine here.yaml\n  loadgen calibrate --costs memcached -o memcached-here.yaml",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return failed(c.run(cmd)) },
	}
	f := cmd.Flags()
	f.StringVarP(&c.out, "output", "o", "", "`file` to write; its name ends in .yaml (default: standard output)")
	f.BoolVar(&c.quick, "quick", false, "a few seconds, with less certainty")
	f.BoolVar(&c.json, "json", false, "print all that was measured as JSON")
	f.BoolVar(&c.quiet, "quiet", false, "no progress on standard error")
	f.IntSliceVar(&c.streams, "streams", nil, "numbers of memory streams to try (default 1, 2, 4 and so on up to the number of processors)")
	f.StringVar(&c.costs, "costs", "", "measure what requests cost of a `kind` of server: "+strings.Join(calibrate.CostKinds(), ", "))
	return cmd
}

func (c *calibration) run(cmd *cobra.Command) error {
	if c.out != "" {
		if !strings.HasSuffix(c.out, ".yaml") && !strings.HasSuffix(c.out, ".yml") {
			return wrong(fmt.Errorf("-o %s: the name of a machine file or cost table ends in .yaml; without it, it would be looked for among the shipped ones", c.out))
		}
		if err := calibrate.Writable(c.out); err != nil {
			return wrong(fmt.Errorf("-o: %w", err))
		}
	}
	progress := func(what string) {
		if !c.quiet {
			fmt.Fprintln(cmd.ErrOrStderr(), what)
		}
	}
	if c.costs != "" {
		if len(c.streams) > 0 {
			return wrong(fmt.Errorf("--streams says nothing to --costs"))
		}
		t, err := calibrate.Costs(cmd.Context(), calibrate.CostConfig{Kind: c.costs, Quick: c.quick, Progress: progress, Start: startOnOneCore})
		if errors.Is(err, calibrate.ErrKind) {
			err = wrong(fmt.Errorf("--costs: %w", err))
		}
		return c.finish(cmd, t, t != nil, err)
	}
	r, err := calibrate.Run(cmd.Context(), calibrate.Config{Quick: c.quick, Streams: c.streams, Progress: progress})
	if errors.Is(err, calibrate.ErrStreams) {
		err = wrong(fmt.Errorf("--streams: %w", err))
	}
	return c.finish(cmd, r, r != nil && r.Knee != nil, err)
}

func startOnOneCore(ctx context.Context, args []string) (addr string, stop func(), err error) {
	return harness.StartServer(ctx, args, 1)
}

// measuring measures this computer for a run that validates a model of it.
type measuring struct{}

// Machine implements harness.Measuring.
func (measuring) Machine(ctx context.Context, observe func(string)) (*profiles.Machine, []string, error) {
	r, err := calibrate.Run(ctx, calibrate.Config{Progress: observe})
	if err != nil {
		return nil, nil, err
	}
	m, err := r.Machine()
	return m, r.Noise.Findings, err
}

// Overhead implements harness.Measuring.
func (measuring) Overhead(ctx context.Context, observe func(string)) (time.Duration, error) {
	t, err := calibrate.Costs(ctx, calibrate.CostConfig{Kind: "synthetic", Progress: observe, Start: startOnOneCore})
	if err != nil {
		return 0, err
	}
	return t.Table.Operations["get"].Compute, nil
}

// outcome is the result of either measurement.
type outcome interface {
	Text() string
	File() ([]byte, error)
}

// finish writes what was measured, of an interrupted measurement too if there is enough of it.
func (c *calibration) finish(cmd *cobra.Command, m outcome, enough bool, err error) error {
	if !enough {
		if cmd.Context().Err() != nil {
			return fmt.Errorf("interrupted; nothing was written")
		}
		return err
	}
	text, ferr := m.File()
	if ferr != nil {
		return ferr
	}
	out := cmd.OutOrStdout()
	if c.out != "" {
		if werr := calibrate.WriteWhole(c.out, func(w io.Writer) error { _, err := w.Write(text); return err }); werr != nil {
			return fmt.Errorf("-o %s: %w", c.out, werr)
		}
	}
	switch {
	case c.json:
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		if jerr := e.Encode(m); jerr != nil {
			return jerr
		}
	case c.out == "":
		if _, werr := out.Write(text); werr != nil {
			return werr
		}
	default:
		if _, werr := fmt.Fprintf(out, "%s\nwritten: %s\n", strings.TrimSuffix(m.Text(), "\n"), c.out); werr != nil {
			return werr
		}
	}
	if cmd.Context().Err() == nil {
		return err
	}
	where := "printed"
	if c.out != "" {
		where = "in " + c.out
	}
	return fmt.Errorf("interrupted; what was measured until then is %s, and says so", where)
}
