package main

import (
	"time"

	"github.com/spf13/cobra"

	"spillway/internal/harness"
)

func driveCommand() *cobra.Command {
	a := harness.AdHoc{}
	var s session
	cmd := &cobra.Command{
		Use:   "drive TARGET",
		Short: "Offer load to a server that already runs",
		Long: `drive offers an open-loop load to one server that already runs, without a profile and without a warm-up: --duration is the window.
TARGET is memcached://host:port or memcached:///path.sock.

Unless --classes says otherwise it reads, with mg, ten thousand keys of its own of 100 B each, which it stores and verifies first and
counts apart.`,
		Example: "  loadgen drive memcached://127.0.0.1:11211 --rate 20k --duration 5s --slo 1ms",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.Target = args[0]
			p, err := a.Profile()
			if err != nil {
				return failed(err)
			}
			return failed(s.measure(cmd, p))
		},
	}
	f := cmd.Flags()
	f.StringVar(&a.Rate, "rate", "", "offered requests per second, such as 250 or 20k (required)")
	f.DurationVar(&a.Duration, "duration", 10*time.Second, "length of the window")
	f.StringVar(&a.Arrivals, "arrivals", "poisson", "arrival process: poisson or constant")
	f.StringVar(&a.Classes, "classes", "", "what is asked: "+harness.ClassForms())
	f.IntVar(&a.Connections, "conns", 16, "connections")
	f.DurationVar(&a.SLO, "slo", 0, "limit on latency, of every class; without one every answer is in time")
	f.DurationVar(&a.Timeout, "timeout", 10*time.Second, "from the instant a request is due; then it has timed out")
	f.Uint64Var(&a.Seed, "seed", 1, "seed of the arrivals")
	f.BoolVar(&s.noPreload, "no-preload", false, "store nothing first: the keys are there already, or shall be missed")
	s.flags(cmd)
	if err := cmd.MarkFlagRequired("rate"); err != nil {
		panic(err) // the flag is defined above
	}
	return cmd
}
