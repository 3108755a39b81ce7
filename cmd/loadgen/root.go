package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"spillway/internal/harness"
	"spillway/profiles"
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
	if !errors.As(err, &e) { // cobra's own: an unknown command, a flag, the number of arguments
		fmt.Fprintf(stderr, "loadgen: %v\n", err)
		fmt.Fprintln(stderr, "`loadgen help` lists the commands, `loadgen COMMAND --help` the flags of one")
		return exitUsage
	}
	if e.err != nil {
		fmt.Fprintf(stderr, "loadgen: %v\n", e.err)
	}
	return e.code
}

// noUnit is how package flag says that a duration is a bare number.
const noUnit = " flag: time: missing unit in duration "

// flagError says of a duration without a unit what profiles say of it.
func flagError(_ *cobra.Command, err error) error {
	before, value, found := strings.Cut(err.Error(), noUnit)
	if _, name, ok := strings.Cut(before, " for "); found && ok {
		return fmt.Errorf("%s: duration %s has no unit: write ns, us, ms, s, m or h behind the number", strings.Trim(name, `"`), value)
	}
	return err
}

// unknownCommand says which command was meant.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	if near := profiles.Nearest(args[0], names); near != "" {
		return fmt.Errorf("unknown command %q; did you mean %q?", args[0], near)
	}
	return fmt.Errorf("unknown command %q; there are %s", args[0], strings.Join(names, ", "))
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
		Args:          unknownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(flagError)
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(runCommand(), driveCommand(), reportCommand(), compareCommand(), reproduceCommand(), profilesCommand(), controllersCommand(), calibrateCommand(), countersCommand(), selftestCommand(), traceCommand(), versionCommand())
	return root
}
