package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"spillway/profiles"
	"spillway/report"
	"spillway/report/compare"
)

// comparison is the flags of compare, which run has too.
type comparison struct {
	metrics   []string
	threshold string
	format    string
	out       string
	anyway    bool
}

func (c *comparison) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&c.metrics, "metric", nil, "compare this `metric`: a column of points.csv or a metric of claims that has a direction; repeatable (default goodput_rps and latency_p99_us)")
	f.StringVar(&c.threshold, "threshold", "2%", "least change that counts, as a share of the base; for metrics that are shares, in points")
}

func compareCommand() *cobra.Command {
	var c comparison
	cmd := &cobra.Command{
		Use:   "compare BASE CANDIDATE",
		Short: "Say what got better or worse between two results",
		Long: `compare holds the results of CANDIDATE against those of BASE: every class of every point, repeat by repeat. Each is a result directory, or a folder of
result directories. A difference counts when it is not chance, all comparisons taken together (p ≤ 0.025 after Holm's correction), and at least --threshold.
On sim, repeats of the same seed are paired. Fewer than six repeats a side decide nothing, unless they are equal.

Results of different grounds, machines, workloads, loads or schemas are not compared; --anyway compares them and warns. Settings of controllers and of the
server may differ, and are shown.

Exit codes: 0 nothing became worse; 1 failed; 2 wrong usage; 3 not comparable, or points of the base are missing, not valid or of too few repeats; 4 something became worse.`,
		Example: "  loadgen run model-check --repeats 6 --out before\n  loadgen run model-check --repeats 6 --set controllers.2.settings.target=400us --out after\n" +
			"  loadgen compare before after\n  loadgen compare before after --metric shed_ratio --threshold 1% --format markdown",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			write, o, err := c.options()
			if err != nil {
				return wrong(err)
			}
			base, err := readResults(args[0])
			if err != nil {
				return failed(err)
			}
			candidate, err := readResults(args[1])
			if err != nil {
				return failed(err)
			}
			return c.compare(cmd.OutOrStdout(), base, candidate, o, write)
		},
	}
	c.flags(cmd)
	cmd.Flags().StringVar(&c.format, "format", "terminal", "terminal, markdown, json or junit")
	cmd.Flags().StringVarP(&c.out, "output", "o", "", "write to this `file` instead of standard output")
	cmd.Flags().BoolVar(&c.anyway, "anyway", false, "compare results of different circumstances, or of which the candidate misses some, and warn")
	return cmd
}

// options checks the flags.
func (c *comparison) options() (write func(*compare.Result, io.Writer) error, o compare.Options, err error) {
	o = compare.Options{Metrics: c.metrics, Anyway: c.anyway}
	for _, m := range c.metrics {
		if report.Direction(m) != 0 {
			continue
		}
		if slices.Contains(report.Metrics(), m) {
			return nil, o, fmt.Errorf("--metric %s: neither more nor less of it is better, so it has no better or worse", m)
		}
		if near := profiles.Nearest(m, report.Directed()); near != "" {
			return nil, o, fmt.Errorf("--metric %q: there is none; did you mean %s?", m, near)
		}
		return nil, o, fmt.Errorf("--metric %q: there is none; there are %s", m, strings.Join(report.Directed(), ", "))
	}
	if o.Threshold, err = parseShare(c.threshold); err != nil {
		return nil, o, fmt.Errorf("--threshold %w", err)
	}
	switch c.format {
	case "", "terminal":
		write = (*compare.Result).Terminal
	case "markdown":
		write = (*compare.Result).Markdown
	case "json":
		write = (*compare.Result).JSON
	case "junit":
		write = (*compare.Result).JUnit
	default:
		return nil, o, fmt.Errorf("--format %q: it is terminal, markdown, json or junit", c.format)
	}
	return write, o, nil
}

// compare prints a comparison and returns an error that has the exit code.
func (c *comparison) compare(w io.Writer, base, candidate []*report.Run, o compare.Options, write func(*compare.Result, io.Writer) error) error {
	result, err := compare.Runs(base, candidate, o)
	var not *compare.NotComparable
	if errors.As(err, &not) {
		return &exit{exitInvalid, fmt.Errorf("%w\n--anyway compares them all the same", err)}
	}
	if err != nil {
		return failed(err)
	}
	if c.out == "" {
		err = write(result, w)
	} else {
		err = writeTo(c.out, func(w io.Writer) error { return write(result, w) })
	}
	switch {
	case err != nil:
		return failed(err)
	case result.Regressed():
		return &exit{code: exitWorse}
	case !result.Comparable():
		return &exit{code: exitInvalid}
	}
	return nil
}

// readResults reads a result directory, or those in a folder of them, in the order of their names.
func readResults(dir string) (runs []*report.Run, err error) {
	run, single := report.ReadDir(dir)
	if single == nil {
		return []*report.Run{run}, nil
	}
	within, err := os.ReadDir(dir)
	if isResult(dir) || err != nil {
		return nil, single // it is one, and cannot be read
	}
	for _, entry := range within {
		if sub := filepath.Join(dir, entry.Name()); isResult(sub) {
			run, err := report.ReadDir(sub)
			if err != nil {
				return nil, err
			}
			runs = append(runs, run)
		}
	}
	if len(runs) == 0 {
		return nil, single
	}
	return runs, nil
}

func isResult(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "manifest.json"))
	return err == nil
}

// parseShare reads a share: 2% or 0.02.
func parseShare(text string) (float64, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v < 1) {
		return 0, fmt.Errorf("%q: it is a share below 1, such as 2%% or 0.02", text)
	}
	return v, nil
}
