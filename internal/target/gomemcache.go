//go:build linux

package target

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/bradfitz/gomemcache/memcache"

	"spillway/clock"
	"spillway/control"
	"spillway/internal/load"
	"spillway/internal/poll"
	"spillway/internal/reqlog"
	"spillway/workloads"
)

// GomemcacheTarget sends requests through github.com/bradfitz/gomemcache, the client that Go services use: what a user of it would see.
// It is for compatibility. What it cannot do, and this target therefore cannot:
//
//   - It has one request under way on a connection, so every request under way has a goroutine and a connection; Config.Conns bounds them.
//   - Its replies pass through Go's scheduler and network poller, whose delays are in the latencies. Each request allocates.
//   - It speaks the classic protocol: no server timings, no credits, no check that a reply belongs to its request. Of a refusal it returns
//     the text, from which the reason is taken.
//   - It does not tell how many bytes went over the wire; they are recorded as 0.
//   - It chooses among several servers by the key, not by the client.
//   - A request that timed out keeps its connection busy until the client's own time-out, counted from when it was handed over.
type GomemcacheTarget struct {
	cfg    Config
	client *memcache.Client
	poller *poll.Poller

	work    chan *job
	workers sync.WaitGroup
	started int    // workers
	idle    int    // of them
	issued  []*job // not handed over yet
	active  []*job // handed over, not come back
	spare   []*job

	nextCheck clock.Instant
	counters  load.Counters
	back      struct {
		sync.Mutex
		jobs []*job
	}
	taken []*job // of back.jobs
}

var _ load.Target = (*GomemcacheTarget)(nil)

// job is one request on its way through a worker.
type job struct {
	rec    reqlog.Record
	keys   []string
	value  []byte
	expire int32
	gone   bool // settled as timed out meanwhile
	place  int  // in active

	reply load.Reply // by the worker
}

// Gomemcache returns a target that is ready when it returns. Of c it uses Addr, Conns, Clock, Timeout, SLOs, Settle, Spin and Shards.
func Gomemcache(ctx context.Context, c Config) (*GomemcacheTarget, error) {
	c.Shards = max(c.Shards, 1)
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.controlled() || c.Priorities != nil {
		return nil, errors.New("gomemcache carries no credits and no priorities, and does not send again: use the client of this project")
	}
	if c.Model != nil {
		return nil, errors.New("gomemcache has no modelled time: use the client of this project on the model ground")
	}
	if _, err := Probe(ctx, c.Addr); err != nil {
		return nil, err
	}
	addrs, err := addresses(ctx, c.Addr)
	if err != nil {
		return nil, err
	}
	for i, addr := range addrs {
		if _, addrs[i], err = ParseAddr(addr); err != nil {
			return nil, err
		}
	}
	poller, err := poll.New()
	if err != nil {
		return nil, err
	}
	g := &GomemcacheTarget{
		cfg: c, client: memcache.New(addrs...), poller: poller, work: make(chan *job), nextCheck: clock.Never,
	}
	g.client.Timeout = c.Timeout
	g.client.MaxIdleConns = g.most()
	return g, nil
}

// most is how many requests may be under way.
func (g *GomemcacheTarget) most() int { return max(g.cfg.Conns/g.cfg.Shards, 1) }

// Counters returns what was noticed beside the fates of requests.
func (g *GomemcacheTarget) Counters() load.Counters { return g.counters }

// Issue takes one request.
func (g *GomemcacheTarget) Issue(now clock.Instant, rec *reqlog.Record, op *workloads.Op, _ uint32) {
	if len(g.issued)+len(g.active) >= g.most() {
		g.counters.WindowFull++
		g.cfg.judge(rec, load.Reply{At: now, Outcome: load.NotSent, Queued: -1, Service: -1})
		return
	}
	var j *job
	if n := len(g.spare); n > 0 {
		j, g.spare = g.spare[n-1], g.spare[:n-1]
	} else {
		j = &job{}
	}
	j.rec, j.gone = *rec, false
	j.rec.Attempts = 1
	j.keys = append(j.keys[:0], string(op.Key))
	for _, key := range op.More {
		j.keys = append(j.keys, string(key))
	}
	j.value, j.expire = append(j.value[:0], op.Value...), int32(op.Expire)
	g.issued = append(g.issued, j)
}

// Flush hands everything issued to workers, of which there are as many as requests under way.
func (g *GomemcacheTarget) Flush(clock.Instant) {
	for _, j := range g.issued {
		if g.idle == 0 {
			g.started++
			g.workers.Go(g.run)
		} else {
			g.idle--
		}
		j.rec.Sent = g.cfg.Clock.Now()
		j.place = len(g.active)
		g.active = append(g.active, j)
		g.nextCheck = min(g.nextCheck, j.rec.Intended.Add(g.cfg.Timeout))
		g.work <- j
	}
	g.issued = g.issued[:0]
}

