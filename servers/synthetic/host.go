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
	Memory int64   // bytes that all requests together may hold; beyond it they fail. 0 means DefaultMemory
	Buffer int64   // bytes that streams run over; 0 for four times the largest cache
	Stream Streams // how they move their bytes
}

// DefaultMemory bounds what requests hold where nobody says otherwise: enough for experiments, and less than most computers have.
const DefaultMemory = 1 << 30

// maxHold is the longest step that holds a core of a real machine. Nothing can interrupt one, a shutdown included.
const maxHold = 10 * time.Second

// Host does on this computer what requests ask for. A request that waits, for a section, a lock or for time to pass, has no core meanwhile.
// One that has been given a lock keeps it while it queues for a core.
type Host struct {
	Backend
	limit  int64
	held   atomic.Int64
	most   atomic.Int64 // held at once
	moved  atomic.Uint64
	spin   spinner
	stream *stream
	jobs   sync.Pool
}

var (
	_ servers.Waiting    = (*Host)(nil)
	_ servers.Accountant = (*Host)(nil)
)

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
	if c.Stream != Stored && c.Stream != Loaded {
		return nil, fmt.Errorf("synthetic: streams of kind %d: they are Stored or Loaded", c.Stream)
	}
	s, err := newStream(c.Buffer, c.Stream)
	if err != nil {
		return nil, fmt.Errorf("synthetic: a buffer of %d bytes for streams: %w", c.Buffer, err)
	}
	h := &Host{limit: c.Memory, spin: calibrate(), stream: s}
	h.jobs.New = func() any { return new(job) }
	return h, nil
}

// Close frees the buffer.
func (h *Host) Close() error { return h.stream.close() }

// BytesMoved returns how many bytes requests have streamed over the memory bus. It grows while they do.
func (h *Host) BytesMoved() uint64 { return h.moved.Load() }

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
		c.SetState(j)
	}
	j.call = c
	if c.Gone() {
		h.end(j)
		return servers.Pause{}, nil
	}
	for j.pc < len(j.steps) {
		on, pause, err := h.step(j)
		if on {
			continue
		}
		if pause.Final() {
			h.end(j)
		}
		return pause, err
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
		if holds(&s) > maxHold {
			return dst, fmt.Errorf("step %q: on a real machine no step may hold a core for longer than %v", machine.AppendSteps(nil, []machine.Step{s}), maxHold)
		}
	}
	return dst, nil
}

// slowStream is a rate, in bytes per second, that any computer's memory exceeds.
const slowStream = 1e9

// holds returns for how long a step may hold a core; of a stream whose rate is not limited, as if memory were slow.
func holds(s *machine.Step) time.Duration {
	switch s.Kind {
	case machine.Compute, machine.Lock:
		return s.Duration
	case machine.Stream:
		rate := slowStream
		if s.Rate > 0 {
			rate = min(s.Rate, rate)
		}
		return time.Duration(min(float64(s.Bytes)/rate, 2*maxHold.Seconds()) * float64(time.Second))
	}
	return 0
}

// step does one step. on is true when the next one may follow at once; otherwise the request waits or is over, as pause says. A step that
// is waited for is done again after the wait, except for a Delay, which is the wait.
func (h *Host) step(j *job) (on bool, pause servers.Pause, err error) {
	s := &j.steps[j.pc]
	n := int(s.Index)
	switch s.Kind {
	case machine.Compute:
		h.spin.run(s.Duration)
	case machine.Stream:
		h.stream.move(s.Bytes, s.Rate, &h.moved)
	case machine.Lock:
		if has, wait := j.call.Lock(n); !has {
			return false, wait, nil
		}
		h.spin.run(s.Duration)
		j.call.Unlock(n)
	case machine.Delay:
		j.pc++
		return s.Duration == 0, servers.ForTime(s.Duration), nil
	case machine.Memory:
		if err := h.hold(j, s.Bytes); err != nil {
			return false, pause, err
		}
	case machine.Enter:
		if in, wait := j.call.Enter(n); !in {
			return false, wait, nil
		}
	case machine.Leave:
		j.call.Leave(n)
	}
	j.pc++
	return true, pause, nil
}

// Cancel ends a request that waits: for a section, a lock, or for time to pass.
func (h *Host) Cancel(c servers.Call) bool {
	h.end(c.State().(*job))
	return true
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
