//go:build linux

package synthetic

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"spillway/internal/memproto"
	"spillway/machine"
	"spillway/servers"
)

// Config says what a Host may use.
type Config struct {
	Memory int64 // bytes that all requests together may hold; beyond it they fail. 0 means DefaultMemory
	Buffer int64 // bytes that streams run over; 0 for four times the largest cache
}

// DefaultMemory bounds what requests hold where nobody says otherwise: enough for experiments, and less than most computers have.
const DefaultMemory = 1 << 30

// maxHold is the longest step that holds a core of a real machine. Nothing can interrupt one, a shutdown included.
const maxHold = 10 * time.Second

// Host does on this computer what requests ask for. A request that waits, for a lock or for time to pass, has no core meanwhile. One
// that has been given a lock keeps it while it queues for a core.
type Host struct {
	Backend
	limit  int64
	held   atomic.Int64
	most   atomic.Int64 // held at once
	moved  atomic.Uint64
	spin   spinner
	stream *stream
	locks  [machine.MaxIndex + 1]lock
	jobs   sync.Pool
}

var _ servers.Waiting = (*Host)(nil)

// NewHost calibrates its computing and fills its buffer, which takes some tens of milliseconds.
func NewHost(c Config) (*Host, error) {
	if c.Memory < 0 || c.Buffer < 0 {
		return nil, errors.New("synthetic: memory and buffer must not be negative")
	}
	if c.Memory == 0 {
		c.Memory = DefaultMemory
	}
	if c.Buffer == 0 {
		c.Buffer = 4 * largestCache()
	}
	s, err := newStream(c.Buffer)
	if err != nil {
		return nil, fmt.Errorf("synthetic: a buffer of %d bytes for streams: %w", c.Buffer, err)
	}
	h := &Host{limit: c.Memory, spin: calibrate(), stream: s}
	h.jobs.New = func() any { return new(job) }
	return h, nil
}

// Close frees the buffer.
func (h *Host) Close() error { return h.stream.close() }

// Stats adds what is held and what has been moved to the counts of commands.
func (h *Host) Stats(yield func(name string, value uint64) bool) {
	more := true
	h.Backend.Stats(func(name string, value uint64) bool {
		more = yield(name, value)
		return more
	})
	_ = more && yield("bytes_moved", h.moved.Load()) && yield("memory_held", uint64(h.held.Load())) &&
		yield("memory_held_max", uint64(h.most.Load())) && yield("memory_limit", uint64(h.limit))
}

// job is one request on its way through its steps.
type job struct {
	call   servers.Call
	steps  []machine.Step
	pc     int
	memory [][]byte
	waits  *lock // that it waits for, or has been given while it waited

	// Of a Lock step, guarded by the mutex of the lock.
	next   *job
	queued bool // among the lock's waiters
	owner  bool // has the lock
}

// resume lets j go on; a nil j is nobody.
func (j *job) resume() {
	if j != nil {
		j.call.Resume()
	}
}

// Step does the work of a request until it has to wait.
func (h *Host) Step(c servers.Call) (servers.Pause, error) {
	j, _ := c.State().(*job)
	if j == nil {
		j = h.jobs.Get().(*job)
		var err error
		if j.steps, err = h.parse(j.steps[:0], c.Command()); err != nil {
			h.wrong.Add(1)
			c.Reply().Fail("CLIENT_ERROR " + err.Error())
			h.end(j)
			return servers.Pause{}, nil
		}
		j.call = c
		c.SetState(j)
	}
	if c.Gone() {
		h.abort(j)
		return servers.Pause{}, nil
	}
	for j.pc < len(j.steps) {
		wait, pause, err := h.step(j)
		if err != nil {
			h.abort(j)
			return servers.Pause{}, err
		}
		if wait {
			return pause, nil
		}
	}
	h.end(j)
	return servers.Pause{}, h.Do(c.Command(), c.Reply())
}

func (h *Host) parse(dst []machine.Step, cmd *memproto.Command) ([]machine.Step, error) {
	dst, err := Costs{Bus: true}.Steps(dst, cmd)
	if err != nil {
		return dst, err
	}
	for _, s := range dst {
		if (s.Kind == machine.Compute || s.Kind == machine.Lock) && s.Duration > maxHold {
			return dst, fmt.Errorf("step %q: on a real machine no step may hold a core for longer than %v", machine.AppendSteps(nil, []machine.Step{s}), maxHold)
		}
	}
	return dst, nil
}

