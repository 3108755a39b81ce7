package control

import (
	"math/rand/v2"
	"time"
)

// The policies of a lock's queue: what a request that would have to wait for the lock is judged by.
const (
	LockOff    = "off"    // everybody waits
	LockQDelay = "qdelay" // the age of the oldest waiter (Protego's ASQM)
	LockQLen   = "qlen"   // the number of waiters, each for the time that the lock is usually held (Svalinn)
)

// Stack is a whole overload control: what decides at the Gate, what stands at the queues within service, and what clients do. A name and
// settings make one (package catalog); servers and the simulator put its parts where they belong.
type Stack struct {
	Controller Controller

	// Memory is the section around work that is bound by memory bandwidth; nil when everybody may enter. Mode is how it is entered. What it
	// needs of ticks it gets through Controller.
	Memory Section
	Mode   Mode

	// NewLock returns what is to be the queue of a lock: a section of one place. It is nil when a lock lets everybody wait.
	NewLock func() Section

	// Budget is the waiting that each request may be asked to bear; 0 for none.
	Budget time.Duration

	// NewClient returns a client's half; nil when clients just send. rng is the client's own.
	NewClient func(rng *rand.Rand) *Outbox
}
