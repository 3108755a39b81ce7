//go:build linux

// Package graph is a server for questions about a graph that it holds in memory: neighbours, paths, triangles, personalised PageRank. The
// key of a get is the query, so any memcached client can ask. Processing times of the kinds of query are orders of magnitude apart, which
// is what an admission control by query class is made for; the production graph database that Bouncer was made for is not public, and
// this one stands in for it.
package graph

import (
	"errors"
	"sync"
	"sync/atomic"

	"spillway/internal/graphdb"
	"spillway/internal/memproto"
	"spillway/servers"
)

// Config says how a Backend works.
type Config struct {
	Graph       *graphdb.Graph
	Parallelism int // workers: so many queries are answered at a time
}

// Backend answers queries on workers of its own: one may take longer than an event loop may be away from its sockets.
type Backend struct {
	graph   *graphdb.Graph
	tasks   sync.Pool
	spare   sync.Pool   // workers of Do
	stop    atomic.Bool // tells running queries to end
	workers servers.Workers[*task]

	gets, wrong, edges atomic.Uint64
}

var (
	_ servers.Backend = (*Backend)(nil)
	_ servers.Waiting = (*Backend)(nil)

	_ servers.Classifier = (*Backend)(nil)
)

// task is one query on its way through the workers.
type task struct {
	query  graphdb.Query
	answer []byte
	err    error
	gone   atomic.Bool // nobody waits for the answer any more
}

// New starts the workers.
func New(c Config) (*Backend, error) {
	if c.Graph == nil || c.Parallelism < 1 {
		return nil, errors.New("graph: a graph and a parallelism of at least 1 are needed")
	}
	b := &Backend{graph: c.Graph}
	b.tasks.New = func() any { return new(task) }
	b.spare.New = func() any { return graphdb.NewWorker(c.Graph) }
	b.workers.Start(c.Parallelism, b.work)
	return b, nil
}

// work returns what answers one query after the other.
func (b *Backend) work() func(*task) {
	w := graphdb.NewWorker(b.graph)
	w.Stop = &b.stop
	return func(t *task) {
		if !t.gone.Load() {
			t.answer, t.err = w.Answer(&t.query, t.answer[:0])
			b.edges.Add(uint64(w.Work()))
		}
	}
}

// Step hands a query to the workers, and replies once they have its answer.
func (b *Backend) Step(c servers.Call) (servers.Pause, error) {
	t, _ := c.State().(*task)
	if t == nil {
		return b.begin(c)
	}
	defer b.end(t)
	c.SetState(nil)
	if !c.Gone() {
		b.reply(c.Command(), c.Reply(), t.answer, t.err)
	}
	return servers.Pause{}, nil
}

// end keeps t for another query.
func (b *Backend) end(t *task) {
	if len(t.answer) >= memproto.CopyBytes { // the reply refers to it
		t.answer = nil
	}
	b.tasks.Put(t)
}

func (b *Backend) begin(c servers.Call) (servers.Pause, error) {
	cmd := c.Command()
	if cmd.Verb != memproto.MetaGet && cmd.Verb != memproto.Get {
		return servers.Pause{}, b.Do(cmd, c.Reply())
	}
	query, err := theQuery(cmd)
	if err != nil {
		b.wrong.Add(1)
		c.Reply().Fail("CLIENT_ERROR " + err.Error())
		return servers.Pause{}, nil
	}
	t := b.tasks.Get().(*task)
	t.query, t.err = query, nil
	t.gone.Store(false)
	c.SetState(t)
	return b.workers.Submit(c, t), nil
}

// theQuery reads the only key of a get.
func theQuery(cmd *memproto.Command) (graphdb.Query, error) {
	key, err := servers.OnlyKey(cmd, "one query")
	if err != nil {
		return graphdb.Query{}, err
	}
	return graphdb.ParseQuery(key)
}

// ClassNames returns the names of the classes of requests, which are the kinds of query. What is no query is in the first: it takes no time.
func ClassNames() (names []string) {
	for k := range graphdb.NumKinds {
		names = append(names, k.String())
	}
	return names
}

// Classes returns ClassNames.
func (*Backend) Classes() []string { return ClassNames() }

// Class returns the kind of a query.
func (*Backend) Class(cmd *memproto.Command) uint16 { return uint16(graphdb.KindOf(cmd.Key)) }

// Cancel lets a query that no worker has begun pass without an answer. Its call is resumed all the same.
func (b *Backend) Cancel(c servers.Call) bool {
	c.State().(*task).gone.Store(true)
	return false
}

// Do answers a query at once, on the caller's time: on a modelled machine that is nobody's.
func (b *Backend) Do(cmd *memproto.Command, w *memproto.Writer) error {
	if cmd.Verb != memproto.MetaGet && cmd.Verb != memproto.Get {
		return errors.New("command " + cmd.Verb.String() + " is not for a graph server; ask with get KEY or mg KEY v, the key being a query")
	}
	query, err := theQuery(cmd)
	if err != nil {
		b.wrong.Add(1)
		w.Fail("CLIENT_ERROR " + err.Error())
		return nil
	}
	worker := b.spare.Get().(*graphdb.Worker)
	defer b.spare.Put(worker)
	answer, err := worker.Answer(&query, nil)
	b.reply(cmd, w, answer, err)
	return nil
}

// reply writes an answer.
func (b *Backend) reply(cmd *memproto.Command, w *memproto.Writer, answer []byte, err error) {
	if err != nil {
		b.wrong.Add(1)
		w.Fail("CLIENT_ERROR " + err.Error())
		return
	}
	b.gets.Add(1)
	w.Hit(cmd, memproto.Item{Key: cmd.Key, BinaryKey: cmd.BinaryKey, Value: answer})
}

// Stats yields counts, in memcached's names where it has one.
func (b *Backend) Stats(yield func(name string, value uint64) bool) {
	_ = yield("cmd_get", b.gets.Load()) && yield("cmd_set", 0) && yield("get_hits", b.gets.Load()) && yield("get_misses", 0) &&
		yield("delete_hits", 0) && yield("delete_misses", 0) &&
		yield("wrong_keys", b.wrong.Load()) && yield("edges_read", b.edges.Load()) &&
		yield("graph_vertices", uint64(b.graph.Vertices())) && yield("graph_edges", uint64(b.graph.Edges()))
}

// Close ends the workers, in the middle of a query if need be.
func (b *Backend) Close() error {
	b.stop.Store(true)
	b.workers.Stop()
	return nil
}
