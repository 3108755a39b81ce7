// Httpserver is a web service that embeds Svalinn: every request passes its ingress, and the one handler that reads a large table enters the
// memory section around it. When more is asked than it can do, it answers 503 with Retry-After at once instead of answering late.
//
//	go run ./examples/httpserver -listen 127.0.0.1:8080
//	curl http://127.0.0.1:8080/hello
//	curl http://127.0.0.1:8080/sum
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"time"

	"spillway/control"
	"spillway/control/catalog"
	"spillway/guard"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address to listen on")
	slo := flag.Duration("slo", 100*time.Millisecond, "the latest that an answer is of use")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *listen, *slo)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "httpserver:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, listen string, slo time.Duration) error {
	s, err := newService(runtime.GOMAXPROCS(0), slo)
	if err != nil {
		return err
	}
	defer s.guard.Close()
	server := &http.Server{Addr: listen, Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() { stopped <- server.Shutdown(context.WithoutCancel(ctx)) })
	if err := server.ListenAndServe(); stop() {
		return err // ctx has not ended, so it could not listen
	}
	return <-stopped
}

// service is the web service.
type service struct {
	guard *guard.Guard
	moved *guard.Accounted // bytes that handlers have read: what the size of the memory section is judged by
	table []uint64         // larger than any cache
	sum   func(part []uint64) uint64
}

func newService(cores int, slo time.Duration) (*service, error) {
	stack, err := catalog.New("svalinn", nil, catalog.Env{Cores: cores, SLO: slo, Seed: 1})
	if err != nil {
		return nil, err
	}
	s := &service{moved: new(guard.Accounted), table: make([]uint64, 8<<20), sum: sum}
	s.guard, err = guard.NewFromStack(stack, guard.Config{
		// A few for each core: handlers block on their sockets now and then, and the rest is better off in the queue, whose age Svalinn sees.
		Gate:   control.GateConfig{Slots: 4 * cores},
		Memory: s.moved,
	})
	return s, err
}

func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/hello", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	mux.HandleFunc("/sum", s.serveSum)
	return s.guard.Handler(mux, nil)
}

// serveSum reads the whole table: work that is bound by memory bandwidth.
func (s *service) serveSum(w http.ResponseWriter, r *http.Request) {
	ticket, _ := guard.TicketFrom(r.Context())
	leave, err := ticket.Memory()
	if err != nil {
		return // dropped: the Guard answers 503
	}
	defer leave()
	const part = 1 << 16 // 512 KiB: bytes are accounted as they move, and nobody works long for a client that has gone
	total := uint64(0)
	for i := 0; i < len(s.table); i += part {
		if ticket.Check() != nil {
			return
		}
		total += s.sum(s.table[i : i+part])
		s.moved.Add(8 * part)
	}
	fmt.Fprintln(w, total)
}

func sum(part []uint64) (total uint64) {
	for _, v := range part {
		total += v
	}
	return total
}
