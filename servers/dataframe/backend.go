//go:build linux

// Package dataframe is a server for operations on a data frame of minute bars that it holds in memory: maxima, quantiles, rolling windows, oscillators, clusters,
// decompositions. The key of a get names the operation, so any memcached client can ask. Some of the operations are bound by the processor, others by
// memory bandwidth (decompose, decay and ad); those go through the memory section.
package dataframe

import (
	"errors"
	"sync"
	"sync/atomic"

	"spillway/internal/frames"
	"spillway/internal/memproto"
	"spillway/servers"
)

// memorySection is the number of the section that operations go through which are bound by memory.
const memorySection = 0

// Config says how a Backend works.
type Config struct {
	Frame       *frames.Frame
	Parallelism int  // workers: so many operations are computed at a time
	Full        bool // results are sent whole, not in summary
}

// Backend computes operations on workers of its own: one may take longer than an event loop may be away from its sockets.
type Backend struct {
	config  Config
	rows    int
	tasks   sync.Pool
	stop    atomic.Bool // tells running operations to end
	workers servers.Workers[*task]
	known   memory

	gets, wrong, moved atomic.Uint64
}

var (
	_ servers.Backend    = (*Backend)(nil)
	_ servers.Waiting    = (*Backend)(nil)
	_ servers.Accountant = (*Backend)(nil)
	_ servers.Classifier = (*Backend)(nil)
)

// task is one operation on its way through the memory section and the workers.
type task struct {
	query     frames.Query
	submitted bool // the workers have it, or have had it
	answer    []byte
	err       error
	gone      atomic.Bool // nobody waits for the answer any more
}

// New starts the workers.
func New(c Config) (*Backend, error) {
	if c.Frame == nil || c.Parallelism < 1 {
		return nil, errors.New("dataframe: a frame and a parallelism of at least 1 are needed")
	}
	b := &Backend{config: c, rows: c.Frame.Rows()}
	b.tasks.New = func() any { return new(task) }
	b.workers.Start(c.Parallelism, b.work)
	return b, nil
}

// newWorker returns what computes.
func (b *Backend) newWorker() *frames.Worker {
	w := frames.NewWorker(b.config.Frame)
	w.Full, w.Stop = b.config.Full, &b.stop
	w.Moved = func(bytes int64) { b.moved.Add(uint64(bytes)) }
	return w
}

// work returns what computes one operation after the other.
func (b *Backend) work() func(*task) {
	w := b.newWorker()
	return func(t *task) {
		if !t.gone.Load() {
			t.answer, t.err = w.Answer(&t.query, t.answer[:0])
		}
	}
}

// Step has an operation enter the memory section, if it is of those that are bound by memory, then hands it to the workers, and replies once they are done.
func (b *Backend) Step(c servers.Call) (servers.Pause, error) {
	t, _ := c.State().(*task)
	switch {
	case t == nil:
		return b.begin(c)
	case t.submitted:
		defer b.end(c, t)
		if c.Gone() {
			return servers.Pause{}, nil
		}
		return servers.Pause{}, b.reply(c.Command(), c.Reply(), t.answer, t.err)
	case c.Gone():
		b.end(c, t)
		return servers.Pause{}, nil
	}
	return b.enter(c, t)
}

func (b *Backend) begin(c servers.Call) (servers.Pause, error) {
	query, ok, err := b.accept(c.Command(), c.Reply())
	if !ok {
		return servers.Pause{}, err
	}
	t := b.tasks.Get().(*task)
	t.query = query
	c.SetState(t)
	if query.Kind.MemoryBound() {
		return b.enter(c, t)
	}
	return b.submit(c, t)
}

// enter has an operation go into the memory section, which may make it wait or turn it away.
func (b *Backend) enter(c servers.Call, t *task) (servers.Pause, error) {
	in, pause := c.Enter(memorySection)
	switch {
	case in:
		return b.submit(c, t)
	case pause.Final():
		b.end(c, t)
	}
	return pause, nil
}

// submit gives a task to the workers.
func (b *Backend) submit(c servers.Call, t *task) (servers.Pause, error) {
	t.submitted = true
	return b.workers.Submit(c, t), nil
}

// end keeps t for another operation.
func (b *Backend) end(c servers.Call, t *task) {
	c.SetState(nil)
	answer := t.answer[:0]
	if len(t.answer) >= memproto.CopyBytes { // the reply refers to it
		answer = nil
	}
	*t = task{answer: answer}
	b.tasks.Put(t)
}

