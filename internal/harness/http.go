//go:build linux

package harness

import (
	"context"
	"strings"

	"spillway/internal/drive"
	"spillway/internal/httptarget"
	"spillway/internal/load"
	"spillway/internal/target"
	"spillway/profiles"
	"spillway/workloads"
)

// overHTTP reports whether a server is spoken to in HTTP.
func overHTTP(url string) bool {
	return strings.HasPrefix(url, "http://") || strings.HasPrefix(url, "https://")
}

// refuseHTTP says what cannot be asked of an HTTP server.
func refuseHTTP(p *profiles.Profile) error {
	url, w := p.Server.Settings["target"], &p.Workload
	if p.Server.Kind == kindWeb {
		url = webURL(w.Kind, "127.0.0.1:1")
	} else if p.Server.Kind != "external" || !overHTTP(url) {
		return nil
	}
	template, err := httptarget.ParseURL(url)
	switch {
	case err != nil:
		return mistake(p, "server.settings.target", "server.settings: %w", err)
	case w.Client == profiles.ClientGomemcache:
		return mistake(p, "workload.client", "workload.client: gomemcache speaks no HTTP; leave it out")
	case w.InFlight > 1:
		return mistake(p, "workload.in_flight", "workload.in_flight: HTTP/1.1 has one request under way on a connection; bound them by max_connections")
	case p.Retry != nil:
		return mistake(p, "retry", "retry: not over HTTP, where there is one server")
	}
	for i := range w.Classes {
		c := &w.Classes[i]
		several := c.Op == workloads.MultiGet.String() || c.Mix[workloads.MultiGet.String()] > 0
		if several {
			return usage("%s: workload.classes: class %s: HTTP has no multiget", p.File(), c.Name)
		}
		if reads := c.Op == workloads.Get.String() && len(c.Mix) == 0; !template.Keyed && !reads {
			return usage("%s: workload.classes: class %s: a target without {key} in its path is only read", p.File(), c.Name)
		}
	}
	return nil
}

// httpClasses are what is asked of an HTTP server where nobody says otherwise: without a key in the path there is one thing to ask for.
func httpClasses(url string) string {
	if t, err := httptarget.ParseURL(url); err == nil && !t.Keyed {
		return "[{name: get, share: 1, key: k, keys: 1, value: 1B, op: get}]"
	}
	return defaultClasses
}

// fillHTTP proves that an HTTP server answers, and stores what the workload reads where a path has keys.
func (h *host) fillHTTP(ctx context.Context, s *server, observe func(string)) error {
	probe, cancel := context.WithTimeout(ctx, statsDeadline)
	defer cancel()
	var err error
	if s.facts.Version, err = httptarget.Probe(probe, s.url); err != nil {
		return err
	}
	template, err := httptarget.ParseURL(s.url)
	if err != nil {
		return err
	}
	asked, err := h.workload()
	if err != nil {
		return err
	}
	reads, ok := asked.(workloads.Preloader)
	if !ok || h.config.NoPreload || !template.Keyed {
		return nil
	}
	observe("preload")
	within, cancel := context.WithTimeout(ctx, preloadDeadline)
	defer cancel()
	stored, err := httptarget.Preload(within, s.url, h.classNames(), reads)
	s.stored = stored.Items
	return roomier(h.profile, err)
}

func (h *host) classNames() (names []string) {
	for i := range h.profile.Workload.Classes {
		names = append(names, h.profile.Workload.Classes[i].Name)
	}
	return names
}

// httpOpener returns how the senders of a point connect to an HTTP server.
func (h *host) httpOpener(url string) func(context.Context, drive.Opening) (load.Target, error) {
	w := &h.profile.Workload
	c := httptarget.Config{
		URL: url, Classes: h.classNames(), Conns: w.Connections, MaxConns: w.MaxConnections, Timeout: h.profile.Timeout,
	}
	prioritised := false
	for _, class := range loadClasses(h.profile) {
		c.SLOs = append(c.SLOs, class.SLO)
		c.Priorities = append(c.Priorities, class.Priority)
		prioritised = prioritised || class.Priority != 0
	}
	if !prioritised {
		c.Priorities = nil
	}
	return func(ctx context.Context, o drive.Opening) (load.Target, error) {
		own := c
		own.Clock, own.Settle, own.Spin, own.Shard, own.Shards = o.Clock, o.Settle, o.Spin, o.Shard, o.Shards
		t, err := httptarget.Open(ctx, own)
		if err != nil {
			return nil, err // not t: a nil pointer in an interface is no nil
		}
		return t, nil
	}
}

// serverStats returns a server's statistics by name: of memcached those of the topic, of ours over HTTP all that there are.
func serverStats(ctx context.Context, url, topic string) (map[string]string, error) {
	if overHTTP(url) {
		return httptarget.Stats(ctx, url)
	}
	return target.Stats(ctx, url, topic)
}
