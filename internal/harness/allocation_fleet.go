//go:build linux

package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"spillway/control/capacity"
	"spillway/internal/dist"
	"spillway/profiles"
)

// fleet is the processes of an allocation: an origin, an allocator, and the edges between users and origin.
type fleet struct {
	profile   *profiles.Profile
	policy    capacity.Policy
	origin    *process
	allocator *process
	edges     []*process
	down      []atomic.Bool // by edge: it has been killed
	killed    atomic.Bool   // the allocator has
	client    *http.Client  // for what is asked beside the load
}

// originPatience is how long the origin waits for the first head on a connection: longer than edges keep one that they have not used yet.
const originPatience = "2m"

// edgeName is how the allocator and the profile's faults know an edge.
func edgeName(i int) string { return "edge-" + strconv.Itoa(i+1) }

// edgeNumber is the inverse of edgeName; -1 for another name. Faults have been checked.
func edgeNumber(name string) int {
	rest, isEdge := strings.CutPrefix(name, "edge-")
	n, err := strconv.Atoi(rest)
	if !isEdge || err != nil {
		return -1
	}
	return n - 1
}

// startFleet starts all processes, the edges last. What was started is stopped again when one does not.
func startFleet(ctx context.Context, binary string, env []string, p *profiles.Profile, c *profiles.Controller) (f *fleet, err error) {
	w := &p.Workload
	a := w.Allocation
	f = &fleet{
		profile: p, policy: policy(w, w.Scenario()), down: make([]atomic.Bool, a.Locations),
		client: &http.Client{Timeout: a.Cycle, Transport: &http.Transport{MaxIdleConnsPerHost: 1}},
	}
	defer func() {
		if err != nil {
			f.stop()
		}
	}()
	live := a.LiveSettings()
	start := func(what string, args []string) (*process, error) {
		one, err := startProcess(ctx, binary, args, env)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		return one, nil
	}
	classes := classFlags(w)
	store, _, _ := strings.Cut(live.Path, "/")
	if store == "work" {
		store = "synthetic"
	}
	if f.origin, err = start("the origin", append([]string{"web", "--listen", "127.0.0.1:0", "--origin", "--store", store, "--header-timeout", originPatience}, classes...)); err != nil {
		return f, err
	}
	if f.allocator, err = start("the allocator", allocatorFlags(p, c, &live)); err != nil {
		return f, err
	}
	for i := range a.Locations {
		args := append([]string{
			"web", "--listen", "127.0.0.1:0", "--upstream", "http://" + f.origin.addr, "--upstream-conns", strconv.Itoa(w.Connections),
			"--control", "capacity", "--control-set", "baseline=" + f.baseline(i), "--control-set", "cycle=" + dist.FormatDuration(a.Cycle),
			"--control-set", "burst=" + strconv.FormatFloat(live.Burst, 'g', -1, 64),
			"--edge", edgeName(i), "--allocator", "http://" + f.allocator.addr,
		}, classes...)
		one, err := start(edgeName(i), args)
		if err != nil {
			return f, err
		}
		f.edges = append(f.edges, one)
	}
	return f, nil
}

func classFlags(w *profiles.Workload) (list []string) {
	for i := range w.Classes {
		list = append(list, "--class", w.Classes[i].Name)
	}
	return list
}

// allocatorFlags turns a profile into the command line of refserver allocator.
func allocatorFlags(p *profiles.Profile, c *profiles.Controller, live *profiles.Live) []string {
	w := &p.Workload
	a, s := w.Allocation, w.Scenario()
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	list := []string{
		"allocator", "--listen", "127.0.0.1:0", "--budget", number(float64(a.Budget)), "--cycle", dist.FormatDuration(a.Cycle),
		"--lease", dist.FormatDuration(live.Lease), "--keep", strconv.Itoa(live.Keep), "--absorb", strconv.Itoa(live.Absorb),
	}
	if floor := c.Settings["floor"]; floor != "" {
		list = append(list, "--floor", floor)
	}
	if c.Settings["order"] == "alike" {
		list = append(list, "--alike")
	}
	lend := strings.Split(c.Settings["lend"], ",")
	for i := range w.Classes {
		text := w.Classes[i].Name + "=" + number(w.ShareOf(s, i))
		if share := strings.TrimSpace(lend[i%len(lend)]); share != "" {
			text += ",lend=" + share
		}
		list = append(list, "--class", text)
	}
	for i := range a.Locations {
		// What the first class has reserved there says its weight: all classes are spread alike.
		list = append(list, "--location", edgeName(i)+"="+number(weightsOf(a)[i]))
	}
	return list
}

