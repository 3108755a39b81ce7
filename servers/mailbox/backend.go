//go:build linux

// Package mailbox is a server of the kind that the staging queue was made for: a request fetches a mailbox, and holds memory in proportion
// to it while it works. With enough large mailboxes at once the memory that the server may use runs out, and the server dies: of the
// kernel's out-of-memory killer, or of memory that it asks for and does not get.
//
// A mailbox is named by the key of a get, so any memcached client can ask for one; its size follows from the name (workloads.Mailboxes). The
// memory is real, and so is the writing and reading of it. The fetching and handing over, which in a real server wait for a disk and for a
// slow client, are waits.
package mailbox

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"spillway/internal/memproto"
	"spillway/machine"
	"spillway/servers"
	"spillway/workloads"
)

// Config says what a Backend serves, and what it does when memory gets scarce.
type Config struct {
	Boxes workloads.MailboxConfig

	// PutBack is the share of its memory limit at which half-done work is put back on the queue: requests, the youngest first, give back what
	// they hold and begin anew when no more than TakeAgain is in use. 0 for never. One always goes on. Memory reads what is in use and the
	// limit, in bytes; it is needed for PutBack alone.
	PutBack, TakeAgain float64
	Memory             func() (used, limit float64, err error)

	Rivals []Rival

	// Die is called when the system gives no more memory; it ends the process and does not return. Nil to panic.
	Die func(error)
}

// Rival is memory that is taken away from the server as another program on the same host would: so many bytes, for a time. The server's own
// process maps them, so that they count under a limit of whatever kind, but no request holds them.
type Rival struct {
	Bytes int64
	After time.Duration // the first request
	For   time.Duration
}

// Check says what is wrong with c, nil if nothing is.
func (c *Config) Check() error {
	if err := c.Boxes.Check(); err != nil {
		return err
	}
	switch {
	case c.PutBack == 0 && c.TakeAgain != 0:
		return errors.New("work is taken again only where it is put back")
	case c.PutBack != 0 && !(c.TakeAgain > 0 && c.PutBack > c.TakeAgain && c.PutBack <= 1):
		return fmt.Errorf("work is put back at %g of the limit and taken again below %g: they must be above 0, at most 1, and the second below the first",
			c.PutBack, c.TakeAgain)
	case c.PutBack != 0 && c.Memory == nil:
		return errors.New("putting work back needs a memory limit to go by")
	}
	for _, r := range c.Rivals {
		if r.Bytes < 1 || r.After < 0 || r.For <= 0 {
			return errors.New("a rival takes at least a byte, for longer than 0")
		}
	}
	return nil
}

// Backend serves mailboxes.
type Backend struct {
	config  Config
	jobs    sync.Pool
	first   sync.Once
	closing chan struct{}
	running sync.WaitGroup

	gets, wrong, served atomic.Uint64
	rival               atomic.Int64 // bytes that rivals hold

	mu struct {
		sync.Mutex
		held, mostHeld int64
		open, mostOpen int
		fetching       jobList // oldest first
		waiting        jobList // put back, and to begin anew; oldest first
		backs          backs
	}
}

// backs is what putting work back has cost.
type backs struct {
	count uint64
	bytes uint64        // of memory given back
	lost  time.Duration // for which requests had worked in vain
}

var (
	_ servers.Backend = (*Backend)(nil)
	_ servers.Waiting = (*Backend)(nil)
)

// New returns a Backend that holds nothing yet.
func New(c Config) (*Backend, error) {
	if err := c.Check(); err != nil {
		return nil, fmt.Errorf("mailbox: %w", err)
	}
	b := &Backend{config: c, closing: make(chan struct{})}
	b.jobs.New = func() any {
		boxes, err := workloads.NewMailboxes(c.Boxes)
		if err != nil {
			panic("mailbox: " + err.Error()) // it has just been checked
		}
		return &job{boxes: boxes}
	}
	if c.PutBack > 0 {
		b.running.Go(b.watch)
	}
	return b, nil
}

// Close ends what goes on in the background.
func (b *Backend) Close() error {
	close(b.closing)
	b.running.Wait()
	return nil
}

