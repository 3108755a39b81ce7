//go:build linux

// Package servers is the front end of the reference servers: it reads requests from sockets, puts them before an overload
// controller, has the started ones executed by a Backend, and answers in order.
//
// There is one event loop for each core. In each turn a loop polls its sockets without blocking, reads and parses what has come,
// takes it to the Gate that all loops share, executes started calls for a bounded time, and writes the replies, with one system call
// a connection. Calls run to completion on a loop; so requests that have to wait do so in the Gate, where the controller sees them,
// and not in the sockets of a process that has no time to read.
package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"spillway/clock"
	"spillway/control"
	"spillway/internal/memproto"
)

// Backend executes commands. All methods but Close are called from several goroutines at once.
type Backend interface {
	// Do executes a get, set or delete of whatever form and gives its result to w. It runs on an event loop: it must not block.
	// The command's memory is the caller's. An error is answered as SERVER_ERROR and counts as failed.
	Do(cmd *memproto.Command, w *memproto.Writer) error
	// Stats calls yield with each of the backend's counts, in memcached's names where it has one.
	Stats(yield func(name string, value uint64) bool)
	// Close is called when nothing is executed any more.
	Close() error
}

// Accountant is implemented by a Backend that accounts for the bytes that its commands move over the memory bus, as they move. Where there
// is no better sensor, controllers see those (control.Signals.MemBytes).
type Accountant interface {
	// BytesMoved returns how many they were since the backend was made. It is called from several goroutines at once.
	BytesMoved() uint64
}

// Sensor tells how many bytes have crossed the memory bus. It is asked at every tick of the controller, under the lock of the dispatcher: it must
// neither wait nor read a file. What takes longer to find out is kept fresh by a thread of its own, with the instant at which that found it out.
type Sensor interface {
	// MemBytes returns how many bytes have moved since some beginning, and when that was so on the server's clock, which says now. Before the first
	// reading both are 0.
	MemBytes(now clock.Instant) (total uint64, at clock.Instant)
}

// Config says how a Server serves. Default fills it.
type Config struct {
	Listen []string // "host:port", "tcp://host:port" or "unix:///path"; at least one

	Loops    int           // event loops; on a modelled machine there is one, whatever this says
	Slots    int           // how many calls may be in service at once; negative for no limit, 0 for what suits (see slots)
	Queue    int           // how many calls may wait in the Gate; 0 for no limit
	Deadline time.Duration // a call that has waited longer than this is refused as expired; 0 for never

	MaxConns    int           // connections beyond this are turned away
	IdleTimeout time.Duration // a connection without traffic is closed after this; 0 for never
	MaxItem     int           // bytes of the largest item, counted as memcached counts; 0 for no limit
	Pipeline    int           // unanswered calls of one connection; beyond it the connection is not read
	HeldBytes   int           // bytes of unexecuted values of one connection; likewise
	OutBytes    int           // bytes of replies that a client does not take; likewise
	Grace       time.Duration // how long a shutdown waits for calls in flight and for clients to take their replies

	Control string // name of the controller, which `stats spillway` and /metrics show; "" for one that nobody named

	Classes []ClassRule // how the classes of requests are told apart; nil for the backend's own, or else the verbs

	Model *Model // the machine that requests cost their time on; nil for this computer

	// Levels returns how full the resources of this computer are, for the controller; nil when nobody watches them. It is called at every tick
	// of the controller and must not wait. On a modelled machine its RAM is watched instead.
	Levels func() []control.Level

	// Sensor is what the controller learns of memory traffic from; nil for what the backend accounts for, if it does. On a modelled machine its bus
	// is read instead.
	Sensor Sensor
	// Trace yields what was sampled of this process from some number of points on, for `stats trace`; nil when nothing is.
	Trace func(from int) iter.Seq2[string, string]

	UnixMode fs.FileMode // permissions of unix sockets
	Verbose  int         // how much is written to Log: 1 for trouble, 2 for connections and commands too
	Log      io.Writer   // nil for nowhere

	Version string // what the version command answers
	Metrics string // host:port of the /metrics page; "" for none
}

