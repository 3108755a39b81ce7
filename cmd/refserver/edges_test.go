package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"spillway/servers/web"
)

// The prototype in small: an allocator, three edges and the origin that they protect, each a process of its own.
const (
	protoBudget = 400.0 // requests per second
	protoCycle  = 200 * time.Millisecond
	protoLease  = 8 * protoCycle
	protoAbsorb = 10 // cycles
	protoShift  = 4  // cycles that a shift of capacity takes
	protoBurst  = 1  // cycles of a grant that may be used at once
)

var protoClasses = []string{"high", "low"}

// demand is what one edge is asked for, by class.
type demand [2]float64

// prototype is all of it.
type prototype struct {
	t         *testing.T
	allocator *daemon
	origin    *daemon
	edges     map[string]*daemon
	client    *http.Client

	mu struct {
		sync.Mutex
		demands map[string]demand
		answers map[int]int // by status; 0 for none
		errs    []string
		stall   time.Duration // the longest that this process did not come to send
	}
	sending sync.WaitGroup
}

func startPrototype(t *testing.T) *prototype {
	p := &prototype{t: t, edges: map[string]*daemon{}}
	p.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 200}, Timeout: 20 * time.Second}
	p.mu.demands, p.mu.answers = map[string]demand{}, map[int]int{}
	p.origin = daemonise(t, "web", "--listen", "127.0.0.1:0", "--store", "synthetic", "--stream-buffer", "1MiB", "--class", "high", "--class", "low", "--origin")
	p.startAllocator("127.0.0.1:0")
	for _, name := range []string{"a", "b", "c"} {
		p.edges[name] = daemonise(t, "web", "--listen", "127.0.0.1:0", "--upstream", "http://"+p.origin.addr, "--class", "high", "--class", "low",
			"--control", "capacity", "--control-set", fmt.Sprintf("baseline=%g,%g", 0.7*protoBudget/3, 0.3*protoBudget/3),
			"--control-set", "cycle="+protoCycle.String(), "--control-set", fmt.Sprintf("burst=%d", protoBurst),
			"--edge", name, "--allocator", "http://"+p.allocator.addr)
	}
	t.Cleanup(func() { p.sending.Wait(); p.client.CloseIdleConnections() })
	return p
}

func (p *prototype) startAllocator(addr string) {
	p.t.Helper()
	p.allocator = daemonise(p.t, "allocator", "--listen", addr, "--budget", fmt.Sprint(protoBudget), "--class", "high=0.7", "--class", "low=0.3",
		"--location", "a", "--location", "b", "--location", "c", "--cycle", protoCycle.String(), "--lease", protoLease.String(), "--absorb", fmt.Sprint(protoAbsorb))
}

// ask changes what an edge is asked for.
func (p *prototype) ask(edge string, d demand) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.demands[edge] = d
}

// offer asks every edge for what it is to be asked for, whether or not answers have come, until ctx ends.
func (p *prototype) offer(ctx context.Context) {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	due := map[string]*demand{}
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := time.Now()
		p.mu.Lock()
		p.mu.stall = max(p.mu.stall, now.Sub(last))
		for edge, d := range p.mu.demands {
			if due[edge] == nil {
				due[edge] = &demand{}
			}
			for k, rate := range d {
				for due[edge][k] += rate * now.Sub(last).Seconds(); due[edge][k] >= 1; due[edge][k]-- {
					p.sending.Go(func() { p.send(edge, protoClasses[k]) })
				}
			}
		}
		p.mu.Unlock()
		last = now
	}
}

