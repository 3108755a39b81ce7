package bouncer

import "spillway/control"

// pool is what all policies here have: P processes and those that wait for one.
//
// The Gate may have more slots than there are processes, or no limit at all where cores queue in the machine. A policy that counts who
// waits must have them wait where it counts: here.
type pool struct {
	parallelism int
	queued      int // waiting, of all classes
	running     int
}

func newPool(parallelism, cores int) pool {
	if parallelism == 0 {
		parallelism = cores
	}
	if parallelism < 1 {
		panic("bouncer: neither a parallelism nor a number of cores")
	}
	return pool{parallelism: parallelism}
}

// atDequeue answers for the head of the queue.
func (p *pool) atDequeue() control.Decision {
	if p.running >= p.parallelism {
		return control.Decision{Verdict: control.Wait}
	}
	return control.Decision{}
}

func (p *pool) observe(e *control.Event) {
	switch e.Kind {
	case control.Queued:
		p.queued++
	case control.Started:
		p.queued--
		p.running++
	case control.Finished:
		p.running--
	case control.Refused:
		if e.Stage == control.AtDequeue {
			p.queued--
		}
	}
}