// Default returns the configuration of a server on memcached's port.
func Default() Config {
	return Config{
		Listen: []string{"127.0.0.1:11211"}, Loops: runtime.GOMAXPROCS(0), MaxConns: 1024, MaxItem: 1 << 20,
		Pipeline: 16 << 10, HeldBytes: 32 << 20, OutBytes: 1 << 20, Grace: 5 * time.Second, UnixMode: 0o700, Version: "1.6.18-spillway",
	}
}

// Check says what is wrong with c, nil if nothing is.
func (c *Config) Check() error {
	switch {
	case len(c.Listen) == 0:
		return errors.New("no address to listen on")
	case c.Loops < 1:
		return fmt.Errorf("%d event loops: at least one is needed", c.Loops)
	case c.Queue < 0, c.MaxItem < 0, c.Deadline < 0, c.IdleTimeout < 0, c.Grace < 0:
		return errors.New("queue, deadline, idle timeout, item size and grace must not be negative")
	case c.MaxConns < 1, c.Pipeline < 1, c.HeldBytes < 1, c.OutBytes < 1:
		return errors.New("connections, pipeline, held bytes and output bytes must be at least 1")
	}
	if c.Model != nil {
		if err := c.Model.check(); err != nil {
			return err
		}
	}
	for i := range c.Classes {
		if err := c.Classes[i].check(); err != nil {
			return err
		}
	}
	for _, addr := range c.Listen {
		if _, _, err := splitAddr(addr); err != nil {
			return fmt.Errorf("address %q: %w", addr, err)
		}
	}
	return nil
}

// slotsPerLoop is how many calls of a backend that lets them wait halfway may be in service for each loop: those that wait keep their
// slots.
const slotsPerLoop = 64

// slots returns the size of the Gate, 0 for no limit.
func (c *Config) slots(waiting bool) int {
	switch {
	case c.Slots > 0:
		return c.Slots
	case c.Slots < 0, c.Model != nil: // the cores of a modelled machine have a queue of their own
		return 0
	case waiting:
		return slotsPerLoop * c.Loops
	}
	return c.Loops
}

// Server is a front end with its sockets open.
type Server struct {
	config   Config
	backend  Backend
	clock    *clock.Real
	dispatch dispatch
	model    *model // nil on a real machine
	loops    []*loop
	listen   []listener
	metrics  net.Listener // nil without

	conns   atomic.Int64 // open now
	total   atomic.Uint64
	turned  atomic.Uint64 // away at the connection limit
	clients atomic.Uint32 // the last Request.Client

	disabled  atomic.Uint64 // times that the listeners were left alone for want of descriptors
	accepting atomic.Bool
	verbose   atomic.Int32
	logging   sync.Mutex

	stop atomic.Bool // a shutdown has begun
}