// Cancel ends a call that waits for the memory section. One that the workers have is let go when they bring it back.
func (b *Backend) Cancel(c servers.Call) bool {
	t := c.State().(*task)
	if t.submitted {
		t.gone.Store(true)
		return false
	}
	b.end(c, t)
	return true
}

// accept says which operation a command asks for. When ok is false there is none; either the command has been answered, or err says what is wrong.
func (b *Backend) accept(cmd *memproto.Command, w *memproto.Writer) (q frames.Query, ok bool, err error) {
	if cmd.Verb != memproto.MetaGet && cmd.Verb != memproto.Get {
		return q, false, errors.New("command " + cmd.Verb.String() + " is not for a data frame; ask with get KEY or mg KEY v, the key being an operation")
	}
	q, err = theQuery(cmd)
	if err == nil {
		err = q.Check(b.rows)
	}
	if err != nil {
		b.wrong.Add(1)
		w.Fail("CLIENT_ERROR " + err.Error())
		return q, false, nil
	}
	return q, true, nil
}

// theQuery reads the only key of a get.
func theQuery(cmd *memproto.Command) (frames.Query, error) {
	key, err := servers.OnlyKey(cmd, "for one operation")
	if err != nil {
		return frames.Query{}, err
	}
	return frames.ParseQuery(key)
}

// ClassNames returns the names of the classes of requests, which are the operations. What is none is in the first: it takes no time.
func ClassNames() (names []string) {
	for k := range frames.NumKinds {
		names = append(names, k.String())
	}
	return names
}

// Classes returns ClassNames.
func (*Backend) Classes() []string { return ClassNames() }

// Class returns the number of an operation.
func (*Backend) Class(cmd *memproto.Command) uint16 {
	k, _ := frames.KindOf(cmd.Key)
	return uint16(k)
}

// Do computes an operation at once, on the caller's time: on a modelled machine that is nobody's. What has been computed before is not computed again.
func (b *Backend) Do(cmd *memproto.Command, w *memproto.Writer) error {
	query, ok, err := b.accept(cmd, w)
	if !ok {
		return err
	}
	answer, err := b.known.answer(b, &query)
	return b.reply(cmd, w, answer, err)
}

// memory keeps the answers to the operations that Do was asked for: a frame does not change.
type memory struct {
	sync.Mutex
	worker  *frames.Worker
	answers map[frames.Query][]byte
}

// maxAnswers is how many answers are kept, and only while they are short: summaries.
const (
	maxAnswers = 1000
	maxKept    = 4 << 10
)

func (m *memory) answer(b *Backend, q *frames.Query) ([]byte, error) {
	m.Lock()
	defer m.Unlock()
	if a, ok := m.answers[*q]; ok {
		return a, nil
	}
	if m.worker == nil {
		m.worker, m.answers = b.newWorker(), map[frames.Query][]byte{}
	}
	a, err := m.worker.Answer(q, nil)
	if err == nil && len(a) <= maxKept && len(m.answers) < maxAnswers {
		m.answers[*q] = a
	}
	return a, err
}

// reply writes an answer. An operation that was ended by the end of the server has failed; all other errors are the query's.
func (b *Backend) reply(cmd *memproto.Command, w *memproto.Writer, answer []byte, err error) error {
	switch {
	case errors.Is(err, frames.ErrStopped):
		return err
	case err != nil:
		b.wrong.Add(1)
		w.Fail("CLIENT_ERROR " + err.Error())
		return nil
	}
	b.gets.Add(1)
	w.Hit(cmd, memproto.Item{Key: cmd.Key, BinaryKey: cmd.BinaryKey, Value: answer})
	return nil
}

// BytesMoved returns how many bytes the operations that are bound by memory have moved. It grows while they do. What the others read is not in it: all
// requests read the same columns, so a cache has them.
func (b *Backend) BytesMoved() uint64 { return b.moved.Load() }

// Stats yields counts, in memcached's names where it has one.
func (b *Backend) Stats(yield func(name string, value uint64) bool) {
	_ = yield("cmd_get", b.gets.Load()) && yield("cmd_set", 0) && yield("get_hits", b.gets.Load()) && yield("get_misses", 0) &&
		yield("delete_hits", 0) && yield("delete_misses", 0) &&
		yield("wrong_keys", b.wrong.Load()) && yield("bytes_moved", b.moved.Load()) &&
		yield("frame_rows", uint64(b.rows)) && yield("frame_bytes", uint64(b.config.Frame.Bytes()))
}

// Close ends the workers, in the middle of an operation if need be.
func (b *Backend) Close() error {
	b.stop.Store(true)
	b.workers.Stop()
	return nil
}
