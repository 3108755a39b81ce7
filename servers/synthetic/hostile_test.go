//go:build linux

package synthetic_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"spillway/control/catalog"
	"spillway/machine"
	"spillway/servers"
	"spillway/servers/servertest"
	"spillway/servers/synthetic"
)

// TestHostileClientsUnderCredits: whatever clients say of their demand, pipeline, leave half said or leave behind, a server under each kind of
// credits is in the end as it was at first: no client is known, no credit granted, nobody is in service, in a queue, a section or a lock.
func TestHostileClientsUnderCredits(t *testing.T) {
	t.Parallel()
	for controller, settings := range map[string]map[string]any{
		"svalinn":    {"section": "try"},
		"protego":    {"section": "wait-if-uncongested"},
		"breakwater": {"section": "wait"},
	} {
		for _, ground := range []string{"host", "model"} {
			t.Run(controller+" "+ground, func(t *testing.T) {
				t.Parallel()
				stack, err := catalog.New(controller, settings, catalog.Env{Cores: 3, SLO: 5 * time.Millisecond, Seed: 1})
				if err != nil {
					t.Fatal(err)
				}
				if ground == "host" {
					addr, stop := hostUnder(t, 3, stack)
					besiege(t, addr, stop)
					return
				}
				spec := machine.Spec{Cores: 3, Network: 5 * time.Microsecond, Bus: machine.Bus{Total: 3e9, PerCore: 1e9}}
				addr, stop := servertest.Serve(t, synthetic.New(), stack, func(c *servers.Config) {
					c.Model = &servers.Model{Machine: spec, Scale: 10, Costs: synthetic.Costs{Bus: true}}
				})
				besiege(t, addr, stop)
			})
		}
	}
}

// besiege lets hostile clients at a server, and looks at what they leave.
func besiege(t *testing.T, addr string, stop func() error) {
	var clients sync.WaitGroup
	for i := range 24 {
		rng := rand.New(rand.NewPCG(7, uint64(i)))
		clients.Go(func() {
			for range 12 {
				pester(t, addr, rng)
			}
		})
	}
	clients.Wait()
	c := servertest.Dial(t, addr)
	c.Await("", "curr_connections", 1) // until then a request may still come out of what a client sent before it went
	for _, figure := range []string{"in_service", "queued", "meter_clients", "meter_credits_used"} {
		c.Await("spillway", figure, 0)
	}
	got := c.Stats("spillway")
	if got["started"] != got["finished"] {
		t.Errorf("%s started, %s finished", got["started"], got["finished"])
	}
	// And it still serves: a client that asks is let in.
	c.Send("mn P1\r\n")
	if line := c.Line(); !strings.HasPrefix(line, "MN P") || line == "MN P0" {
		t.Errorf("got %q", line)
	}
	c.Send("mg e0,l0:1us,l1:1us,x0 P0 O1\r\n")
	if line := c.Line(); !strings.HasPrefix(line, "HD P") {
		t.Errorf("got %q", line)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// pester is one connection of a client that keeps to no rule.
func pester(t *testing.T, addr string, rng *rand.Rand) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Error(err)
	}
	var said strings.Builder
	for range 1 + rng.IntN(30) {
		switch rng.IntN(8) {
		case 0:
			fmt.Fprintf(&said, "mn P%d\r\n", rng.Uint64())
		case 1:
			said.WriteString(strings.Repeat("mn P3\r\n", rng.IntN(300)))
		case 2:
			fmt.Fprintf(&said, "mn P%d.%d L%d\r\n", rng.IntN(9), rng.IntN(1<<16), rng.IntN(9))
		case 3:
			said.WriteString("get \r\nmn P\r\nbogus\r\nmg e0,,x9 P1\r\n")
		case 4:
			fmt.Fprintf(&said, "set c%dus 0 0 3\r\nabc\r\n", rng.IntN(50))
		default:
			fmt.Fprintf(&said, "mg m%d,e0,c%dus,l%d:%dus,s%d,x0,d%dus P%d.%d O%d\r\n", 1+rng.IntN(5000), rng.IntN(30), rng.IntN(3), rng.IntN(60),
				rng.IntN(20_000), rng.IntN(400), rng.IntN(1<<20), rng.IntN(1<<16), rng.IntN(99))
		}
	}
	text := said.String()
	if rng.IntN(3) == 0 {
		text = text[:rng.IntN(len(text))] // in the middle of a line
	}
	drained := make(chan struct{})
	go func() { defer close(drained); _, _ = io.Copy(io.Discard, c) }()
	_, _ = io.WriteString(c, text)
	switch rng.IntN(3) {
	case 0:
		_ = c.(*net.TCPConn).CloseWrite()
		<-drained // it is answered, whatever it has asked, and the connection closed
	case 1:
		_ = c.(*net.TCPConn).SetLinger(0)
	}
	_ = c.Close()
	<-drained
}
