//go:build linux

package servers_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"spillway/control"
	"spillway/internal/memproto"
	"spillway/machine"
	"spillway/servers"
	"spillway/servers/memcached"
)

// promise says that a client has come to an instant, and returns how far the machine has come when it answers.
func (c *client) promise(instant int64) (reached int64) {
	c.t.Helper()
	c.send(fmt.Sprintf("mn L%d\r\n", instant))
	line, err := c.in.ReadString('\n')
	if _, failed := fmt.Sscanf(line, "MN L0.000,0.000,%d", &reached); err != nil || failed != nil {
		c.t.Fatalf("got %q, %v, %v", line, err, failed)
	}
	return reached
}

// TestMachineKeepsInStep: a machine moves on to one network delay after what its clients have promised, and no further, until they say more or
// go.
func TestMachineKeepsInStep(t *testing.T) {
	t.Parallel()
	const network = 2 * time.Millisecond
	f := start(t, control.None{}, func(c *servers.Config, _ *memcached.Config) {
		c.Model = &servers.Model{Machine: machine.Spec{Cores: 1, Network: network}, Scale: 10, Costs: steps{}}
	})
	watcher, first, second, asker := f.dial(t), f.dial(t), f.dial(t), f.dial(t)
	now := func() int64 { return int64(watcher.number("spillway", "model_now_ns")) }
	at := now()
	second.send(fmt.Sprintf("mn L%d\r\n", at+int64(network)))
	if got := first.promise(at) - at; got != int64(network)-1 {
		t.Errorf("the machine has come to %d ns after the promise, want %d", got, int64(network)-1)
	}
	// The clock goes on, the machine does not.
	asker.send("mg a O7\r\n")
	for began := time.Now(); time.Since(began) < 5*10*network; {
		if got := now(); got != at+int64(network)-1 {
			t.Fatalf("the machine has moved on to %d ns after what the slower client promised", got-at)
		}
	}
	asker.send("mn\r\n")
	if err := asker.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if line, err := asker.in.ReadString('\n'); err == nil {
		t.Fatalf("%q was answered by a machine that stands still", line)
	}
	if err := asker.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	_ = first.Close() // then the faster one is the slowest
	second.expect("MN L0.000,0.000,")
	line, err := second.in.ReadString('\n')
	if want := fmt.Sprintf("%d\r\n", at+2*int64(network)-1); err != nil || line != want {
		t.Errorf("it has come to %q (%v), want %q", line, err, want)
	}
	_ = second.Close() // and without anybody the machine goes by the clock
	asker.expect("EN O7\r\nMN\r\n")
}

// TestPromisesElsewhere: on a real machine mn L is any mn.
func TestPromisesElsewhere(t *testing.T) {
	t.Parallel()
	start(t, control.None{}, nil).dial(t).do("mn L5\r\nmn L\r\n", "MN\r\nMN\r\n")
	var c memproto.Command
	var p memproto.Parser
	if _, s := p.Parse([]byte("mn L5\r\n"), &c); s != memproto.Ready || !c.HasSent || strings.TrimSpace(string(c.Args)) != "L5" {
		t.Errorf("%+v", c)
	}
}
