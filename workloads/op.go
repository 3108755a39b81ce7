// Package workloads says what is asked: operations, their sizes and their popularity. It never says when, nor whether a request
// is sent.
package workloads

import (
	"iter"
	"math/rand/v2"
	"time"

	"spillway/machine"
)

// Kind is what an operation does.
type Kind uint8

// The kinds of operation.
const (
	Get Kind = iota
	Set
	Delete
	MultiGet // a read of several keys as one request, with one fate
	NumKinds // how many there are
)

var kindNames = [NumKinds]string{"get", "set", "delete", "multiget"}

// String returns the name of k as profiles write it.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// Op is one operation. Its slices are valid until the next call to the workload that filled it.
type Op struct {
	Kind  Kind
	Class uint16 // index into the workload's classes
	Key   []byte // 1 to 250 bytes
	Value []byte // of Set

	More   [][]byte // of MultiGet: the keys after the first
	Expire uint32   // of Set: seconds after which the item is gone, 0 for never

	// Ref identifies what is asked for among the operations of its class and kind: equal keys have equal refs. 0 where the workload
	// does not number what it asks for.
	Ref uint64
	// WriteBack says that a miss is to be followed by the operation that Refiller makes of class and ref.
	WriteBack bool

	// Steps is the work that the operation asks for, where a workload says so itself instead of leaving it to the store.
	Steps []machine.Step
}

// Workload draws operations.
type Workload interface {
	// Next fills op from rng and allocates nothing in steady state. The caller owns op, the workload what its slices point to.
	Next(rng *rand.Rand, op *Op)
}

// Skipper is implemented by workloads that can draw an operation without spelling it out. Senders that share one sequence each draw all
// of it and send their part, so passing over a request should cost no more than its random numbers.
type Skipper interface {
	// Skip does with rng exactly what Next would do, and fills op except for Key, More, Value and Steps.
	Skip(rng *rand.Rand, op *Op)
}

// Varying is implemented by workloads that may ask for other shares of their classes as time goes by.
type Varying interface {
	// Shift moves on to an instant, counted like those of the arrivals, which do not decrease. Whoever draws calls it before each operation,
	// also before one that it passes over: the shares are those of the instant at which a request is due.
	Shift(at time.Duration)
}

// Refiller is implemented by workloads whose misses write back: the client of a cache that is put beside a database.
type Refiller interface {
	// Refill fills op with the Set that follows a miss of the operation with this class and ref.
	Refill(class uint16, ref uint64, op *Op)
}

// Preloader is implemented by workloads that read what must be stored first.
type Preloader interface {
	// Preload yields every operation that fills the store, each valid until the next.
	Preload() iter.Seq[*Op]
}