// step does one step. A step that is waited for is done again after the wait, except for a Delay, which is the wait.
func (h *Host) step(j *job) (wait bool, pause servers.Pause, err error) {
	s := &j.steps[j.pc]
	switch s.Kind {
	case machine.Compute:
		h.spin.run(s.Duration)
	case machine.Stream:
		h.stream.move(s.Bytes, s.Rate)
		h.moved.Add(uint64(s.Bytes))
	case machine.Lock:
		l := &h.locks[s.Index]
		j.waits = l // said first: once it is among the waiters it may be resumed
		if !l.acquire(j) {
			return true, servers.UntilResumed(), nil
		}
		h.spin.run(s.Duration)
		j.waits = nil
		l.release(j).resume()
	case machine.Delay:
		j.pc++
		return s.Duration > 0, servers.ForTime(s.Duration), nil
	case machine.Memory:
		if err := h.hold(j, s.Bytes); err != nil {
			return false, pause, err
		}
	case machine.Enter, machine.Leave: // everybody may
	}
	j.pc++
	return false, pause, nil
}

// Cancel ends a request that waits: for a lock, out of whose queue it goes, or for time to pass.
func (h *Host) Cancel(c servers.Call) bool {
	j := c.State().(*job)
	if j.waits != nil && !j.waits.leave(j) {
		return false
	}
	h.end(j)
	return true
}

// abort ends a request before its last step. It may own the lock that it has been waiting for.
func (h *Host) abort(j *job) {
	if j.waits != nil {
		j.waits.release(j).resume()
	}
	h.end(j)
}

// end releases the memory of a request and keeps the job for another.
func (h *Host) end(j *job) {
	for i, m := range j.memory {
		h.held.Add(-int64(len(m)))
		_ = syscall.Munmap(m) // it was mapped, so it can be unmapped
		j.memory[i] = nil
	}
	*j = job{steps: j.steps, memory: j.memory[:0]}
	h.jobs.Put(j)
}

// hold takes n bytes of memory from the system, all pages of it, until the end of the request.
func (h *Host) hold(j *job, n int64) error {
	if n == 0 {
		return nil
	}
	held := h.held.Add(n)
	if held > h.limit {
		h.held.Add(-n)
		return fmt.Errorf("out of memory: requests would hold more than %d bytes", h.limit)
	}
	m, err := syscall.Mmap(-1, 0, int(n), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_POPULATE)
	if err != nil {
		h.held.Add(-n)
		return fmt.Errorf("out of memory: %w", err)
	}
	for most := h.most.Load(); held > most && !h.most.CompareAndSwap(most, held); most = h.most.Load() {
	}
	j.memory = append(j.memory, m)
	return nil
}

// lock is a mutex whose waiters are requests and not threads. They get it in the order in which they came.
type lock struct {
	mu         sync.Mutex
	owner      *job
	head, tail *job
}

// acquire gives j the lock, or puts it among the waiters and returns false. A waiter is resumed when it owns the lock.
func (l *lock) acquire(j *job) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case j.owner:
		return true
	case l.owner == nil:
		l.owner, j.owner = j, true
		return true
	}
	if j.queued = true; l.tail == nil {
		l.head = j
	} else {
		l.tail.next = j
	}
	l.tail = j
	return false
}

// release hands the lock on, if j owns it. It returns who is to be resumed, nil for nobody.
func (l *lock) release(j *job) (next *job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !j.owner {
		return nil
	}
	next = l.head
	j.owner, l.owner = false, next
	if next != nil {
		if l.head = next.next; l.head == nil {
			l.tail = nil
		}
		next.next, next.queued, next.owner = nil, false, true
	}
	return next
}

// leave takes j out of the waiters. It returns false if it is not among them, because the lock is its own by now.
func (l *lock) leave(j *job) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !j.queued {
		return false
	}
	var before *job
	for w := l.head; w != j; w = w.next {
		before = w
	}
	if before == nil {
		l.head = j.next
	} else {
		before.next = j.next
	}
	if l.tail == j {
		l.tail = before
	}
	j.next, j.queued = nil, false
	return true
}
