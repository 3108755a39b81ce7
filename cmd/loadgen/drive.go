package main

import (
	"time"

	"github.com/spf13/cobra"

	"spillway/internal/harness"
)

func driveCommand() *cobra.Command {
	a := harness.AdHoc{}
	s := session{adHoc: true}
	cmd := &cobra.Command{
		Use:   "drive TARGET",
		Short: "Offer load to a server that already runs",
		Long: `drive offers an open-loop load to one server that already runs, without a profile and without a warm-up: --duration is the window.
TARGET is memcached://host:port or memcached:///path.sock; several, separated by commas, are used in turn (memcached://a:11211,b:11211). Or it is an HTTP
server, http://host:port/path, where {key} in the path stands for the key of a request and {class} for the name of its class.

Unless --classes says otherwise it reads, with mg, ten thousand keys of its own of 100 B each, which it stores and verifies first and
counts apart.

With --find-capacity it searches the highest rate that keeps --slo (p99 of every class, nothing shed or unanswered, no growing queue),
says between which rates it lies and after how many probes, and then measures that rate for --duration. Where the generator rather than the server
failed, it says that the capacity is at least so much, and the exit code is 3.`,
		Example: "  loadgen drive memcached://127.0.0.1:11211 --rate 20k --duration 5s --slo 1ms\n" +
			"  loadgen drive memcached://127.0.0.1:11211 --find-capacity --slo 1ms\n" +
			"  loadgen drive 'http://127.0.0.1:8080/kv/{key}' --rate 2k --slo 5ms\n" +
			"  loadgen drive memcached://127.0.0.1:11211 --rate 50k --slo 1ms --classes etc --shape shock:2@2s+1s",
		Args: cobra.ExactArgs(1),
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
	f.StringVar(&a.Rate, "rate", "", "offered requests per second, such as 250 or 20k")
	f.BoolVar(&a.FindCapacity, "find-capacity", false, "search the highest rate that keeps --slo instead of being told a rate")
	f.DurationVar(&a.Duration, "duration", 10*time.Second, "length of the window")
	f.StringVar(&a.Arrivals, "arrivals", "poisson", "arrival process: "+harness.ArrivalForms())
	f.StringVar(&a.Shape, "shape", "", "how the rate changes over the window: "+harness.ShapeForms())
	f.StringVar(&a.Classes, "classes", "", "what is asked: "+harness.ClassForms())
	f.IntVar(&a.Connections, "conns", 16, "connections")
	f.IntVar(&a.MaxConnections, "max-conns", 0, "add connections up to this many when all have --in-flight requests under way (HTTP, with one on each: default 4096)")
	f.IntVar(&a.InFlight, "in-flight", 0, "bound on requests under way on one connection; beyond it requests are unsent (default 65536)")
	f.IntVar(&a.Senders, "senders", 1, "threads that send; the requests are the same whatever their number")
	f.StringVar(&a.CatchUp, "catch-up", "", "after a stall of the sender: send all that is overdue at once (send, the default), or leave out what is later than a duration (skip:1ms)")
	f.StringVar(&a.Client, "client", "", "pipelined (ours, the default) or gomemcache (what Go services use; for compatibility)")
	f.DurationVar(&a.SLO, "slo", 0, "limit on latency, of every class; without one every answer is in time")
	f.DurationVar(&a.Timeout, "timeout", 10*time.Second, "from the instant a request is due; then it has timed out")
	f.Uint64Var(&a.Seed, "seed", 1, "seed of the arrivals")
	f.BoolVar(&s.noPreload, "no-preload", false, "store nothing first: the keys are there already, or shall be missed")
	s.flags(cmd)
	return cmd
}
