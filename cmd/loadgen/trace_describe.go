package main

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"spillway/internal/dist"
	"spillway/internal/replay"
	"spillway/profiles"
	"spillway/workloads"
)

func traceDescribeCommand() *cobra.Command {
	badRows := ""
	cmd := &cobra.Command{
		Use:   "describe FILE",
		Short: "Say what is in a log, and how a profile replays it",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			skip, err := skips(badRows)
			if err != nil {
				return wrong(err)
			}
			r, name, err := openLog(cmd, args[0])
			if err != nil {
				return failed(err)
			}
			defer func() { _ = r.Close() }() // it has only been read
			s, err := replay.Describe(&interruptible{r, cmd}, name, replay.Rules{Skip: skip})
			if err != nil {
				return failed(err)
			}
			out := bufio.NewWriter(cmd.OutOrStdout())
			if err := describeLog(out, s, args[0]); err != nil {
				return failed(err)
			}
			passedOver(out, name, s.Bad, s.Passed)
			return failed(out.Flush())
		},
	}
	cmd.Flags().StringVar(&badRows, "bad-rows", profiles.BadRowsRefuse, "what becomes of rows that are no requests: refuse, or count")
	return cmd
}

// dayParts is how many parts of its length the rate of a log is shown in.
const dayParts = 48

func describeLog(w io.Writer, s *replay.Summary, file string) error {
	if s.Requests == 0 {
		_, err := fmt.Fprintln(w, "no requests")
		return err
	}
	fmt.Fprintf(w, "%d requests over %s", s.Requests, s.Span.Round(time.Microsecond))
	if s.Span > 0 {
		rates := s.Rates(dayParts)
		mean := float64(s.Requests) / s.Span.Seconds()
		fmt.Fprintf(w, ", %s a second on the mean\n", threeDigits(mean))
		fmt.Fprintf(w, "rate     %s  %s to %s a second in parts of %s\n", bars(rates), threeDigits(slices.Min(rates)), threeDigits(slices.Max(rates)),
			(s.Span / dayParts).Round(time.Millisecond))
	} else {
		fmt.Fprintln(w)
	}
	if s.Keys >= 0 {
		fmt.Fprintf(w, "keys     %d; %d are read before they are written and are stored first, %s\n", s.Keys, s.Stored, bytesText(s.StoredBytes))
	} else {
		fmt.Fprintln(w, "keys     too many to follow; a part of the log can be replayed (from, for)")
	}
	fmt.Fprintln(w)
	err := columns(w, func(row func(...string)) error {
		row("class", "share", "operations", "no value", "size p50", "p99", "largest")
		for _, c := range s.Classes {
			row(c.Name, fmt.Sprintf("%.2f %%", 100*float64(c.Requests)/float64(s.Requests)), kinds(c), strconv.FormatInt(c.NoValue, 10),
				bytesText(c.Size(0.5)), bytesText(c.Size(0.99)), bytesText(c.Largest))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if s.Span == 0 {
		_, err = fmt.Fprintln(w, "\nall are due at one instant: a log that can be replayed has two at least")
		return err
	}
	var names []string
	for _, c := range s.Classes {
		names = append(names, fmt.Sprintf("{name: %s, slo: 1ms}", c.Name))
	}
	_, err = fmt.Fprintf(w, "\nin a profile:\n  workload:\n    kind: replay\n    replay: {file: %s}\n    classes: [%s]\n  load: {speeds: [1]}\n", file, strings.Join(names, ", "))
	return err
}

func kinds(c *replay.ClassSummary) string {
	var parts []string
	for k := range workloads.NumKinds {
		if n := c.Kinds[k]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", k, n))
		}
	}
	return strings.Join(parts, ", ")
}

// bars draws numbers as a line of bars.
func bars(list []float64) string {
	levels := []rune("▁▂▃▄▅▆▇█")
	most := slices.Max(list)
	var b strings.Builder
	for _, v := range list {
		b.WriteRune(levels[min(int(v/most*float64(len(levels))), len(levels)-1)])
	}
	return b.String()
}

// threeDigits writes a rate with three digits, or all before the point.
func threeDigits(v float64) string {
	if v >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// bytesText writes bytes with three digits.
func bytesText(n int64) string {
	for _, u := range []struct {
		name string
		size float64
	}{{"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}} {
		if float64(n) >= u.size {
			return threeDigits(float64(n)/u.size) + " " + u.name
		}
	}
	return dist.FormatSize(n)
}
