//go:build linux

package harness

import (
	"context"
	"fmt"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/internal/arrival"
	"spillway/internal/dist"
	"spillway/internal/drive"
	"spillway/internal/load"
	"spillway/internal/target"
	"spillway/profiles"
	"spillway/workloads"
)

// generator returns the requests of a point, the same on every ground, and the classes that they belong to.
func generator(p *profiles.Profile, point *Point, w workloads.Workload, t spans) (*load.Generator, []load.Class, error) {
	g, err := shard(p, point, w, t, 0, 1)
	return g, loadClasses(p), err
}

func loadClasses(p *profiles.Profile) (classes []load.Class) {
	for i := range p.Workload.Classes {
		c := &p.Workload.Classes[i]
		classes = append(classes, load.Class{Name: c.Name, SLO: c.SLO.Limit, Priority: uint8(c.Priority)})
	}
	return classes
}

// shard returns one sender's part of the requests of a point.
func shard(p *profiles.Profile, point *Point, w workloads.Workload, t spans, i, n int) (*load.Generator, error) {
	asked := p.Workload
	if point.steady {
		asked.Shape = ""
	}
	var arrivals arrival.Process
	var err error
	if log, ok := w.(*replayed); ok {
		arrivals, err = log.arrivals(p, point, t.warmUp)
	} else if len(p.Load.Phases) > 0 {
		arrivals, err = p.Load.Process(asked.Arrivals, t.warmUp)
	} else {
		arrivals, err = asked.Process(point.Rate, t.warmUp, t.window)
	}
	if err != nil {
		return nil, err
	}
	return load.NewGenerator(load.Config{
		Seed: point.Seed, Clients: asked.Connections, Workload: w, Arrivals: arrivals, End: clock.Instant(t.warmUp + t.window), Shard: i, Shards: n,
	})
}

// sources returns the requests of a point for each sender. The clients of a closed loop think so long on average that they would ask at the
// rate if they were answered at once.
func (h *host) sources(point *Point, t spans) (list []drive.Source, err error) {
	w := &h.profile.Workload
	n := max(w.Senders, 1)
	for i := range n {
		asked, err := h.workload()
		if err != nil {
			return nil, err
		}
		if asked, err = vary(asked, h.profile, t.warmUp); err != nil {
			return nil, err
		}
		var source drive.Source
		if w.Closed() {
			source, err = load.NewClosed(load.ClosedConfig{
				Seed: point.Seed, Clients: w.Connections, Workload: asked, Think: dist.Exponential{Expect: float64(w.Connections) / point.Rate * 1e9},
				End: clock.Instant(t.warmUp + t.window), Shard: i, Shards: n,
			})
		} else {
			source, err = shard(h.profile, point, asked, t, i, n)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, source)
	}
	return list, nil
}

// opener returns how the senders of a point connect to a server. They keep the clients' halves of its control in clients.
func (h *host) opener(url string, p *Point, clients *halves) (func(context.Context, drive.Opening) (load.Target, error), error) {
	if overHTTP(url) {
		return h.httpOpener(url), nil
	}
	w := &h.profile.Workload
	stack, err := h.clientHalf(p)
	if err != nil {
		return nil, err
	}
	c := target.Config{
		Addr: url, Conns: w.Connections, MaxConns: w.MaxConnections, Window: w.InFlight, Timeout: h.profile.Timeout, Timings: true,
		NewClient: clients.collect(stack.NewClient), Seed: p.Seed,
	}
	for _, class := range loadClasses(h.profile) {
		c.SLOs = append(c.SLOs, class.SLO)
		if stack.NewClient != nil {
			c.Priorities = append(c.Priorities, class.Priority)
		}
	}
	if retry := h.profile.Retry; retry != nil {
		c.Retry = &load.Retry{Budget: retry.Budget, First: retry.Primary == profiles.PrimaryFirst}
	}
	if h.modelled != nil {
		c.Model = &target.Model{Network: h.modelled.spec.Network, Prompt: stack.NewClient != nil || h.profile.Retry != nil}
	}
	return func(ctx context.Context, o drive.Opening) (load.Target, error) {
		own := c
		own.Clock, own.Settle, own.Spin, own.Shard, own.Shards = o.Clock, o.Settle, o.Spin, o.Shard, o.Shards
		if w.Client == profiles.ClientGomemcache {
			// It has one request under way on a connection, so the bound on those is its only one.
			own.Conns = max(w.MaxConnections, w.Connections)
			g, err := target.Gomemcache(ctx, own)
			if err != nil {
				return nil, err // not g: a nil pointer in an interface is no nil
			}
			return g, nil
		}
		m, err := target.Memcached(ctx, own)
		if err != nil {
			return nil, err
		}
		return m, nil
	}, nil
}

// clientHalf returns the stack of a point's controller, of which clients have one half and the server, which makes its own, the other. Who
// runs a server of their own decides what stands there; its clients just send.
func (h *host) clientHalf(p *Point) (control.Stack, error) {
	if h.profile.Server.Kind == "external" {
		return control.Stack{}, nil
	}
	cores := h.procs
	if h.modelled != nil {
		cores = h.modelled.spec.Cores
	}
	slo := time.Duration(0)
	if text := h.profile.Server.Settings["slo"]; text != "" {
		slo, _ = dist.ParseDuration(text) // it has been checked
	}
	return build(&p.Controller, environment(h.profile, cores, slo, p.Seed))
}

// refuseLoad says what of the way in which p is loaded its ground cannot do.
func refuseLoad(p *profiles.Profile) error {
	w := &p.Workload
	several, back := "", ""
	for i := range w.Classes {
		c := &w.Classes[i]
		if c.Op == workloads.MultiGet.String() || c.Mix[workloads.MultiGet.String()] > 0 {
			several = c.Name
		}
		if c.WriteBack != "" {
			back = c.Name
		}
	}
	only := func(key, why string) error {
		return usage("%s: %s: not on the ground %s: %s", p.File(), key, p.On, why)
	}
	switch {
	case p.On == groundSim && w.Closed():
		return only("workload.arrivals", "a simulation has no closed loop")
	case p.On == groundSim && back != "":
		return only("write_back of class "+back, "a modelled store has no misses")
	case p.On == groundModel && several != "":
		return only("multiget of class "+several, "the classic get carries no modelled instants")
	case p.On != groundHost && w.Client == profiles.ClientGomemcache:
		return only("workload.client", "gomemcache knows no modelled time")
	case w.Closed() && len(p.Load.OfCapacity) > 0:
		return usage("%s: load.of_capacity: a closed loop offers what the server lets it; give rates", p.File())
	}
	return nil
}

// selfTest measures how well this computer paces, for the manifest.
func selfTest(ctx context.Context, pace drive.Pace, span time.Duration) (drive.Pacing, error) {
	p, err := drive.SelfTest(ctx, pace, selfTestRate, span, openSink)
	if err != nil {
		return p, fmt.Errorf("pacing self-test: %w", err)
	}
	return p, nil
}
