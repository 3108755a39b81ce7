//go:build linux

// Package synthetic is a server whose requests say themselves what work they are: the key spells the steps (see machine.AppendSteps), so
// that any memcached client can ask for any work. It stores nothing.
//
// A Backend answers, and leaves the work to a modelled machine, whose Coster is Costs. A Host does the work: it computes, moves bytes,
// holds locks and memory.
package synthetic

import (
	"errors"
	"fmt"
	"sync/atomic"

	"spillway/internal/memproto"
	"spillway/machine"
	"spillway/servers"
)

// Backend answers every get as a hit of an empty value, every set as stored and every deletion as done.
type Backend struct {
	gets, sets, deletes, wrong atomic.Uint64
}

var _ servers.Backend = (*Backend)(nil)

// New returns a Backend that does no work.
func New() *Backend { return new(Backend) }

// Do answers a command.
func (b *Backend) Do(cmd *memproto.Command, w *memproto.Writer) error {
	switch v := cmd.Verb; {
	case v == memproto.MetaGet:
		b.gets.Add(1)
		w.Hit(cmd, memproto.Item{Key: cmd.Key, BinaryKey: cmd.BinaryKey})
	case v.Retrieval():
		for key := range cmd.ItemKeys {
			b.gets.Add(1)
			w.Hit(cmd, memproto.Item{Key: key})
		}
	case v.Storage():
		if cmd.TooLarge {
			w.Fail(memproto.TooLargeText)
			return nil
		}
		b.sets.Add(1)
		w.Result(memproto.Stored, 0)
	case v == memproto.Delete || v == memproto.MetaDelete:
		b.deletes.Add(1)
		w.Result(memproto.Done, 0)
	default:
		return errors.New("command " + cmd.Verb.String() + " is not for a synthetic server; ask with get, set or delete")
	}
	return nil
}

// Stats yields the counts of executed commands, in memcached's names where it has one.
func (b *Backend) Stats(yield func(name string, value uint64) bool) {
	_ = yield("cmd_get", b.gets.Load()) && yield("cmd_set", b.sets.Load()) && yield("get_hits", b.gets.Load()) && yield("get_misses", 0) &&
		yield("delete_hits", b.deletes.Load()) && yield("delete_misses", 0) && yield("wrong_keys", b.wrong.Load())
}

// Close does nothing.
func (b *Backend) Close() error { return nil }

// Costs reads what a command costs out of its keys.
type Costs struct {
	Bus bool // the machine has a memory bus
}

var _ servers.Coster = Costs{}

// Steps appends the steps that the keys of cmd spell, of all keys one after the other. The error names the step that is wrong.
func (c Costs) Steps(dst []machine.Step, cmd *memproto.Command) (_ []machine.Step, err error) {
	first := len(dst)
	for key := range cmd.ItemKeys {
		if dst, err = machine.ParseSteps(dst, key); err != nil {
			return dst, err
		}
		if !cmd.Verb.Retrieval() || cmd.Verb == memproto.MetaGet {
			break // what follows the key are no keys
		}
	}
	for _, s := range dst[first:] {
		if s.Kind == machine.Stream && !c.Bus {
			return dst, fmt.Errorf("step %q: this machine has no memory bus", machine.AppendSteps(nil, []machine.Step{s}))
		}
	}
	return dst, nil
}
