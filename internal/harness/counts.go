//go:build linux

package harness

import (
	"context"
	"fmt"
	"strconv"

	"spillway/internal/reqlog"
	"spillway/workloads"
)

// Counts are a server's own counts of the commands that it executed.
type Counts struct {
	Known    bool
	Executed [workloads.NumKinds]int64
	Why      string // they are not known
}

// counters names the statistics that add up to the executed commands of a kind.
var counters = [workloads.NumKinds][]string{
	workloads.Get:    {"cmd_get"},
	workloads.Set:    {"cmd_set"},
	workloads.Delete: {"delete_hits", "delete_misses"},
}

// serverCounts asks the server at url.
func serverCounts(ctx context.Context, url string) Counts {
	ctx, cancel := context.WithTimeout(ctx, statsDeadline)
	defer cancel()
	stats, err := serverStats(ctx, url, "")
	if err != nil {
		return Counts{Why: err.Error()}
	}
	c := Counts{Known: true}
	for kind, names := range counters {
		for _, name := range names {
			n, err := strconv.ParseInt(stats[name], 10, 64)
			if err != nil {
				return Counts{Why: fmt.Sprintf("its statistics have no count %s", name)}
			}
			c.Executed[kind] += n
		}
	}
	return c
}

// uncounted says why the counts of before or after a load are not known, once where both have the same reason.
func uncounted(before, after Counts) string {
	switch {
	case after.Why == "" || after.Why == before.Why:
		return before.Why
	case before.Why == "":
		return after.Why
	}
	return before.Why + "; " + after.Why
}

// compare holds the server's counts against ours and says where they differ. What was answered must have been executed; what failed
// or timed out may have been; what was shed must not.
func (t *Totals) compare(before, after Counts) (difference string) {
	merged := *t // servers count the keys of a read of several among all others
	for fate, n := range t[workloads.MultiGet] {
		merged[workloads.Get][fate] += n
	}
	merged[workloads.MultiGet] = [reqlog.NumFates]int64{}
	for kind := range merged {
		f := &merged[kind]
		least := f[reqlog.OK] + f[reqlog.Late]
		most := least + f[reqlog.TimedOut] + f[reqlog.Failed]
		executed := after.Executed[kind] - before.Executed[kind]
		if executed < least || executed > most {
			want := strconv.FormatInt(least, 10)
			if most > least {
				want += " to " + strconv.FormatInt(most, 10)
			}
			return fmt.Sprintf("the server executed %d commands of kind %s, ours say %s", executed, workloads.Kind(kind), want)
		}
	}
	return ""
}
