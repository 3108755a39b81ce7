package aqm_test

import (
	"fmt"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/control/aqm"
)

// A lock whose queue is judged by the age of its oldest waiter: a request that would probably wait for longer than its budget is told so before it
// waits. The owner of the section says what happened when; guard.Mutex is such an owner, for goroutines.
func ExampleNewLock() {
	const ms = clock.Instant(time.Millisecond)
	lock := aqm.NewLock(aqm.LockConfig{Policy: control.LockQDelay})
	enter := func(now clock.Instant, id uint64) {
		r := control.Request{ID: id, Budget: 2 * time.Millisecond}
		switch lock.Enter(now, &r, control.WaitWithinBudget).Verdict {
		case control.Admit:
			fmt.Printf("%d ms: %d has the lock\n", now/ms, id)
		case control.Wait:
			fmt.Printf("%d ms: %d waits\n", now/ms, id)
		case control.Reject:
			fmt.Printf("%d ms: %d is turned away\n", now/ms, id)
		}
	}
	enter(0, 1)
	enter(1*ms, 2)
	enter(2*ms, 3)
	enter(4*ms, 4) // 2 has been waiting for 3 ms by now
	for _, a := range lock.Leave(5*ms, &control.Request{ID: 1}, nil) {
		fmt.Printf("5 ms: %d has the lock, after %v\n", a.Request.ID, a.Request.Waited)
	}
	// Output:
	// 0 ms: 1 has the lock
	// 1 ms: 2 waits
	// 2 ms: 3 waits
	// 4 ms: 4 is turned away
	// 5 ms: 2 has the lock, after 4ms
}
