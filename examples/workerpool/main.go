// Workerpool is a pool of workers that embeds Svalinn. The usual pool has a channel of jobs in front of it, in which jobs grow old when
// more come than the workers can do; here the Guard is the queue, and turns away whoever would wait longer than its job is worth.
//
//	go run ./examples/workerpool -jobs 2000 -rate 2000
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"spillway/control"
	"spillway/control/catalog"
	"spillway/guard"
)

func main() {
	jobs := flag.Int("jobs", 2000, "how many jobs to submit")
	rate := flag.Int("rate", 2000, "how many of them a second")
	flag.Parse()
	if *jobs < 1 || *rate < 1 {
		fmt.Fprintln(os.Stderr, "workerpool: -jobs and -rate must be at least 1")
		os.Exit(2)
	}
	p, err := newPool(runtime.GOMAXPROCS(0), 50*time.Millisecond)
	if err != nil {
		fmt.Fprintln(os.Stderr, "workerpool:", err)
		os.Exit(1)
	}
	defer p.close()
	n := submitAll(context.Background(), p, *jobs, time.Second/time.Duration(*rate))
	fmt.Printf("%d jobs: %d done, %d turned away, %d dropped halfway\n", *jobs, n.done, n.turnedAway, n.dropped)
}

// job is a piece of work. Its ticket lets it enter sections.
type job func(t *guard.Ticket) error

// errTurnedAway is the error of a job that no worker has begun.
var errTurnedAway = errors.New("turned away")

// pool has a fixed number of workers.
type pool struct {
	guard   *guard.Guard
	moved   *guard.Accounted
	work    chan task
	workers sync.WaitGroup
}

type task struct {
	job    job
	ticket *guard.Ticket
	done   chan error
}

// newPool starts the workers. A job should be done within slo after it was submitted.
func newPool(workers int, slo time.Duration) (*pool, error) {
	stack, err := catalog.New("svalinn", nil, catalog.Env{Cores: workers, SLO: slo, Seed: 1})
	if err != nil {
		return nil, err
	}
	p := &pool{moved: new(guard.Accounted), work: make(chan task)}
	// A slot for each worker: whoever is admitted finds one idle.
	p.guard, err = guard.NewFromStack(stack, guard.Config{Gate: control.GateConfig{Slots: workers}, Memory: p.moved})
	if err != nil {
		return nil, err
	}
	for range workers {
		p.workers.Go(func() {
			for t := range p.work {
				err := t.job(t.ticket)
				t.ticket.Done(err != nil)
				t.done <- err
			}
		})
	}
	return p, nil
}

// submit has j done by a worker and returns its error, or errTurnedAway.
func (p *pool) submit(ctx context.Context, j job) error {
	ticket, err := p.guard.Begin(ctx, control.Request{})
	if err != nil {
		return fmt.Errorf("%w: %w", errTurnedAway, err)
	}
	done := make(chan error, 1)
	p.work <- task{j, ticket, done}
	return <-done
}

// close ends the workers. Nobody may submit any more.
func (p *pool) close() {
	p.guard.Close()
	close(p.work)
	p.workers.Wait()
}

// index is a job bound by memory bandwidth. It holds a buffer that has to go back whatever becomes of it.
func (p *pool) index(buffers *sync.Pool) job {
	return func(t *guard.Ticket) error {
		buffer := buffers.Get().(*[]byte)
		defer t.OnDrop(func() { buffers.Put(buffer) })()
		leave, err := t.Memory()
		if err != nil {
			return err
		}
		defer leave()
		for i := range *buffer {
			(*buffer)[i]++
		}
		p.moved.Add(2 * uint64(len(*buffer))) // read and written
		return nil
	}
}

// thumbnail is a job that only computes.
func thumbnail(*guard.Ticket) error {
	x := uint64(1)
	for range 1 << 20 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	if x == 0 {
		return errors.New("a xorshift never gets to 0")
	}
	return nil
}

// counts are what became of jobs.
type counts struct{ done, turnedAway, dropped int }

// submitAll submits n jobs, one every so often, half of each kind, whether or not the earlier ones are done.
func submitAll(ctx context.Context, p *pool, n int, every time.Duration) (c counts) {
	buffers := &sync.Pool{New: func() any {
		b := make([]byte, 16<<20)
		return &b
	}}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var submitters sync.WaitGroup
	var mu sync.Mutex
	for i := range n {
		<-ticker.C
		submitters.Go(func() {
			j := thumbnail
			if i%2 == 0 {
				j = p.index(buffers)
			}
			err := p.submit(ctx, j)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				c.done++
			case errors.Is(err, errTurnedAway):
				c.turnedAway++
			default:
				c.dropped++
			}
		})
	}
	submitters.Wait()
	return c
}
