package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"spillway/internal/harness"
	"spillway/internal/reproduce"
	"spillway/profiles"
)

// size are the flags that choose a size of profiles.
type size struct{ quick, full bool }

func (s *size) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&s.quick, "quick", false, "set what the profile has under 'quick:': a few loads and short windows")
	f.BoolVar(&s.full, "full", false, "set what the profile has under 'full:': the published sweep, where it is known")
	cmd.MarkFlagsMutuallyExclusive("quick", "full")
}

// name returns the size as package profiles calls it.
func (s *size) name() string {
	switch {
	case s.quick:
		return profiles.SizeQuick
	case s.full:
		return profiles.SizeFull
	default:
		return ""
	}
}

func reproduceCommand() *cobra.Command {
	var t telling
	var s size
	var out string
	var seed uint64
	var jobs int
	cmd := &cobra.Command{
		Use:   "reproduce [PAPER]...",
		Short: "Run the profiles of papers and hold what came out against their claims",
		Long: `reproduce runs every shipped profile of the papers named (svalinn, bouncer, staging, allocation; all of them by default) that runs on the ground
sim, and writes REPRODUCTION.md, report.html and figures/: every claim with the paper's figure and ours, and whether it holds.

A run that was interrupted or killed goes on with the same command; points that are finished are not simulated again. Profiles that need real servers
are named in REPRODUCTION.md, with the command that runs them.

Exit codes: 0 every claim holds or is undecided; 1 failed or interrupted; 2 wrong usage; 3 points are not valid; 4 a claim does not hold.`,
		Example: "  loadgen reproduce staging --quick\n  loadgen reproduce --out results/all\n  loadgen reproduce svalinn bouncer --full --jobs 8",
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := reproduce.Shipped()
			if err != nil {
				return failed(err)
			}
			c := reproduce.Config{Profiles: list, Size: s.name(), Out: out, Jobs: jobs, Argv: os.Args, Version: moduleVersion(), Now: time.Now}
			if c.Papers, err = reproduce.Choose(args, reproduce.Papers(list)); err != nil {
				return wrong(err)
			}
			switch f := cmd.Flags(); {
			case f.Changed("seed"):
				c.Seed = &seed
			case f.Changed("jobs") && jobs < 1:
				return wrong(fmt.Errorf("--jobs %d: it is at least 1", jobs))
			}
			progress := t.open(cmd.ErrOrStderr())
			c.Watch = watcher{progress}
			r, err := reproduce.Run(cmd.Context(), c)
			progress.close()
			if r != nil {
				err = errors.Join(err, summary(cmd, r))
			}
			return progress.spoken(reproduced(r, err))
		},
	}
	f := cmd.Flags()
	f.StringVar(&out, "out", "", "results `folder` (default results/<UTC>-reproduce, or the last of these if the same reproduction was interrupted there)")
	f.Uint64Var(&seed, "seed", 0, "seed of all profiles, instead of their own")
	f.IntVar(&jobs, "jobs", 0, "points simulated at the same time (default one a core)")
	s.flags(cmd)
	t.flags(cmd)
	return cmd
}

// reproduced returns the error that has the exit code of how a reproduction ended.
func reproduced(r *reproduce.Result, err error) error {
	switch {
	case err != nil:
		return failed(err)
	case r.Interrupted:
		return &exit{exitFailed, fmt.Errorf("interrupted; what was simulated until then is in %s, and the same command goes on", r.Dir)}
	case r.Counts.DoesNotHold > 0:
		return &exit{code: exitWorse} // the table has said so
	case r.Invalid > 0:
		return &exit{code: exitInvalid}
	}
	return nil
}

// summary prints how many claims hold, by paper.
func summary(cmd *cobra.Command, r *reproduce.Result) error {
	err := columns(cmd.OutOrStdout(), func(row func(...string)) error {
		row("paper", "profiles", "claims", "hold", "do not hold", "undecided")
		line := func(name string, profiles int, c reproduce.Counts) {
			row(name, strconv.Itoa(profiles), strconv.Itoa(c.All()), strconv.Itoa(c.Holds), strconv.Itoa(c.DoesNotHold), strconv.Itoa(c.Undecided))
		}
		all := 0
		for _, p := range r.Papers {
			line(p.Paper, p.Profiles, p.Counts)
			all += p.Profiles
		}
		if len(r.Papers) > 1 {
			line("all", all, r.Counts)
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "report: %s\n", filepath.Join(r.Dir, "REPRODUCTION.md"))
	return err
}

// watcher passes on to progress where a reproduction stands.
type watcher struct{ *progress }

// Begins implements reproduce.Watcher.
func (w watcher) Begins(profile, dir string, number, of, points int, arrivals float64) {
	w.started(profile, dir)
	what := "requests are a fluid"
	if arrivals > 0 {
		what = reproduce.Count(arrivals) + " arrivals"
	}
	w.of(profile)(harness.Event{Kind: harness.Noted, Note: fmt.Sprintf("profile %d of %d, %d points, %s", number, of, points, what)})
}

// Event implements reproduce.Watcher.
func (w watcher) Event(profile string, e harness.Event) { w.of(profile)(e) }

// Ends implements reproduce.Watcher.
func (w watcher) Ends(profile string, out harness.Outcome, err error) { w.ended(profile, &out, err) }

// Note implements reproduce.Watcher.
func (w watcher) Note(text string) {
	w.take("", "", harness.Event{Kind: harness.Noted, Note: text})
}
