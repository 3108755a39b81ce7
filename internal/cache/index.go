//go:build linux

package cache

import (
	"bytes"
	"unsafe"

	"golang.org/x/sys/unix"
)

// index is a hash table of items, chained through header.next. Its tables are outside the Go heap as well: a table that doubles is
// then neither cleared nor seen by the collector, and the one before it is gone as soon as it is empty.
type index struct {
	arena    *arena
	table    []ref
	old      []ref // the table before it grew; buckets from migrated on are still there
	migrated int
}

const (
	firstTable = 1 << 10
	refBytes   = int64(unsafe.Sizeof(ref(0)))
)

func newTable(n int) ([]ref, error) {
	mem, err := reserve(int64(n) * refBytes)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*ref)(unsafe.Pointer(&mem[0])), n), nil
}

func freeTable(t []ref) error {
	if t == nil {
		return nil
	}
	return unix.Munmap(unsafe.Slice((*byte)(unsafe.Pointer(&t[0])), int64(len(t))*refBytes))
}

func (x *index) init(a *arena) (err error) {
	x.arena = a
	x.table, err = newTable(firstTable)
	return err
}

func (x *index) close() error {
	err := freeTable(x.old)
	if e := freeTable(x.table); err == nil {
		err = e
	}
	x.table, x.old = nil, nil
	return err
}

// bucket returns where the chain of a hash begins, in the old table as long as it has not moved on.
func (x *index) bucket(hash uint32) *ref {
	if x.old != nil {
		if i := int(hash) & (len(x.old) - 1); i >= x.migrated {
			return &x.old[i]
		}
	}
	return &x.table[int(hash)&(len(x.table)-1)]
}

func (x *index) find(hash uint32, key []byte) ref {
	x.migrate()
	for r := *x.bucket(hash); r != 0; {
		h := x.arena.header(r)
		if h.hash == hash && bytes.Equal(x.arena.key(r), key) {
			return r
		}
		r = h.next
	}
	return 0
}

func (x *index) insert(r ref, h *header) {
	b := x.bucket(h.hash)
	h.next, *b = *b, r
}

// remove takes out an item that is in the index.
func (x *index) remove(r ref, h *header) {
	b := x.bucket(h.hash)
	for *b != r {
		b = &x.arena.header(*b).next
	}
	*b = h.next
}

// grow doubles the table when it has become too small for n items. Without memory for that the chains get longer.
func (x *index) grow(n int64) {
	if x.old != nil || n <= int64(len(x.table))*3/2 || len(x.table) >= 1<<31 {
		return
	}
	if t, err := newTable(2 * len(x.table)); err == nil {
		x.old, x.migrated, x.table = x.table, 0, t
	}
}

// migrateStep is how many buckets of the old table each operation moves. With two, the old table is empty long before the new one,
// twice its size, is full; and no operation ever waits for a whole table to move.
const migrateStep = 2

func (x *index) migrate() {
	for range migrateStep {
		if x.old == nil {
			return
		}
		r := x.old[x.migrated]
		x.old[x.migrated] = 0
		x.migrated++
		for r != 0 {
			h := x.arena.header(r)
			next := h.next
			to := &x.table[int(h.hash)&(len(x.table)-1)]
			h.next, *to = *to, r
			r = next
		}
		if x.migrated == len(x.old) {
			_ = freeTable(x.old) // it was mapped by newTable, so this cannot fail
			x.old, x.migrated = nil, 0
		}
	}
}

// each calls f with every item.
func (x *index) each(f func(r ref, h *header)) {
	for _, table := range [][]ref{x.table, x.old} {
		for _, r := range table {
			for r != 0 {
				h := x.arena.header(r)
				next := h.next
				f(r, h)
				r = next
			}
		}
	}
}
