package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"spillway/internal/harness"
)

// The exit codes. When several apply, the order is wrong usage, failed, worse, not valid.
const (
	exitDone    = 0
	exitFailed  = 1
	exitUsage   = 2
	exitInvalid = 3 // measured, but at least one point must not be believed; or results that cannot be compared
	exitWorse   = 4 // compare found something worse, or a paper's claim does not hold
)

// exit is an error that has an exit code. One without text has been reported already.
type exit struct {
	code int
	err  error
}

// Error implements error.
func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

// wrong marks an error as wrong usage.
func wrong(err error) error {
	if err == nil {
		return nil
	}
	return &exit{exitUsage, err}
}

// failed gives an error of a command its exit code.
func failed(err error) error {
	var e *exit
	switch {
	case err == nil || errors.As(err, &e):
		return err
	case errors.Is(err, harness.ErrUsage):
		return &exit{exitUsage, err}
	default:
		return &exit{exitFailed, err}
	}
}

// run executes the command line and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	// The first Ctrl-C ends the current point in good order, the second ends the process, should the first not get through.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	var e *exit
	if !errors.As(err, &e) {
		e = &exit{exitUsage, err} // cobra's own: an unknown command, a flag, the number of arguments
	}
	if e.err != nil {
		fmt.Fprintf(stderr, "loadgen: %v\n", e.err)
		if e.code == exitUsage {
			fmt.Fprintln(stderr, "`loadgen help` lists the commands, `loadgen COMMAND --help` the flags of one")
		}
	}
	return e.code
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "loadgen",
		Short: "Offer load to servers and report how much useful work gets done, and how late",
		Long: `loadgen offers load to servers: as much as an experiment says, no matter how they fare. It reports how much useful work got done
under overload, and how late, under one overload control or another.

Exit codes: 0 done; 1 failed; 2 wrong usage or profile; 3 measured, but not valid (the table says why), or not
comparable; 4 something became worse, or a claim of a paper does not hold.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(runCommand(), driveCommand(), reportCommand(), compareCommand(), reproduceCommand(), profilesCommand(), controllersCommand(), calibrateCommand(), countersCommand(), selftestCommand(), traceCommand(), versionCommand())
	return root
}
