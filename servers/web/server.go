//go:build linux

// Package web is an HTTP front end with an overload control, over any service: a key-value store, work that requests spell, or another server
// that it protects. It speaks HTTP/1.1, and HTTP/2 without TLS (h2c).
//
// Every request to a service passes a guard.Guard. Who is turned away is told so at once: 429 Too Many Requests when the quota of its class is
// used up, 503 Service Unavailable when the server has too much to do, with Retry-After and the reason. Health, statistics and metrics are not
// subject to admission: who looks after an overloaded server must be able to see it.
//
// The other reference servers have event loops of their own (package servers), because Go's scheduler adds delays that no controller sees. This one
// is what Go services are, and has those delays.
package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/control/capacity"
	"spillway/guard"
)

// Service answers requests that have been admitted. Its methods are called from several goroutines at once.
type Service interface {
	// Serve answers one request. key is what its path has after the service's own part, unescaped. When the ticket has been dropped, it
	// returns without an answer.
	Serve(w http.ResponseWriter, r *http.Request, key string, t *guard.Ticket)
	// Methods returns the methods that it takes, separated by commas.
	Methods() string
	// Stats calls yield with each of its counts, in memcached's names where it has one.
	Stats(yield func(name string, value uint64) bool)
	// Close is called when nothing is served any more.
	Close() error
}

// waiting is implemented by a Service whose requests may have to wait halfway: for a core, a lock, or for time to pass.
type waiting interface {
	use(c *cores, g *guard.Guard)
}

// accountant is implemented by a Service that accounts for the bytes that its requests move.
type accountant interface {
	BytesMoved() uint64
}

// Server is a front end with its sockets open.
type Server struct {
	config   Config
	services map[string]Service // by the first segment of the path
	clock    *clock.Real
	guard    *guard.Guard
	limiter  *capacity.Limiter // under the guard's lock; nil unless the control grants rates
	cores    *cores
	classes  map[string]uint16
	proxy    http.Handler // to Config.Upstream; nil without
	idle     func()       // closes the connections to it that are not in use; nil without

	listeners   []net.Listener
	connections connections
	http        *http.Server
	clients     atomic.Uint32
	stopping    atomic.Bool

	figures figures
	metrics http.Handler
	origin  *origin // nil unless it counts
	extra   func(yield func(name string, value float64) bool)
}

// New opens the sockets of a server. Connections are accepted once Serve runs. The server owns the services, of which the one called NAME
// answers paths that begin with /NAME/, and the stack.
func New(services map[string]Service, stack control.Stack, config Config) (_ *Server, err error) {
	if err := config.Check(); err != nil {
		return nil, fmt.Errorf("web: %w", err)
	}
	s := &Server{config: config, services: services, clock: clock.NewReal(), classes: make(map[string]uint16)}
	s.cores = newCores(config.Cores, s.clock)
	s.connections.most = int64(config.MaxConns)
	s.figures.init(len(config.Classes))
	for i, name := range config.Classes {
		s.classes[name] = uint16(i)
	}
	for _, c := range control.Members(stack.Controller) {
		if l, ok := c.(*capacity.Limiter); ok {
			s.limiter = l
		}
	}
	if s.limiter != nil && s.limiter.Classes() != len(config.Classes) {
		return nil, fmt.Errorf("web: %d baselines for %d classes: give one for each, in their order", s.limiter.Classes(), len(config.Classes))
	}
	if config.Origin {
		s.origin = newOrigin(s.clock, len(config.Classes))
	}
	if s.guard, err = s.newGuard(stack); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.guard.Close()
			s.closeListeners()
		}
	}()
	if config.Upstream != "" {
		s.proxy = s.newProxy()
	}
	for _, service := range services {
		if w, ok := service.(waiting); ok {
			w.use(s.cores, s.guard)
		}
	}
	s.http, s.metrics = s.newHTTP(), newMetrics(s)
	for _, addr := range config.Listen {
		l, err := net.Listen("tcp", addr)
		if errors.Is(err, syscall.EADDRINUSE) {
			err = fmt.Errorf("%w; stop what uses it, or choose another port (port 0 takes any free one)", err)
		}
		if err != nil {
			return nil, fmt.Errorf("listening on %s: %w", addr, err)
		}
		s.listeners = append(s.listeners, limitedListener{l, &s.connections})
	}
	return s, nil
}

func (s *Server) newGuard(stack control.Stack) (*guard.Guard, error) {
	waits := false
	for _, service := range s.services {
		_, w := service.(waiting)
		waits = waits || w
	}
	gate := control.GateConfig{Slots: s.config.slots(waits), Queue: s.config.Queue}
	return guard.NewFromStack(stack, guard.Config{Gate: gate, Clock: s.clock, Sensors: s.sense, Memory: s})
}

