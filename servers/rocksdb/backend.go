//go:build linux && cgo && !norocksdb

package rocksdb

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/linxGnu/grocksdb"

	"spillway/internal/memproto"
	"spillway/servers"
)

// memorySection is the number of the section that reads of large values go through.
const memorySection = 0

// Backend executes commands on a store. Those that may have to wait for anything are executed by workers.
type Backend struct {
	config Config
	store  *store
	quick  *grocksdb.ReadOptions // of reads that wait for nothing but memory; nil if there are none
	pins   pins
	tasks  sync.Pool
	counts counts
	moved  atomic.Uint64 // bytes of values that were read or written

	properties properties
	stop       chan struct{}
	running    sync.WaitGroup
	workers    servers.Workers[*task]

	during atomic.Pointer[func(*task)] // tests look into a task while it is being done; nil otherwise
}

var (
	_ servers.Backend    = (*Backend)(nil)
	_ servers.Waiting    = (*Backend)(nil)
	_ servers.Ordered    = (*Backend)(nil)
	_ servers.Accountant = (*Backend)(nil)
	_ servers.Detailed   = (*Backend)(nil)
)

// Open opens the store, and starts the workers.
func Open(c Config) (*Backend, error) {
	if err := c.Check(); err != nil {
		return nil, fmt.Errorf("rocksdb: %w", err)
	}
	s, err := newStore(&c)
	if err != nil {
		return nil, fmt.Errorf("rocksdb: %w", err)
	}
	b := &Backend{config: c, store: s, stop: make(chan struct{})}
	b.quick, b.pins.destroy = s.quick(&c.Options), s.free
	b.tasks.New = func() any { return new(task) }
	b.properties.read(s)
	b.running.Go(func() { b.properties.follow(s, b.stop) })
	b.workers.Start(c.Workers, b.work)
	return b, nil
}

// Close ends the workers, once they have done what they are at, and closes the store. What it holds in memory is flushed, except where there
// is a log of it; an error says that it could not be, and is lost.
func (b *Backend) Close() error {
	close(b.stop)
	b.workers.Stop()
	b.running.Wait()
	b.pins.releaseAll() // of replies that nobody waits for any more
	err := b.store.keep()
	b.store.close()
	return err
}

// work returns what does one task after the other. It keeps to its thread: memory for a large value is then where the last one was, in the thread's part
// of the C library's heap and in the caches of its core.
func (b *Backend) work() func(*task) {
	runtime.LockOSThread() // to the end of the goroutine, and the thread ends with it
	var record []byte
	return func(t *task) {
		if !t.gone.Load() {
			record = b.perform(t, record)
		}
		if cap(record) > maxKept {
			record = nil
		}
	}
}

// maxKept is the size up to which memory for a record is kept.
const maxKept = 2 << 20

// submit gives a task to the workers.
func (b *Backend) submit(c servers.Call, t *task) (servers.Pause, error) {
	t.submitted = true
	return b.workers.Submit(c, t), nil
}

// Step answers what is in memory, hands everything else to the workers, and replies once they are done.
func (b *Backend) Step(c servers.Call) (servers.Pause, error) {
	t, _ := c.State().(*task)
	switch {
	case t == nil:
		return b.begin(c)
	case t.submitted:
		defer b.end(t)
		c.SetState(nil)
		if c.Gone() {
			return servers.Pause{}, nil
		}
		return servers.Pause{}, b.reply(t, c.Command(), c.Reply())
	case c.Gone():
		c.SetState(nil)
		b.end(t)
		return servers.Pause{}, nil
	}
	return b.enter(c, t)
}

func (b *Backend) begin(c servers.Call) (servers.Pause, error) {
	cmd, w := c.Command(), c.Reply()
	w.HeaderOnly = b.config.HeaderOnly
	k, ok := b.accept(cmd, w)
	if !ok {
		return servers.Pause{}, nil
	}
	if k == kindRead && b.quick != nil {
		done, err := b.fromMemory(cmd, w)
		if done || err != nil {
			return servers.Pause{}, err
		}
	}
	t := b.newTask(k, cmd)
	c.SetState(t)
	if k == kindRead && b.anyLarge(cmd) {
		t.large = true
		return b.enter(c, t)
	}
	return b.submit(c, t)
}

// enter has a read of large values go into the memory section, which may make it wait or turn it away.
func (b *Backend) enter(c servers.Call, t *task) (servers.Pause, error) {
	in, pause := c.Enter(memorySection)
	switch {
	case in:
		return b.submit(c, t)
	case pause.Final():
		c.SetState(nil)
		b.end(t)
	}
	return pause, nil
}

// Cancel ends a call that waits for the memory section. One that the workers have is let go when they bring it back.
func (b *Backend) Cancel(c servers.Call) bool {
	t := c.State().(*task)
	if t.submitted {
		t.gone.Store(true)
		return false
	}
	c.SetState(nil)
	b.end(t)
	return true
}

