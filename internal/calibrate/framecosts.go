//go:build linux

package calibrate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"spillway/internal/frames"
	"spillway/profiles"
)

// kindFrame is the kind of server whose operations go over rows. They are measured by rows, and what they cost is in proportion to steps (docs/adr/0023).
const kindFrame = "dataframe"

const frameHead = "What an operation on a data frame costs, with its usual parameters and results in summary. compute is a request beside its operation; compute_per_kstep the time of\n" +
	"1000 of its steps over a frame that a cache holds. moved_per_row follows from what the operation reads and writes; it is not counted. cached_below follows\n" +
	"from this computer's last-level cache: two thirds of it for columns, which all requests share, or as much as each core has of it for results."

// Rows of the frames that operations are measured over.
const (
	leastRows = 16 // what is left is the request beside its operation
	// usualRows of all six columns are 2.9 MB, which a last-level cache holds. They are not fewer: a processor learns the branches of a short frame by
	// heart, and the fits of a decomposition are as long as the frame is.
	usualRows = 60_000
	mostRows  = 10_000_000
	coldSteps = 100_000_000 // of an operation at most over a frame that no cache holds: it would take too long
)

// leastOf returns the fewest rows that an operation is asked for over, with its usual parameters.
func leastOf(k frames.Kind) int {
	n, q := leastRows, frames.Standard(k)
	for q.Check(n) != nil { // a decomposition needs two periods
		n++
	}
	return n
}

// coldRows returns for how many rows a single column is more than the last-level cache holds twice over.
func (c *CostConfig) coldRows() int { return int(min(2*c.llc()/8, mostRows)) }

// measureFrames measures every operation over each of its frames: a server for each frame, on which one operation is asked for at a time.
func (c *CostConfig) measureFrames(ctx context.Context, t *CostTable, watch *watchman) error {
	asked, cold := map[int][]frames.Kind{}, c.coldRows() // by rows
	for k := range frames.NumKinds {
		asked[leastOf(k)] = append(asked[leastOf(k)], k)
		asked[usualRows] = append(asked[usualRows], k)
		if q := frames.Standard(k); q.Steps(cold) <= coldSteps && !c.Quick {
			asked[cold] = append(asked[cold], k)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(asked)) {
		if err := c.measureFrame(ctx, t, n, n == cold, asked[n]); err != nil {
			return err
		}
		watch.look()
	}
	t.Table = FitFrames(t.Points, c.llc(), c.cores())
	return nil
}

func (c *CostConfig) measureFrame(ctx context.Context, t *CostTable, rows int, cold bool, kinds []frames.Kind) error {
	addr, stop, err := c.Start(ctx, []string{kindFrame, "--listen", "127.0.0.1:0", "--rows", strconv.Itoa(rows), "--frame-seed", "1", "--parallelism", "1"})
	if err != nil {
		return err
	}
	defer stop()
	client, err := dialCosts(ctx, addr)
	if err != nil {
		return err
	}
	defer client.close()
	for i, k := range kinds {
		c.Progress(fmt.Sprintf("%s %s, %d rows", kindFrame, k, rows))
		key := frameKey(k)
		op := costOp{name: k.String(), request: func(dst []byte, _ int, _ []byte) []byte { return append(dst, "mg "+key+" v\r\n"...) }}
		if i == 0 { // a server's first requests are dearer than all others
			if _, err := c.repeat(ctx, client, &op, 1, nil); err != nil {
				return fmt.Errorf("%s over %d rows: %w", key, rows, err)
			}
		}
		p, err := c.repeat(ctx, client, &op, 1, nil)
		if err != nil {
			return fmt.Errorf("%s over %d rows: %w", key, rows, err)
		}
		p.Rows, p.Cold = rows, cold
		t.Points = append(t.Points, p)
	}
	return nil
}

// frameKey spells an operation with its usual parameters.
func frameKey(k frames.Kind) string {
	if k == frames.Quantile {
		return "quantile/0.5"
	}
	return k.String()
}

// FitFrames turns points into a cost table, for a computer whose last-level cache has llc bytes and is shared by so many cores. Operations that lack a point
// are left out.
func FitFrames(points []CostPoint, llc int64, cores int) *profiles.Costs {
	t := &profiles.Costs{Operations: map[string]profiles.OperationCost{}, Provenance: map[string]string{}}
	for k := range frames.NumKinds {
		name, q, n := k.String(), frames.Standard(k), leastOf(k)
		least, ok := pointOver(points, name, n)
		usual, ok2 := pointOver(points, name, usualRows)
		if !ok || !ok2 {
			continue
		}
		perStep := max(float64(usual.Best-least.Best)/float64(q.Steps(usualRows)-q.Steps(n)), 0)
		fixed := max(float64(least.Best)-perStep*float64(q.Steps(n)), 0)
		o := profiles.OperationCost{
			Compute:         rounding(time.Duration(fixed)),
			ComputePerKStep: rounding(time.Duration(1000 * perStep)),
			MovedPerRow:     float64(q.Moved(usualRows)) / usualRows,
			CachedBelow:     frameCached(&q, llc, cores),
		}
		for figure, from := range map[string]string{
			"compute": profiles.Measured, "compute_per_kstep": profiles.Measured, "moved_per_row": "derived", "cached_below": "derived",
		} {
			t.Provenance[name+"."+figure] = from
		}
		for _, p := range points {
			// What a frame that no cache holds takes longer is taken for the time that its bytes need.
			computed := fixed + perStep*float64(q.Steps(p.Rows))
			if extra := float64(p.Best) - computed; p.Operation == name && p.Cold && extra > sureShare*computed {
				o.At = profiles.Size(rounded(float64(q.Moved(p.Rows)) / extra * 1e9))
				t.Provenance[name+".at"] = profiles.Measured
			}
		}
		t.Operations[name] = o
	}
	return t
}

func pointOver(points []CostPoint, name string, rows int) (CostPoint, bool) {
	i := slices.IndexFunc(points, func(p CostPoint) bool { return p.Operation == name && p.Rows == rows && !p.Cold })
	if i < 0 {
		return CostPoint{}, false
	}
	return points[i], true
}

// frameCached returns below how many bytes an operation finds its columns, and room for its results, in the last-level cache: columns are shared by all
// requests, results are each request's own and there is one for every core.
func frameCached(q *frames.Query, llc int64, cores int) profiles.Size {
	const rows = 1
	both, columns := q.Bytes(rows), q.Columns()*8*rows
	if both == columns {
		return profiles.Size(rounded(float64(llc) * 2 / 3))
	}
	own := float64(llc) / float64(max(cores, 1))
	return profiles.Size(rounded(own * float64(both) / float64(both-columns)))
}

// frameText writes the points for people.
func frameText(b *strings.Builder, points []CostPoint) {
	b.WriteString("\noperation       rows  cached      best    median  spread  requests\n")
	for _, p := range points {
		cached := "yes"
		if p.Cold {
			cached = "no"
		}
		fmt.Fprintf(b, "%-9s %10d  %-6s %9s %9s  %4.0f%%  %8d\n", p.Operation, p.Rows, cached, short(p.Best), short(p.Median), 100*p.Spread, p.Requests)
	}
}
