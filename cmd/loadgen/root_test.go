package main

import (
	"errors"
	"fmt"
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
		if err := verdict(tt.outcome, tt.err); err != nil {
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