// New opens the sockets of a server. Connections are accepted once Serve runs. The server owns backend and stack.
func New(backend Backend, stack control.Stack, config Config) (_ *Server, err error) {
	if err := config.Check(); err != nil {
		return nil, fmt.Errorf("servers: %w", err)
	}
	s := &Server{backend: backend, clock: clock.NewReal()}
	waiter, _ := backend.(Waiting)
	gate := control.GateConfig{Slots: config.slots(waiter != nil), Queue: config.Queue}
	if config.Model != nil {
		config.Loops = 1
		// Unlike on a real machine a queue may grow beyond all bounds in no time at all: what a modelled second brings in comes within
		// minutes. A connection that were not read for a while would not be late, it would be wrong.
		config.Pipeline, config.HeldBytes = max(config.Pipeline, modelPipeline), max(config.HeldBytes, modelHeldBytes)
		if s.model, err = newModel(config.Model, stack, gate); err != nil {
			return nil, fmt.Errorf("servers: %w", err)
		}
		s.dispatch.init(s.model.station.Gate(), stack, s.model)
	} else {
		s.dispatch.init(control.NewGate(stack.Controller, gate), stack, s.clock)
		s.dispatch.waiter, s.dispatch.levels, s.dispatch.sensor = waiter, config.Levels, config.Sensor
		s.dispatch.order, _ = backend.(Ordered)
		s.dispatch.moved, _ = backend.(Accountant)
	}
	s.dispatch.classes = newClasses(config.Classes, backend)
	s.dispatch.mu.classes = make([]classCounts, len(s.dispatch.classes.names))
	s.config = config
	s.verbose.Store(int32(config.Verbose))
	s.accepting.Store(true)
	defer func() {
		if err != nil {
			s.closeSockets()
		}
	}()
	for range config.Loops {
		l, err := newLoop(s, len(s.loops))
		if err != nil {
			return nil, fmt.Errorf("servers: %w", err)
		}
		s.loops = append(s.loops, l)
	}
	s.dispatch.loops = s.loops
	for _, addr := range config.Listen {
		ls, err := open(addr, config.UnixMode)
		if err != nil {
			return nil, fmt.Errorf("listening on %s: %w", addr, err)
		}
		s.listen = append(s.listen, ls)
	}
	if config.Metrics != "" {
		if s.metrics, err = net.Listen("tcp", config.Metrics); err != nil {
			if errors.Is(err, unix.EADDRINUSE) {
				err = fmt.Errorf("%w; give another port with --metrics, or port 0 for any that is free", err)
			}
			return nil, fmt.Errorf("metrics page: %w", err)
		}
	}
	return s, nil
}

// Addrs returns the addresses that the server listens on, with the real port where port 0 was asked for.
func (s *Server) Addrs() []string {
	var addrs []string
	for i := range s.listen {
		addrs = append(addrs, s.listen[i].name) // which never changes; the rest does when Serve ends
	}
	return addrs
}

// MetricsAddr returns the address of the /metrics page, "" without one.
func (s *Server) MetricsAddr() string {
	if s.metrics == nil {
		return ""
	}
	return s.metrics.Addr().String()
}

// Serve serves until ctx is done, then shuts down: no more connections and no more commands are taken in, calls in flight are
// finished and answered, within Config.Grace. It closes the backend and all sockets and must be called exactly once.
func (s *Server) Serve(ctx context.Context) error {
	var running sync.WaitGroup
	if s.metrics != nil {
		page := &http.Server{Handler: s.MetricsHandler(), ReadHeaderTimeout: 10 * time.Second}
		running.Go(func() { _ = page.Serve(s.metrics) })
		defer running.Wait()
		defer func() { _ = page.Close() }()
	}
	stopped := context.AfterFunc(ctx, func() {
		s.stop.Store(true)
		s.wakeAll()
	})
	defer stopped()
	errs := make([]error, len(s.loops)+1)
	var loops sync.WaitGroup
	for i, l := range s.loops {
		loops.Go(func() {
			if errs[i] = l.run(); errs[i] != nil && s.stop.CompareAndSwap(false, true) {
				// One loop that cannot go on ends the server; half a server would look like a slow one.
				s.wakeAll()
			}
		})
	}
	loops.Wait()
	for _, l := range s.loops { // connections handed to a loop that had already ended
		for _, fd := range l.post.conns {
			_ = unix.Close(fd)
		}
	}
	s.closeSockets()
	errs[len(s.loops)] = s.backend.Close()
	return errors.Join(errs...)
}

func (s *Server) wakeAll() {
	for _, l := range s.loops {
		l.wake()
	}
}

// gone takes note that a connection has been closed. A shutdown waits for the last one.
func (s *Server) gone() {
	if s.conns.Add(-1) == 0 && s.stop.Load() {
		s.wakeAll()
	}
}

// Close frees the sockets of a server that is not going to serve.
func (s *Server) Close() error {
	s.closeSockets()
	return s.backend.Close()
}

func (s *Server) closeSockets() {
	for i := range s.listen {
		s.listen[i].close()
	}
	for _, l := range s.loops {
		_ = l.poll.Close()
	}
	if s.metrics != nil {
		_ = s.metrics.Close()
	}
}
