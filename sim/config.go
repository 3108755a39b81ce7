package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/internal/load"
	"spillway/internal/reqlog"
	"spillway/machine"
	"spillway/machine/station"
	"spillway/workloads"
)

// Coster says what an operation costs the server.
type Coster interface {
	// Steps appends the work of op to dst, and returns how many bytes it is about, 0 where that is not known. It draws nothing: the same
	// operation costs the same.
	Steps(dst []machine.Step, op *workloads.Op) (_ []machine.Step, bytes int64)
}

// OwnSteps are the costs of operations that say themselves what work they are. Such an operation is about the bytes that it streams.
type OwnSteps struct{}

// Steps appends op.Steps.
func (OwnSteps) Steps(dst []machine.Step, op *workloads.Op) (_ []machine.Step, bytes int64) {
	for i := range op.Steps {
		if op.Steps[i].Kind == machine.Stream {
			bytes += op.Steps[i].Bytes
		}
	}
	return append(dst, op.Steps...), bytes
}

// Config says what is simulated.
type Config struct {
	Station   station.Config
	Costs     Coster
	Generator *load.Generator // its instants count from the start of the warm-up
	Tally     *load.Tally     // of the window; must be empty
	Timeout   time.Duration   // from the due instant; 0 for none
	Deadline  time.Duration   // from the arrival at the server; who still waits in the Gate then expires; 0 for none
	Budget    time.Duration   // the waiting that each request may be asked to bear; 0 for no budget
	Drain     time.Duration   // after the window, for what is still under way

	// More are further replicas of the server, each under a controller of its own. A client's primary server is its number modulo the number
	// of servers, unless Retry says otherwise.
	More  []station.Config
	Retry *load.Retry // nil when what is refused or shed stays so

	// NewClient makes a client's half of the control of one server, with random numbers of its own that follow from Seed; nil when clients
	// just send. As on the wire, requests carry their client's demand only when there is one.
	NewClient func(rng *rand.Rand) *control.Outbox
	Seed      uint64

	// Sample is called every SamplePeriod of virtual time within the window, SamplePeriod 0 for never.
	SamplePeriod time.Duration
	Sample       func(Sample)
	// Settled is called with every record whose fate is decided, the warm-up's included; may be nil. The record is only valid during
	// the call.
	Settled func(*reqlog.Record)
	// Stop is asked now and then whether to end early; may be nil.
	Stop func() bool
}

// Result is how a simulation ended. What it measured is in Config.Tally. Sensors and counts of several servers are added up.
type Result struct {
	Arrivals  int64         // requests due in the window
	End       clock.Instant // when the last request was settled, or the drain ended
	Undrained int64         // requests under way or waiting at clients at the end of the drain, whose clients then stop waiting
	CutShort  bool          // Stop said so; the tally was cut to End
	Died      clock.Instant // when a server's RAM ran out, the first; clock.Never when none did
	Events    int64         // that were simulated, of which one instant may have several
	InFlight  float64       // mean number of requests between sent and settled in the window
	Waiting   float64       // mean number of requests that waited at their clients in the window
	Retries   int64         // requests resent to another server, in the whole simulation
	Questions int64         // of clients for credits, without a request, in the whole simulation
	CPURatio  float64       // core-time used in the window, over cores times window
	Moved     uint64        // bytes over the memory bus in the window
	Gate      control.Stats // the servers' own counts, of the whole simulation; MaxQueued is of the worst
}

func (c *Config) check() error {
	switch {
	case c.Generator == nil || c.Tally == nil || c.Costs == nil:
		return errors.New("a generator, a tally and costs are needed")
	case c.Timeout < 0 || c.Drain < 0 || c.SamplePeriod < 0 || c.Deadline < 0 || c.Budget < 0:
		return errors.New("timeout, drain, sample period, deadline and budget must not be negative")
	case len(c.More) >= maxServers:
		return fmt.Errorf("%d servers, at most %d are supported", 1+len(c.More), maxServers)
	}
	if c.Retry != nil {
		return c.Retry.Check(1 + len(c.More))
	}
	return nil
}
