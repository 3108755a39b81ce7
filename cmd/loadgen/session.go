package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"spillway/internal/harness"
	"spillway/profiles"
	"spillway/report"
)

// session is what run and drive have in common: flags, progress, results, the table at the end.
type session struct {
	telling

	out, pace string
	noPreload bool
	adHoc     bool // there is no profile
	record    bool
	resume    string // a folder to go on in, instead of out
	jobs      int    // 0 for the default of the ground
	timeScale int    // likewise

	tracePeriod time.Duration // 0 for the default
	provider    string
}

func (s *session) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.out, "out", "", "results `folder`; must be empty or not exist (default results/<UTC>-<name>)")
	f.StringVar(&s.pace, "pace", "auto", "how the sender waits: auto (sleep, with a real-time priority where permitted and four cores or more), sleep, spin (a whole core)")
	f.BoolVar(&s.record, "record", false, "write requests.bin, 72 bytes for every request; 'loadgen report --format requests' reads it")
	f.DurationVar(&s.tracePeriod, "trace-period", 0, "sample memory traffic and pressure so often on host, 1ms or more (default 10ms)")
	f.StringVar(&s.provider, "provider", "", "take memory traffic on host from this `source` or fail; 'loadgen counters' lists them")
	s.telling.flags(cmd)
}

// measure carries out p, prints the comparison and returns an error that has the exit code.
func (s *session) measure(cmd *cobra.Command, p *profiles.Profile) error {
	if err := s.checkPace(); err != nil {
		return err
	}
	out := cmp.Or(s.resume, s.out)
	if out == "" {
		out = harness.DefaultOut(p.Name, time.Now())
	}
	progress := s.open(cmd.ErrOrStderr())
	progress.started(p.Name, out)
	outcome, err := harness.Run(cmd.Context(), s.config(p, out, progress.only(p.Name)))
	progress.close()
	progress.ended(p.Name, &outcome, err)
	if outcome.Points > 0 {
		if terr := s.show(cmd, outcome.Dir); terr != nil && err == nil {
			err = terr
		}
	}
	return progress.spoken(verdict(outcome, err, cmd.Name() == "run" && !s.record))
}

// config returns what the harness is told of a run.
func (s *session) config(p *profiles.Profile, out string, observe func(harness.Event)) harness.Config {
	return harness.Config{
		Profile: p, Out: out, Pace: s.pace, NoPreload: s.noPreload, AdHoc: s.adHoc, Record: s.record, Jobs: s.jobs, TimeScale: s.timeScale,
		Measuring: measuring{}, TracePeriod: s.tracePeriod, Counter: s.provider, Resume: s.resume != "",
		Argv: os.Args, Version: moduleVersion(), Observe: observe,
	}
}

// checkPace checks the flag that run and drive have in common.
func (s *session) checkPace() error {
	if s.pace != "auto" && s.pace != "sleep" && s.pace != "spin" {
		return wrong(fmt.Errorf("--pace %q: it is auto, sleep or spin", s.pace))
	}
	return nil
}

// goOn says how an interrupted run goes on.
func goOn(o harness.Outcome, resumable bool) string {
	if !resumable {
		return ""
	}
	return "; it goes on with: loadgen run --resume " + o.Dir
}

// verdict returns the error that has the exit code of how a run ended.
func verdict(o harness.Outcome, err error, resumable bool) error {
	switch {
	case err != nil:
		return failed(err)
	case o.CutShort && o.Points == 0:
		return &exit{exitFailed, errors.New("interrupted before a point was measured" + goOn(o, resumable))}
	case o.CutShort:
		return &exit{exitFailed, fmt.Errorf("interrupted; what was measured until then is in %s%s", o.Dir, goOn(o, resumable))}
	case o.Invalid > 0:
		return &exit{code: exitInvalid} // the table has said why
	}
	return nil
}

// show prints the comparison as the files have it, and where they are.
func (s *session) show(cmd *cobra.Command, dir string) error {
	run, err := report.ReadDir(dir)
	if err != nil {
		return err
	}
	if err := report.Terminal(cmd.OutOrStdout(), run); err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "report: %s, %s\n", filepath.Join(dir, report.ReportFile), filepath.Join(dir, report.PageFile))
	return err
}