// Alone has writes keep their place among the commands of their connection: a client that sends a set and a get finds what it stored.
func (b *Backend) Alone(cmd *memproto.Command) bool { return !cmd.Verb.Retrieval() }

// Do executes a command on the caller's time: on a modelled machine that is nobody's.
func (b *Backend) Do(cmd *memproto.Command, w *memproto.Writer) error {
	w.HeaderOnly = b.config.HeaderOnly
	k, ok := b.accept(cmd, w)
	if !ok {
		return nil
	}
	t := b.newTask(k, cmd)
	defer b.end(t)
	b.perform(t, nil)
	return b.reply(t, cmd, w)
}

// BytesMoved returns how many bytes of values have been read and written. It grows while they are.
func (b *Backend) BytesMoved() uint64 { return b.moved.Load() }

// ValueSize returns the bytes of the value that is stored under key, 0 if there is none: a modelled machine asks before the command is
// executed, to know what it will cost.
func (b *Backend) ValueSize(key []byte) int {
	if size := b.store.large.size(key); size > 0 {
		return int(size)
	}
	it, found, err := b.store.find(b.store.read, key)
	if err != nil || !found {
		return 0
	}
	defer b.store.release(&it)
	if it.expired(time.Now().Unix()) {
		return 0
	}
	return len(it.value)
}

// isLarge reports whether a value is one of those that go through the memory section.
func (b *Backend) isLarge(key []byte) bool {
	return b.config.Large > 0 && b.store.large.size(key) >= b.config.Large
}

func (b *Backend) anyLarge(cmd *memproto.Command) bool {
	for key := range keysOf(cmd) {
		if b.isLarge(key) {
			return true
		}
	}
	return false
}

// kind says what is to be done.
type kind uint8

const (
	kindRead kind = iota
	kindScan
	kindWrite
	kindDelete
)

var (
	errScanAlone = errors.New("a scan is asked for alone: pipeline several")
	errStored    = errors.New("keys that begin with scan: or keys: are scans and cannot be stored; choose another")
)

// accept says what a command wants done. When ok is false, it has been answered.
func (b *Backend) accept(cmd *memproto.Command, w *memproto.Writer) (k kind, ok bool) {
	k, err := kindOf(cmd)
	if err != nil {
		b.counts.wrong.Add(1)
		w.Fail("CLIENT_ERROR " + err.Error())
		return k, false
	}
	if cmd.TooLarge || int64(len(cmd.Value)) > b.config.MaxItem {
		b.counts.tooLarge.Add(1)
		w.Fail(memproto.TooLargeText)
		return k, false
	}
	return k, true
}

func kindOf(cmd *memproto.Command) (k kind, err error) {
	switch v := cmd.Verb; {
	case v == memproto.Get || v == memproto.Gets || v == memproto.MetaGet:
		if cmd.LongOpaque {
			return k, errors.New("the opaque is too long")
		}
		if v == memproto.MetaGet && (cmd.HasTTL || cmd.HasVivify || cmd.HasRecache) {
			return k, errors.New("mg has no flags T, N and R here: items do not change by being read")
		}
		return readKind(cmd)
	case v == memproto.MetaSet && (cmd.Mode == memproto.ModeAppend || cmd.Mode == memproto.ModePrepend), cmd.Stale:
		return k, errors.New("ms and md have no flag I here, and ms no modes A and P")
	case v == memproto.Set || v == memproto.Add || v == memproto.Replace || v == memproto.CAS || v == memproto.MetaSet:
		k = kindWrite
	case v == memproto.Delete || v == memproto.MetaDelete:
		k = kindDelete
	default:
		return k, errors.New("command " + v.String() + " is not for this store: it has get, gets, set, add, replace, cas, delete, mg, ms and md")
	}
	switch {
	case reserved(cmd.Key):
		return k, errReserved
	case isScan(cmd.Key):
		return k, errStored
	}
	return k, nil
}

func readKind(cmd *memproto.Command) (k kind, err error) {
	n := 0
	for key := range keysOf(cmd) {
		n++
		switch {
		case reserved(key):
			return k, errReserved
		case isScan(key) && n > 1, k == kindScan:
			return k, errScanAlone
		case isScan(key):
			k = kindScan
			if _, err := parseScan(key); err != nil {
				return k, err
			}
		}
	}
	return k, nil
}

// keysOf returns the keys that a read asks for.
func keysOf(cmd *memproto.Command) func(yield func([]byte) bool) {
	if cmd.Verb == memproto.MetaGet { // what follows its key are flags
		return func(yield func([]byte) bool) { yield(cmd.Key) }
	}
	return cmd.ItemKeys
}
