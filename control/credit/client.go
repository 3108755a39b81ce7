package credit

import (
	"fmt"
	"math/rand/v2"
	"time"

	"spillway/control"
)

// ClientConfig are the settings of the client's half, which are the same under every law.
type ClientConfig struct {
	RTT   time.Duration `setting:"rtt" doc:"round trip between clients and server without queues; clients without credits are looked after once in it"`
	Delay time.Duration `setting:"client_delay" doc:"a request that has waited so long for a credit is refused at the client; 0 for no limit"`
	Queue int           `setting:"client_queue" unit:"requests" doc:"how many requests of one client may wait for credits; one more refuses the oldest; 0 for no limit"`
}

// DefaultClient returns the published settings: a round trip of 10 µs, and a queue of 16 in which a request waits 10 µs at most (reference: the
// configurations of Breakwater, Protego and Svalinn).
func DefaultClient() ClientConfig {
	return ClientConfig{RTT: 10 * time.Microsecond, Delay: 10 * time.Microsecond, Queue: 16}
}

// Check returns an error that names the setting that is out of range.
func (c ClientConfig) Check() error {
	switch {
	case c.RTT <= 0:
		return fmt.Errorf("rtt is %v, must be above 0", c.RTT)
	case c.Delay < 0:
		return fmt.Errorf("client_delay is %v, must not be negative", c.Delay)
	case c.Queue < 0:
		return fmt.Errorf("client_queue is %d, must not be negative", c.Queue)
	}
	return nil
}

// NewOutbox returns a client's half: a Wallet, and the queue before it.
func (c ClientConfig) NewOutbox(*rand.Rand) *control.Outbox {
	return control.NewOutbox(new(Wallet), control.OutboxConfig{Queue: c.Queue, MaxAge: c.Delay})
}

// pool returns what a Pool has to know of clients.
func (c ClientConfig) pool(cores int) PoolConfig {
	return PoolConfig{Cores: cores, RTT: c.RTT, ClientDelay: c.Delay}
}

// share is which share of the objective the queueing delay may take where no delay is set. It is what Breakwater's thresholds come to (0.4 of
// the SLO, at every service time that was published) and what Svalinn and Protego had in Svalinn's synthetic experiments (200 µs of
// 500 µs). Their other experiments had between 0.16 and 0.6, so it is no more than a start.
const share = 0.4

// derived returns a delay that was set, or what stands for 0.
func derived(d time.Duration, name string, slo time.Duration) (time.Duration, error) {
	if d > 0 {
		return d, nil
	}
	d = time.Duration(share * float64(slo))
	if d <= 0 {
		return 0, fmt.Errorf("%s is 0, which stands for %v of the SLO, and no SLO is known here; set %s", name, share, name)
	}
	return d, nil
}

// oneOf returns an error unless value is among those that a setting may have.
func oneOf(name, value string, allowed ...string) error {
	list := ""
	for i, a := range allowed {
		switch {
		case a == value:
			return nil
		case i == 0:
		case i == len(allowed)-1:
			list += " or "
		default:
			list += ", "
		}
		list += a
	}
	return fmt.Errorf("%s is %q, must be %s", name, value, list)
}
