// Package workloads says what is asked: operations, their sizes and their popularity. It never says when, nor whether a request
// is sent.
package workloads

import (
	"iter"
	"math/rand/v2"

	"spillway/machine"
)

// Kind is what an operation does.
type Kind uint8

// The kinds of operation.
const (
	Get Kind = iota
	Set
	Delete
	NumKinds // how many there are
)

var kindNames = [NumKinds]string{"get", "set", "delete"}

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

	// Steps is the work that the operation asks for, where a workload says so itself instead of leaving it to the store.
	Steps []machine.Step
}

// Workload draws operations.
type Workload interface {
	// Next fills op from rng and allocates nothing in steady state. The caller owns op, the workload what its slices point to.
	Next(rng *rand.Rand, op *Op)
}

// Preloader is implemented by workloads that read what must be stored first.
type Preloader interface {
	// Preload yields every operation that fills the store, each valid until the next.
	Preload() iter.Seq[*Op]
}
