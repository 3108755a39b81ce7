package main

import (
	"context"
	"io"
	"strings"
	"testing"
)

// waiting is an input that is interrupted while it is waited for.
type waiting struct {
	interrupt context.CancelFunc
	end       chan struct{}
}

func (w *waiting) Read([]byte) (int, error) {
	w.interrupt()
	<-w.end
	return 0, io.EOF
}

// TestInterruptedWhileWaiting: a command that waits for its standard input ends when it is interrupted, not when something comes.
func TestInterruptedWhileWaiting(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	in := &waiting{cancel, make(chan struct{})}
	defer close(in.end)
	cmd := traceCommand()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetIn(in)
	cmd.SetArgs([]string{"describe", "-"})
	if err := cmd.ExecuteContext(ctx); err == nil || !strings.Contains(err.Error(), errInterrupted.Error()) {
		t.Errorf("%v, want %v", err, errInterrupted)
	}
}