func (p *prototype) send(edge, class string) {
	r, err := http.NewRequest(http.MethodGet, p.edges[edge].url("work/d1ms"), nil)
	if err != nil {
		panic(err) // it is always the same
	}
	r.Header.Set("X-Class", class)
	reply, err := p.client.Do(r)
	status := 0
	if err == nil {
		status = reply.StatusCode
		_, _ = io.Copy(io.Discard, reply.Body)
		_ = reply.Body.Close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.answers[status]++
	if err != nil && len(p.mu.errs) < 5 {
		p.mu.errs = append(p.mu.errs, err.Error())
	}
}

// counts returns what the origin has been asked for.
func (p *prototype) counts() web.OriginCounts {
	p.t.Helper()
	var c web.OriginCounts
	if err := p.origin.read("origin", &c); err != nil {
		p.t.Fatal(err)
	}
	return c
}

// over returns the requests per second by class of the whole slots that follow now and last for a time.
func (p *prototype) over(span time.Duration) (rates [2]float64) {
	p.t.Helper()
	first := p.counts()
	from := first.First + int64(len(first.Counts))
	slots := int64(span / (time.Duration(first.SlotMS) * time.Millisecond))
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		c := p.counts()
		if c.First+int64(len(c.Counts)) > from+slots {
			for i := from; i < from+slots; i++ {
				for k := range rates {
					rates[k] += float64(c.Counts[i-c.First][k]) / span.Seconds()
				}
			}
			return rates
		}
		<-ticker.C
	}
}

// most returns the most that the origin was asked for in any second, by tenths of a second.
func (p *prototype) most() (most int) {
	c := p.counts()
	perSecond := int(1000 / c.SlotMS)
	for i := range c.Counts {
		sum := 0
		for _, slot := range c.Counts[max(0, i-perSecond+1) : i+1] {
			sum += int(slot[0] + slot[1])
		}
		most = max(most, sum)
	}
	return most
}

// shares tries a few times to find the origin asked for what the closed form says: on a busy machine the load itself is uneven.
func (p *prototype) shares(what string, high, low float64) {
	p.t.Helper()
	for try := 1; ; try++ {
		got := p.over(2 * time.Second)
		total, want := got[0]+got[1], high+low
		share := got[0] / total
		p.t.Logf("%s: the origin is asked for %.0f of the class high and %.0f of low a second", what, got[0], got[1])
		if math.Abs(share-high/want) <= 0.02 && total >= 0.93*want && total <= 1.02*want {
			return
		}
		if try == 4 {
			p.t.Errorf("%s: %.1f %% of %.0f a second are of the class high, want %.1f %% of %.0f", what, 100*share, total, 100*high/want, want)
			return
		}
	}
}