// job is one request on its way.
type job struct {
	boxes *workloads.Mailboxes
	call  servers.Call
	box   workloads.Mailbox

	// Guarded by Backend.mu.
	state  state
	memory []byte
	since  time.Time // when it began to fetch
	jobLinks
}

type state uint8

const (
	fetching state = iota // holds its memory
	backed                // has given it back, and has not noticed
	waiting               // for its turn to begin anew
	again                 // it is its turn
)

// Step serves a request until it has to wait: for its mailbox, or for room.
func (b *Backend) Step(c servers.Call) (servers.Pause, error) {
	j, _ := c.State().(*job)
	if j == nil {
		b.first.Do(b.startRivals)
		j = b.jobs.Get().(*job)
		var ok bool
		if j.box, ok = boxOf(j.boxes, c.Command()); !ok {
			b.jobs.Put(j)
			b.wrong.Add(1)
			c.Reply().Fail("CLIENT_ERROR " + wrongKey)
			return servers.Pause{}, nil
		}
		if !c.Command().Verb.Retrieval() {
			b.jobs.Put(j)
			return servers.Pause{}, b.Do(c.Command(), c.Reply())
		}
		j.call = c
		c.SetState(j)
		return b.fetch(j), nil
	}
	if c.Gone() {
		b.end(j)
		return servers.Pause{}, nil
	}
	b.mu.Lock()
	switch j.state {
	case backed:
		j.state = waiting
		b.mu.waiting.push(j)
		b.mu.Unlock()
		return servers.UntilResumed(), nil
	case again:
		b.mu.Unlock()
		return b.fetch(j), nil
	}
	// Whoever puts work back must not take what is being read now.
	b.mu.fetching.remove(j)
	b.mu.Unlock()
	readThrough(j.memory)
	b.served.Add(uint64(len(j.memory)))
	b.end(j)
	return servers.Pause{}, b.Do(c.Command(), c.Reply())
}

// fetch takes the memory of a mailbox and waits for what is to go there.
func (b *Backend) fetch(j *job) servers.Pause {
	m := b.take(j.box.Bytes)
	b.mu.Lock()
	defer b.mu.Unlock()
	j.memory, j.state, j.since = m, fetching, time.Now()
	b.mu.held += j.box.Bytes
	b.mu.open++
	b.mu.mostHeld, b.mu.mostOpen = max(b.mu.mostHeld, b.mu.held), max(b.mu.mostOpen, b.mu.open)
	b.mu.fetching.push(j)
	return servers.ForTime(j.box.Hold)
}

// Cancel ends a request that waits.
func (b *Backend) Cancel(c servers.Call) bool {
	j := c.State().(*job)
	b.mu.Lock()
	if j.state == again {
		b.mu.Unlock()
		return false
	}
	m := b.leave(j)
	b.mu.Unlock()
	b.free(j, m)
	return true
}

// end ends a request that does not wait.
func (b *Backend) end(j *job) {
	b.mu.Lock()
	m := b.leave(j)
	b.mu.Unlock()
	b.free(j, m)
}

// leave takes a job out of its list, and its memory off it.
func (b *Backend) leave(j *job) (m []byte) {
	b.mu.fetching.remove(j)
	b.mu.waiting.remove(j)
	return b.release(j)
}

// free gives memory back to the system, and keeps the job for another request.
func (b *Backend) free(j *job, m []byte) {
	give(m)
	*j = job{boxes: j.boxes}
	b.jobs.Put(j)
}

// release takes its memory off a job; the caller gives it back to the system, without the lock.
func (b *Backend) release(j *job) (m []byte) {
	if j.memory == nil {
		return nil
	}
	m, j.memory = j.memory, nil
	b.mu.held -= j.box.Bytes
	b.mu.open--
	return m
}

// Held returns the bytes that requests hold.
func (b *Backend) Held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.held
}

