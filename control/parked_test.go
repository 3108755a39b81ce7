package control_test

import (
	"testing"
	"time"

	"spillway/clock"
	"spillway/control"
)

func TestParked(t *testing.T) {
	t.Parallel()
	p := control.NewParked()
	if p.Len() != 0 || p.Age(5) != 0 || p.Withdraw(1) {
		t.Errorf("empty: %d wait, the oldest for %v", p.Len(), p.Age(5))
	}
	const n = 1000 // more than a chunk of the queue
	for id := range uint64(n) {
		p.Push(clock.Instant(id), &control.Request{ID: id, Arrived: 7, Waited: 100})
	}
	if p.Len() != n || p.Age(n) != n {
		t.Errorf("%d wait, the oldest for %v", p.Len(), p.Age(n))
	}
	for id := range uint64(n) {
		if id%3 == 0 && (!p.Withdraw(id) || p.Withdraw(id)) {
			t.Fatalf("withdraw %d", id)
		}
	}
	for id := range uint64(n) {
		if id%3 == 0 {
			continue
		}
		if r := p.Pop(n); r.ID != id || r.Arrived != 7 || r.Waited != 100+time.Duration(n-id) {
			t.Fatalf("popped %+v, want %d", r, id)
		}
	}
	if p.Len() != 0 {
		t.Errorf("%d are left", p.Len())
	}
	for what, do := range map[string]func(p *control.Parked){
		"pop from an empty queue": func(p *control.Parked) { p.Pop(0) },
		"a request that waits twice": func(p *control.Parked) {
			p.Push(0, &control.Request{ID: 1})
			p.Push(0, &control.Request{ID: 1})
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", what)
				}
			}()
			do(control.NewParked())
		}()
	}
}