// TestEdges is the whole prototype: shares as the closed form says, the budget kept in every second, a dead edge's capacity used by the others
// in time, the baselines without an allocator, and everybody answered. It runs alone: what it measures needs the machine.
func TestEdges(t *testing.T) {
	p := startPrototype(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p.ask("a", demand{200, 50})
	p.ask("b", demand{100, 200})
	p.ask("c", demand{50, 100})
	p.sending.Go(func() { p.offer(ctx) })
	settled := func() { p.over((protoShift + 1) * protoCycle) }

	// Closed form: A_H = min(D_H, ρ_H·B + max(0, ρ_L·B − D_L)).
	settled()
	p.shares("both classes want more than is reserved", 280, 120)
	p.ask("b", demand{0, 200})
	p.ask("c", demand{0, 100})
	settled()
	p.shares("the class high leaves some", 200, 200)
	p.ask("a", demand{500, 30})
	p.ask("b", demand{100, 20})
	p.ask("c", demand{100, 20})
	settled()
	p.shares("the class low leaves some", 330, 70)

	// An edge dies; nobody asks it any more.
	p.ask("a", demand{200, 100})
	p.ask("b", demand{200, 100})
	p.ask("c", demand{0, 0})
	settled()
	p.edges["c"].kill()
	died, within := time.Now(), (protoAbsorb+protoShift)*protoCycle
	for {
		if got := p.over(500 * time.Millisecond); got[0]+got[1] > 0.93*protoBudget {
			t.Logf("the dead edge's part is in use after %v, stated are %v", time.Since(died), within)
			break
		}
		if since := time.Since(died); since > within+2*time.Second {
			t.Fatalf("the dead edge's part is not in use after %v, stated are %v", since, within)
		}
	}
	p.shares("two edges are left", 280, 120)

	// The allocator dies: baselines within a lease. It comes back: grants again.
	addr := p.allocator.addr
	p.allocator.kill()
	for _, name := range []string{"a", "b"} {
		p.edges[name].await(protoLease+2*time.Second, "meter_leased", func(v float64) bool { return v == 0 })
		p.edges[name].await(time.Second, "meter_grant_0", func(v float64) bool { return math.Abs(v-0.7*protoBudget/3) < 1e-6 })
	}
	settled()
	p.shares("without an allocator", 2*0.7*protoBudget/3, 2*0.3*protoBudget/3)
	p.startAllocator(addr)
	for _, name := range []string{"a", "b"} {
		p.edges[name].await(10*time.Second, "meter_leased", func(v float64) bool { return v == 1 })
	}
	cancel()
	p.sending.Wait()

	p.mu.Lock()
	defer p.mu.Unlock()
	// What edges have admitted while this machine did something else reaches the origin when it is over.
	bound := protoBudget * (1 + protoBurst*protoCycle.Seconds())
	most, stalled := p.most(), protoBudget*p.mu.stall.Seconds()
	t.Logf("the origin was asked for %d in one second at most; the budget and one bucket are %.0f, and the longest pause of this machine %v", most, bound, p.mu.stall)
	if float64(most) > bound+stalled {
		t.Errorf("the origin was asked for %d in one second, the budget and one bucket are %.0f", most, bound)
	}
	t.Logf("answers by status: %v", p.mu.answers)
	for status, n := range p.mu.answers {
		if status != http.StatusNoContent && status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable {
			t.Errorf("%d requests were answered %d: %v", n, status, p.mu.errs)
		}
	}
	for _, name := range []string{"a", "b"} {
		p.edges[name].stop()
	}
	p.allocator.stop()
	p.origin.stop()
	if said := p.edges["a"].stderr.String(); !strings.Contains(said, "the allocator cannot be reached") || !strings.Contains(said, "answers again") {
		t.Errorf("the edge said %q", said)
	}
}

// TestAllocatorFile starts an allocator from a file, and asks it what it thinks.
func TestAllocatorFile(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/allocator.json"
	const text = `{"budget": 900, "classes": [{"name": "high", "share": 0.7}, {"name": "low", "share": 0.3}], "locations": [{"name": "x", "weight": 2}, {"name": "y"}]}`
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	d := daemonise(t, "allocator", "--listen", "127.0.0.1:0", "--config", path)
	var state struct {
		Budget    float64
		Learning  bool
		Locations []struct {
			Name     string
			Baseline map[string]float64
			SilentMS int64 `json:"silent_ms"`
		}
	}
	if err := d.read("state", &state); err != nil {
		t.Fatal(err)
	}
	if x := state.Locations[0]; state.Budget != 900 || !state.Learning || x.Name != "x" || x.Baseline["high"] != 420 || x.SilentMS != -1 {
		t.Errorf("%+v", state)
	}
	for body, want := range map[string]int{
		`{"edge": "x", "seq": 1, "demand": {"high": 1, "low": 1}, "holds": {"high": 420, "low": 180}}`:  200,
		`{"edge": "x", "seq": 1, "demand": {"high": 1, "low": 1}, "holds": {"high": 420, "low": 180}} `: 409,
		`{"edge": "z", "seq": 2, "demand": {"high": 1, "low": 1}, "holds": {"high": 420, "low": 180}}`:  404,
		`{"edge": "x", "seq": 3, "demand": {"high": -1, "low": 1}, "holds": {"high": 420, "low": 180}}`: 400,
		`{"edge": "x", "seq": 4, "demand": {"high": 1}, "holds": {"high": 420, "low": 180}}`:            400,
		`{"edge": "x", "other": 1}`: 400,
		`{`:                         400,
	} {
		if strings.HasSuffix(body, " ") {
			continue // asked below, when the first has been
		}
		reply, err := http.Post(d.url("report"), "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		_ = reply.Body.Close()
		if reply.StatusCode != want {
			t.Errorf("%s: %s", body, reply.Status)
		}
	}
	reply, err := http.Post(d.url("report"), "application/json", strings.NewReader(`{"edge": "x", "seq": 1, "demand": {"high": 1, "low": 1}, "holds": {"high": 420, "low": 180}}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = reply.Body.Close()
	if reply.StatusCode != 409 {
		t.Errorf("the same report again: %s", reply.Status)
	}
	if !strings.Contains(d.stderr.String(), "location y has baseline=210,90") {
		t.Errorf("it said %q", d.stderr)
	}
	d.stop()
}