// run is a worker.
func (g *GomemcacheTarget) run() {
	for j := range g.work {
		j.reply = j.do(g.client)
		j.reply.At = g.cfg.Clock.Now()
		g.back.Lock()
		g.back.jobs = append(g.back.jobs, j)
		g.back.Unlock()
		_ = g.poller.Wake() // fails only when the poller is closed, and then nobody waits
	}
}

// do makes the call.
func (j *job) do(c *memcache.Client) load.Reply {
	r := load.Reply{Queued: -1, Service: -1}
	var err error
	switch workloads.Kind(j.rec.Kind) {
	case workloads.Get:
		_, err = c.Get(j.keys[0])
		r.Hit = err == nil
	case workloads.MultiGet:
		var found map[string]*memcache.Item
		found, err = c.GetMulti(j.keys)
		for _, key := range j.keys {
			if found[key] != nil {
				r.Hits++
			}
		}
	case workloads.Set:
		err = c.Set(&memcache.Item{Key: j.keys[0], Value: j.value, Expiration: j.expire})
	case workloads.Delete:
		err = c.Delete(j.keys[0])
	}
	r.Outcome, r.Reason = outcome(err)
	return r
}

// outcome says what an error of the client means.
func outcome(err error) (load.Outcome, control.Reason) {
	var timeout net.Error
	switch {
	case err == nil, errors.Is(err, memcache.ErrCacheMiss), errors.Is(err, memcache.ErrNotStored):
		return load.Answered, control.NoReason
	case errors.As(err, &timeout) && timeout.Timeout():
		return load.Abandoned, control.NoReason
	}
	_, rest, found := strings.Cut(err.Error(), string(overloadPrefix))
	if !found {
		return load.Broken, control.NoReason
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') })
	if end < 0 {
		end = len(rest)
	}
	reason, _ := control.ParseReason([]byte(rest[:end]))
	return load.Shed, reason
}

// Wait delivers what came back and gives up on what took too long.
func (g *GomemcacheTarget) Wait(until clock.Instant) {
	var events [1]poll.Event
	for {
		now := g.cfg.Clock.Now()
		delivered := g.deliver()
		if now >= g.nextCheck {
			delivered = g.expire(now) || delivered
		}
		if delivered || now >= until {
			return
		}
		pause := max(min(until, g.nextCheck).Sub(now), 0)
		if g.cfg.Spin == load.SpinAlways {
			pause = 0
		} else {
			pause = max(pause-g.cfg.Spin, 0)
		}
		if _, _, err := g.poller.Wait(events[:], pause); err != nil {
			panic(fmt.Sprintf("target: %v", err))
		}
	}
}

// deliver settles what workers have brought back.
func (g *GomemcacheTarget) deliver() bool {
	g.back.Lock()
	g.taken, g.back.jobs = g.back.jobs, g.taken[:0]
	g.back.Unlock()
	for _, j := range g.taken {
		g.idle++
		last := len(g.active) - 1
		g.active[last].place = j.place
		g.active[j.place] = g.active[last]
		g.active = g.active[:last]
		switch {
		case j.gone:
			g.counters.LateAfter++
		default:
			if j.reply.Outcome == load.Abandoned {
				g.counters.TimedOutReply++
			}
			g.cfg.judge(&j.rec, j.reply)
		}
		g.spare = append(g.spare, j)
	}
	return len(g.taken) > 0
}

// expire settles what has timed out. Its worker is busy with it for some time yet.
func (g *GomemcacheTarget) expire(now clock.Instant) (some bool) {
	g.nextCheck = clock.Never
	for _, j := range g.active {
		if j.gone {
			continue
		}
		if at := j.rec.Intended.Add(g.cfg.Timeout); at > now {
			g.nextCheck = min(g.nextCheck, at)
			continue
		}
		j.gone, some = true, true
		g.counters.TimedOutReply++
		rec := j.rec // the worker may still read its own
		g.cfg.judge(&rec, load.Reply{At: now, Outcome: load.Abandoned, Queued: -1, Service: -1})
	}
	return some
}

// Close settles what is pending as timed out, closes the connections and waits for the workers.
func (g *GomemcacheTarget) Close() error {
	g.deliver()
	now := g.cfg.Clock.Now()
	for _, j := range append(g.active, g.issued...) {
		if !j.gone {
			j.gone = true
			rec := j.rec
			g.cfg.judge(&rec, load.Reply{At: now, Outcome: load.Abandoned, Queued: -1, Service: -1})
		}
	}
	close(g.work)
	g.workers.Wait()
	return errors.Join(g.client.Close(), g.poller.Close())
}
