//go:build linux

// Staging is a pool of workers with a staging queue in front of it: jobs stay unprocessed, where they cost next to nothing, while any
// resource that they need is scarce. Here those are memory and the connections to a database. Workers there are enough: how many may work is
// not a number that somebody has to find, but follows from what there is.
//
//	go run ./examples/staging -jobs 3000 -rate 1000
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"spillway/control"
	"spillway/control/staging"
	"spillway/guard"
	"spillway/guard/levels"
)

func main() {
	jobs := flag.Int("jobs", 3000, "how many jobs to submit")
	rate := flag.Int("rate", 1000, "how many of them a second")
	flag.Parse()
	if *jobs < 1 || *rate < 1 {
		fmt.Fprintln(os.Stderr, "staging: -jobs and -rate must be at least 1")
		os.Exit(2)
	}
	p, err := newPool(200<<20, 20)
	if err != nil {
		fmt.Fprintln(os.Stderr, "staging:", err)
		os.Exit(1)
	}
	defer p.close()
	n := p.submitAll(context.Background(), *jobs, time.Second/time.Duration(*rate))
	fmt.Printf("%d jobs: %d done, %d turned away; at most %d MB held, %d connections taken, %d jobs unprocessed\n",
		*jobs, n.done, n.turnedAway, p.most.Load()>>20, p.mostTaken.Load(), p.guard.Stats().MaxQueued)
}

// pool has a worker for every job that it lets in.
type pool struct {
	guard  *guard.Guard
	levels *levels.Reader

	held, most       atomic.Int64 // bytes
	taken, mostTaken atomic.Int64 // connections
}

// look is how often resources are looked at: more than once in the time that a job takes.
const look = 5 * time.Millisecond

// newPool lets jobs in while they hold less than memory bytes together and take fewer than so many connections.
func newPool(memory int64, connections int) (*pool, error) {
	p := new(pool)
	var err error
	// What no package can know is a gauge of one's own. Of a real program, levels.RSS or levels.Cgroup see all of its memory.
	p.levels, err = levels.New(look,
		levels.Level{Name: "memory", Limit: float64(memory), Read: func() (float64, error) { return float64(p.held.Load()), nil }},
		levels.Pool("database", func() (used, size int) { return int(p.taken.Load()), connections }))
	if err != nil {
		return nil, err
	}
	c := staging.Default()
	c.Interval = look
	c.Burst = 4 // between two looks nobody knows how many connections are left, and twenty of them are soon gone
	c.NormalAfter, c.ResumeAfter = 2*time.Second, 100*time.Millisecond
	p.guard, err = guard.NewFromStack(control.Stack{Controller: staging.New(c)}, guard.Config{Sensors: p.levels.Signals})
	if err != nil {
		p.levels.Close()
	}
	return p, err
}

func (p *pool) close() {
	p.guard.Close()
	p.levels.Close()
}

// do has a job done that holds so much memory, and a connection, for a time. The error says that it was not even begun.
func (p *pool) do(ctx context.Context, bytes int64, span time.Duration) error {
	done, err := p.guard.Acquire(ctx, control.Request{})
	if err != nil {
		return err
	}
	defer done(false)
	peak(&p.most, p.held.Add(bytes))
	defer p.held.Add(-bytes)
	peak(&p.mostTaken, p.taken.Add(1))
	defer p.taken.Add(-1)
	<-time.After(span)
	return nil
}

// peak raises most to now.
func peak(most *atomic.Int64, now int64) {
	for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
	}
}

// counts are what became of jobs.
type counts struct{ done, turnedAway int }

// submitAll submits n jobs, one every so often, whether or not the earlier ones are done. A few of them are large.
func (p *pool) submitAll(ctx context.Context, n int, every time.Duration) (c counts) {
	rng := rand.New(rand.NewPCG(1, 1))
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var submitters sync.WaitGroup
	var mu sync.Mutex
	for range n {
		<-ticker.C
		bytes := int64(1 << 20)
		if rng.IntN(50) == 0 {
			bytes = 30 << 20
		}
		submitters.Go(func() {
			err := p.do(ctx, bytes, 20*time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				c.done++
			} else {
				c.turnedAway++
			}
		})
	}
	submitters.Wait()
	return c
}