// Do answers a get with the size of its mailbox.
func (b *Backend) Do(cmd *memproto.Command, w *memproto.Writer) error {
	if !cmd.Verb.Retrieval() {
		return errors.New("command " + cmd.Verb.String() + " is not for a mailbox server; ask with get")
	}
	j := b.jobs.Get().(*job)
	defer b.jobs.Put(j)
	var text [20]byte
	for key := range cmd.ItemKeys {
		box, ok := j.boxes.Of(key)
		if !ok {
			b.wrong.Add(1)
			w.Fail("CLIENT_ERROR " + wrongKey)
			return nil
		}
		b.gets.Add(1)
		item := memproto.Item{Key: key, Value: strconv.AppendInt(text[:0], box.Bytes, 10)}
		if cmd.Verb == memproto.MetaGet {
			item.BinaryKey = cmd.BinaryKey
			w.Hit(cmd, item)
			break // what follows the key are no keys
		}
		w.Hit(cmd, item)
	}
	return nil
}

const wrongKey = "a key that begins with ! is written as !150000000:4000ms: the bytes to be held, and for how long"

// boxOf returns what the keys of a command name, all together. ok is false when one of them names nothing.
func boxOf(boxes *workloads.Mailboxes, cmd *memproto.Command) (sum workloads.Mailbox, ok bool) {
	for key := range cmd.ItemKeys {
		box, ok := boxes.Of(key)
		if !ok {
			return sum, false
		}
		sum.Bytes += box.Bytes
		sum.Hold += box.Hold
		if !cmd.Verb.Retrieval() || cmd.Verb == memproto.MetaGet {
			break // what follows the key are no keys
		}
	}
	return sum, true
}

// Stats yields counts in memcached's names, and what is held, what has been, and what putting work back has cost.
func (b *Backend) Stats(yield func(name string, value uint64) bool) {
	b.mu.Lock()
	held, mostHeld, open, mostOpen, backs, queued := b.mu.held, b.mu.mostHeld, b.mu.open, b.mu.mostOpen, b.mu.backs, b.mu.waiting.n
	b.mu.Unlock()
	_ = yield("cmd_get", b.gets.Load()) && yield("cmd_set", 0) && yield("get_hits", b.gets.Load()) && yield("get_misses", 0) &&
		yield("delete_hits", 0) && yield("delete_misses", 0) && yield("wrong_keys", b.wrong.Load()) &&
		yield("memory_held", uint64(held)) && yield("memory_held_max", uint64(mostHeld)) &&
		yield("mailboxes_open", uint64(open)) && yield("mailboxes_open_max", uint64(mostOpen)) && yield("bytes_served", b.served.Load()) &&
		yield("rival_bytes", uint64(b.rival.Load())) &&
		yield("put_back", backs.count) && yield("put_back_bytes", backs.bytes) && yield("put_back_lost_us", uint64(backs.lost.Microseconds())) &&
		yield("put_back_waiting", uint64(queued))
}

// Costs are what commands cost a modelled machine.
type Costs struct{ boxes *workloads.Mailboxes }

var _ servers.Coster = Costs{}

// NewCosts returns the costs of mailboxes.
func NewCosts(c workloads.MailboxConfig) (Costs, error) {
	boxes, err := workloads.NewMailboxes(c)
	return Costs{boxes}, err
}

// Steps appends the work of a command.
func (c Costs) Steps(dst []machine.Step, cmd *memproto.Command) ([]machine.Step, error) {
	box, ok := boxOf(c.boxes, cmd)
	if !ok {
		return dst, errors.New(wrongKey)
	}
	return c.boxes.Steps(dst, box), nil
}

// page is what the system gives memory in.
const page = 4 << 10

// take takes n bytes of memory from the system and writes to all its pages: until then they exist in name only. Where there is none left the
// process ends, as a Go program does whose heap cannot grow.
func (b *Backend) take(n int64) []byte {
	m, err := syscall.Mmap(-1, 0, int(n), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		err = fmt.Errorf("out of memory: %d bytes for a mailbox, while %d are held: %w", n, b.Held(), err)
		if b.config.Die != nil {
			b.config.Die(err)
		}
		panic("mailbox: " + err.Error())
	}
	for i := 0; i < len(m); i += page {
		m[i] = 1
	}
	return m
}

// give gives memory back to the system at once.
func give(m []byte) {
	if m != nil {
		_ = syscall.Munmap(m) // it was mapped, so it can be unmapped
	}
}

// readThrough loads a byte of every cache line of m.
//
//go:noinline
func readThrough(m []byte) (sum uint64) {
	for i := 0; i < len(m); i += 64 {
		sum += uint64(m[i])
	}
	return sum
}