// baseline returns the rates of an edge without a grant, as its controller takes them.
func (f *fleet) baseline(edge int) string {
	var rates []string
	for k := range f.policy.Classes {
		rates = append(rates, strconv.FormatFloat(f.policy.Baseline[f.policy.Cell(k, edge)], 'g', -1, 64))
	}
	return strings.Join(rates, ",")
}

// kill ends a process as a power failure would.
func (f *fleet) kill(what string) error {
	victim := f.allocator
	if i := edgeNumber(what); i >= 0 {
		f.down[i].Store(true)
		victim = f.edges[i]
	} else {
		f.killed.Store(true)
	}
	if victim.died() {
		return fmt.Errorf("%s had ended by itself (%w)%s", what, victim.ended(), victim.words())
	}
	if err := victim.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("killing %s: %w", what, err)
	}
	return nil
}

// lost says which process has ended though nobody killed it; nil if none has.
func (f *fleet) lost() error {
	var errs []error
	look := func(what string, p *process, killed bool) {
		if !killed && p.died() {
			errs = append(errs, fmt.Errorf("%s ended during the run (%w)%s", what, p.ended(), p.words()))
		}
	}
	look("the origin", f.origin, false)
	look("the allocator", f.allocator, f.killed.Load())
	for i, e := range f.edges {
		look(edgeName(i), e, f.down[i].Load())
	}
	return errors.Join(errs...)
}

// stop ends all processes that were started: edges first, since they ask the others.
func (f *fleet) stop() {
	var edges sync.WaitGroup
	for _, e := range f.edges {
		edges.Go(e.stop)
	}
	edges.Wait()
	for _, p := range []*process{f.allocator, f.origin} {
		if p != nil {
			p.stop()
		}
	}
	f.client.CloseIdleConnections()
}

// get reads a page of figures.
func (f *fleet) get(ctx context.Context, p *process, page string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.addr+page, nil)
	if err != nil {
		return err
	}
	reply, err := f.client.Do(request)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(io.LimitReader(reply.Body, maxPage))
	if err == nil && reply.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: status %d", page, reply.StatusCode)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// maxPage bounds what is read of a page: five minutes of an origin's counts have less.
const maxPage = 4 << 20

// round is what all edges had in force at one time.
type round struct {
	at      time.Duration // since the load began
	granted []float64     // by cell; 0 of an edge that is down
	leased  bool          // some edge has a grant in force
	missing int           // edges that are up and did not answer
}

// look asks every edge what it has in force.
func (f *fleet) look(ctx context.Context, began time.Time) round {
	r := round{granted: make([]float64, f.policy.Cells())}
	for i, e := range f.edges {
		if f.down[i].Load() {
			continue
		}
		var stats map[string]float64
		if err := f.get(ctx, e, "/stats", &stats); err != nil {
			if !f.down[i].Load() {
				r.missing++
			}
			continue
		}
		for k := range f.policy.Classes {
			r.granted[f.policy.Cell(k, i)] = stats["meter_grant_"+strconv.Itoa(k)]
		}
		r.leased = r.leased || stats["meter_leased"] > 0
	}
	r.at = time.Since(began)
	return r
}

// originCounts is the page of an origin: requests by slot and class.
type originCounts struct {
	SlotMS int64      `json:"slot_ms"`
	Counts [][]uint32 `json:"counts"`
}

// total returns how many requests the origin was asked.
func (o *originCounts) total() (n int64) {
	for _, slot := range o.Counts {
		for _, c := range slot {
			n += int64(c)
		}
	}
	return n
}

// busiest returns the most requests in any second.
func (o *originCounts) busiest() (most int64) {
	slots := max(int(1000/max(o.SlotMS, 1)), 1)
	var sums []int64
	for _, slot := range o.Counts {
		sum := int64(0)
		for _, c := range slot {
			sum += int64(c)
		}
		sums = append(sums, sum)
	}
	within := int64(0)
	for i, n := range sums {
		within += n
		if i >= slots {
			within -= sums[i-slots]
		}
		most = max(most, within)
	}
	return most
}
