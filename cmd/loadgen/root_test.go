package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"spillway/internal/harness"
)

// TestExitCodePrecedence holds how a run can end against the order of the exit codes: wrong usage, failed, not valid, done.
func TestExitCodePrecedence(t *testing.T) {
	t.Parallel()
	bad := harness.Outcome{Points: 3, Invalid: 2, CutShort: true}
	usage := fmt.Errorf("profile: %w", harness.ErrUsage)
	for _, tt := range []struct {
		outcome harness.Outcome
		err     error
		want    int
	}{
		{harness.Outcome{Points: 3}, nil, exitDone},
		{harness.Outcome{Points: 3, Invalid: 1}, nil, exitInvalid},
		{bad, nil, exitFailed},
		{bad, errors.New("disk"), exitFailed},
		{bad, usage, exitUsage},
		{bad, errors.Join(errors.New("disk"), usage), exitUsage},
		{harness.Outcome{}, wrong(errors.New("flag")), exitUsage},
	} {
		got := exitDone
		if err := verdict(tt.outcome, tt.err, true); err != nil {
			var e *exit
			if !errors.As(err, &e) {
				t.Fatalf("%v has no exit code", err)
			}
			got = e.code
		}
		if got != tt.want {
			t.Errorf("%+v, %v: exit code %d, want %d", tt.outcome, tt.err, got, tt.want)
		}
	}
}

// TestProgressWithoutATerminal: a point and a probe have a line each, and a note has one.
func TestProgressWithoutATerminal(t *testing.T) {
	t.Parallel()
	events := []harness.Event{
		{What: "capacity search", Phase: "probe at 1000/s"}, {What: "capacity search", Phase: "probe at 2000/s"}, {Note: "capacity 2000"},
		{What: "none at 1x, repeat 1", Phase: "server", Total: 2, Left: 4 * time.Second}, {What: "none at 1x, repeat 1", Phase: "window", Total: 2},
		{What: "none at 1x, repeat 2", Phase: "server", Done: 1, Total: 2}, {What: "none at 1x, repeat 2", Phase: "drain", Done: 1, Total: 2},
	}
	for every, want := range map[bool]int{false: 5, true: 7} {
		var out bytes.Buffer
		p := (&telling{verbose: every}).open(&out)
		observe := p.only("quickstart")
		for _, e := range events {
			observe(e)
		}
		if got := strings.Count(out.String(), "\n"); got != want || !strings.Contains(out.String(), "point 1 of 2, none at 1x, repeat 1") {
			t.Errorf("every phase %v: %d lines, want %d:\n%s", every, got, want, out.String())
		}
	}
}

func TestProgressLine(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]harness.Event{
		"point 3 of 24, codel at 1.5x, repeat 1: window, 1m40s left": {
			What: "codel at 1.5x, repeat 1", Phase: "window", Done: 2, Total: 24, Left: 100*time.Second + 3*time.Millisecond,
		},
		"capacity search: probe at 1000/s": {What: "capacity search", Phase: "probe at 1000/s", Done: 4},
	} {
		if got := line(e); got != want {
			t.Errorf("line is %q, want %q", got, want)
		}
	}
}