// sense is what the controller is told at each tick.
func (s *Server) sense() (signals control.Signals) {
	signals.QueueDelay, signals.Saturated = s.cores.look(s.clock.Now())
	if s.config.Levels != nil {
		signals.Levels = s.config.Levels()
	}
	return signals
}

// MemBytes implements guard.Sensor, by what the services account for.
func (s *Server) MemBytes(now clock.Instant) (total uint64, at clock.Instant) {
	for _, service := range s.services {
		if a, ok := service.(accountant); ok {
			total += a.BytesMoved()
		}
	}
	return total, now
}

// clientKey is how a request's context has the number of its connection.
type clientKey struct{}

func (s *Server) newHTTP() *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler: http.HandlerFunc(s.serve), ReadHeaderTimeout: s.config.HeaderTimeout, IdleTimeout: s.config.IdleTimeout,
		MaxHeaderBytes: s.config.MaxHeader, Protocols: &protocols,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: s.config.Streams, MaxReceiveBufferPerConnection: 1 << 20, MaxReceiveBufferPerStream: 256 << 10,
			WriteByteTimeout: s.config.WriteTimeout,
		},
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, clientKey{}, s.clients.Add(1))
		},
		ErrorLog: quiet(), // what clients do wrong is answered, and is no news
	}
}

// Addrs returns the addresses that the server listens on, with the real port where port 0 was asked for.
func (s *Server) Addrs() (list []string) {
	for _, l := range s.listeners {
		list = append(list, l.Addr().String())
	}
	return list
}

// Limiter has f called with the controller that grants are for, while nobody else uses it. It returns false when the control is another.
func (s *Server) Limiter(f func(now clock.Instant, l *capacity.Limiter)) bool {
	if s.limiter != nil {
		s.guard.With(func(now clock.Instant) { f(now, s.limiter) })
	}
	return s.limiter != nil
}

// Classes returns the names of the classes.
func (s *Server) Classes() []string { return s.config.Classes }

// Also has further figures shown among the statistics. It must be called before Serve.
func (s *Server) Also(figures func(yield func(name string, value float64) bool)) { s.extra = figures }

// Serve serves until ctx is done, then shuts down: no more connections are taken in, requests under way are finished within Config.Grace, and
// those that still wait then are told so. It closes the services and must be called exactly once.
func (s *Server) Serve(ctx context.Context) error {
	var running sync.WaitGroup
	errs := make([]error, len(s.listeners))
	failed := make(chan struct{}, len(s.listeners))
	for i, l := range s.listeners {
		running.Go(func() {
			if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				errs[i] = err
				failed <- struct{}{}
			}
		})
	}
	select {
	case <-ctx.Done():
	case <-failed: // one listener that cannot go on ends the server; half a server would look like a slow one
	}
	s.shutDown(context.WithoutCancel(ctx))
	running.Wait()
	s.connections.running.Wait()
	return errors.Join(errors.Join(errs...), s.closeServices())
}

// lastWords is how long those who are turned away at the end of a shutdown have to be told so.
const lastWords = time.Second

func (s *Server) shutDown(ctx context.Context) {
	s.stopping.Store(true)
	within, cancel := context.WithTimeout(ctx, s.config.Grace)
	err := s.http.Shutdown(within)
	cancel()
	s.guard.Close()
	if err != nil {
		within, cancel = context.WithTimeout(ctx, lastWords)
		_ = s.http.Shutdown(within) // whoever is still not done is cut off
		cancel()
	}
	_ = s.http.Close()
	if s.idle != nil {
		s.idle()
	}
}

func (s *Server) closeServices() error {
	var errs []error
	for _, service := range s.services {
		errs = append(errs, service.Close())
	}
	return errors.Join(errs...)
}

func (s *Server) closeListeners() {
	for _, l := range s.listeners {
		_ = l.Close()
	}
}

// Close frees what a server has that is not going to serve.
func (s *Server) Close() error {
	s.guard.Close()
	s.closeListeners()
	return s.closeServices()
}

// route finds out whose request it is: its class, its service and the key. ok is false when there is nobody who serves it.
func (s *Server) route(r *http.Request) (class uint16, service Service, key string, ok bool) {
	class = uint16(s.config.Otherwise)
	path := strings.TrimPrefix(r.URL.EscapedPath(), "/")
	if s.config.ClassInPath {
		name, rest, _ := strings.Cut(path, "/")
		if c, known := s.classes[name]; known {
			class, path = c, rest
		}
	} else if s.config.ClassHeader != "" {
		if c, known := s.classes[r.Header.Get(s.config.ClassHeader)]; known {
			class = c
		}
	}
	if s.proxy != nil {
		return class, nil, path, true
	}
	name, rest, _ := strings.Cut(path, "/")
	service, ok = s.services[name]
	key, wrong := unescape(rest)
	return class, service, key, ok && !wrong
}
