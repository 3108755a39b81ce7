// Bouncer is a web service that judges requests by their route: each has its own objectives, in percentiles, and what would miss them is told so
// on arrival, with 503 and Retry-After, instead of being answered late. How long each route takes it learns from what it has served.
//
//	go run ./examples/bouncer -listen 127.0.0.1:8080
//	curl http://127.0.0.1:8080/users/7
//	curl http://127.0.0.1:8080/search?q=x
//	curl http://127.0.0.1:8080/status
package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"time"

	"spillway/control"
	"spillway/control/catalog"
	"spillway/guard"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address to listen on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *listen)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bouncer:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, listen string) error {
	s, err := newService(runtime.GOMAXPROCS(0))
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

// route is a class of requests: what the mux calls it, what was promised, and what it does.
type route struct {
	pattern string
	name    string
	slo     []catalog.Objective // nil for a route that is never turned away for being late
	serve   func(s *service, w http.ResponseWriter, r *http.Request)
}

// routes are all there are. The number of a class is its place here.
var routes = []route{
	{
		"GET /users/{id}", "user", []catalog.Objective{{Percentile: 0.5, Limit: 20 * time.Millisecond}, {Percentile: 0.9, Limit: 50 * time.Millisecond}},
		func(s *service, w http.ResponseWriter, r *http.Request) {
			s.work(2 * time.Millisecond)
			fmt.Fprintln(w, "user", r.PathValue("id"))
		},
	},
	{
		"GET /search", "search", []catalog.Objective{{Percentile: 0.5, Limit: 50 * time.Millisecond}, {Percentile: 0.9, Limit: 100 * time.Millisecond}},
		func(s *service, w http.ResponseWriter, r *http.Request) {
			s.work(30 * time.Millisecond)
			fmt.Fprintln(w, "found", r.URL.Query().Get("q"))
		},
	},
	{"GET /status", "status", nil, (*service).status},
}

// service is the web service.
type service struct {
	guard *guard.Guard
	work  func(time.Duration) // what answering takes
}

func newService(parallelism int) (*service, error) {
	env := catalog.Env{Cores: parallelism, Seed: 1}
	for _, r := range routes {
		env.Classes = append(env.Classes, catalog.Class{Name: r.name, SLO: r.slo})
	}
	// bouncer-allowance and bouncer-underserved are built the same way, and do not let a class starve.
	stack, err := catalog.New("bouncer", nil, env)
	if err != nil {
		return nil, err
	}
	s := &service{work: compute}
	s.guard, err = guard.NewFromStack(stack, guard.Config{})
	return s, err
}

// handler puts the Guard in front of the mux, and lets it see by which route a request is going to be served.
func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	class := map[string]uint16{}
	for i := range routes {
		r := &routes[i]
		mux.HandleFunc(r.pattern, func(w http.ResponseWriter, req *http.Request) { r.serve(s, w, req) })
		class[r.pattern] = uint16(i)
	}
	return s.guard.Handler(mux, func(r *http.Request) control.Request {
		_, pattern := mux.Handler(r)
		n, known := class[pattern]
		if !known {
			n = uint16(len(routes)) // not found: answered at once, and in no class that has objectives
		}
		return control.Request{Class: n}
	})
}

// status shows what the Guard counts and Bouncer knows: its estimate of the wait, and up to which wait each route is admitted.
func (s *service) status(w http.ResponseWriter, _ *http.Request) {
	stats, meters := s.guard.Stats(), s.guard.Meters()
	fmt.Fprintf(w, "arrived %d, in service %d, queued %d\n", stats.Arrived, stats.InService, stats.Queued)
	for _, name := range slices.Sorted(maps.Keys(meters)) {
		fmt.Fprintf(w, "%s %.0f\n", name, meters[name])
	}
}

// compute keeps a core busy for a time.
func compute(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
	}
}
