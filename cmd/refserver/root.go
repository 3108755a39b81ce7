package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"spillway/profiles"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// kindsOfServers are the commands that serve.
var kindsOfServers = []string{"memcached", "rocksdb", "dataframe", "synthetic", "graph", "mailbox", "web", "allocator"}

// usageError marks an error of the command line, which ends with exit code 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// run is main without the process: it returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use:   "refserver",
		Short: "Reference servers under overload control",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				if near := profiles.Nearest(args[0], kindsOfServers); near != "" {
					return fmt.Errorf("unknown kind of server %q; did you mean %q?", args[0], near)
				}
				return fmt.Errorf("unknown kind of server %q; there are: %s", args[0], strings.Join(kindsOfServers, ", "))
			}
			return fmt.Errorf("which kind of server? there are: %s", strings.Join(kindsOfServers, ", "))
		},
		RunE:          func(*cobra.Command, []string) error { return nil },
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.AddCommand(memcachedCommand(), rocksdbCommand(), dataframeCommand(), syntheticCommand(), graphCommand(), mailboxCommand(), webCommand(), allocatorCommand(), versionCommand())

	// Whatever goes wrong before a command runs is cobra's finding about the command line.
	running := false
	for _, c := range root.Commands() {
		if body := c.RunE; body != nil {
			c.RunE = func(c *cobra.Command, args []string) error {
				running = true
				return body(c, args)
			}
		}
	}
	err := root.Execute()
	var usage usageError
	switch {
	case err == nil:
		return exitDone
	case !running || errors.As(err, &usage):
		fmt.Fprintf(stderr, "refserver: %v\nrefserver: --help shows what there is\n", err)
		return exitUsage
	}
	fmt.Fprintf(stderr, "refserver: %v\n", err)
	return exitFailed
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return printVersion(c) },
	}
}

func printVersion(c *cobra.Command) error {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
	}
	_, err := fmt.Fprintf(c.OutOrStdout(), "refserver %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
