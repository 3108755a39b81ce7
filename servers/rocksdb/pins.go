//go:build linux && cgo && !norocksdb

package rocksdb

import (
	"errors"
	"sync"
)

// pin is what keeps a value where it is in the store. It must be destroyed once, and before the store is closed.
type pin interface {
	Data() []byte
	Destroy()
}

// pins are the values that replies are being sent from. A token names one of them, once: it is never given out again, so giving back twice is
// found rather than done to somebody else's value.
type pins struct {
	destroy func(pin)

	mu struct {
		sync.Mutex
		slots []pinSlot
		free  []uint32
		taken uint64 // ever
		freed uint64
	}
}

type pinSlot struct {
	pin  pin
	life uint32
}

// hold keeps p until its token is given back.
func (p *pins) hold(v pin) (token uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.taken++
	if len(p.mu.free) == 0 {
		p.mu.slots = append(p.mu.slots, pinSlot{})
		p.mu.free = append(p.mu.free, uint32(len(p.mu.slots)-1))
	}
	last := len(p.mu.free) - 1
	i := p.mu.free[last]
	p.mu.free = p.mu.free[:last]
	s := &p.mu.slots[i]
	s.pin = v
	return uint64(s.life)<<32 | uint64(i)
}

// Unpin gives a value back. It implements memproto.Holder.
func (p *pins) Unpin(token uint64) {
	if err := p.release(token); err != nil {
		panic("rocksdb: " + err.Error()) // the value may be somebody else's by now
	}
}

var errReleased = errors.New("a value was given back twice")

func (p *pins) release(token uint64) error {
	p.mu.Lock()
	i := uint32(token)
	if int(i) >= len(p.mu.slots) || p.mu.slots[i].life != uint32(token>>32) || p.mu.slots[i].pin == nil {
		p.mu.Unlock()
		return errReleased
	}
	s := &p.mu.slots[i]
	v := s.pin
	s.pin = nil
	s.life++
	p.mu.free = append(p.mu.free, i)
	p.mu.freed++
	p.mu.Unlock()
	p.destroy(v)
	return nil
}

// counts returns how many values have been given out and how many have come back.
func (p *pins) counts() (taken, freed uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.taken, p.mu.freed
}

// releaseAll gives back what replies hold that will not be sent any more.
func (p *pins) releaseAll() {
	p.mu.Lock()
	var left []pin
	for i := range p.mu.slots {
		if s := &p.mu.slots[i]; s.pin != nil {
			left = append(left, s.pin)
			s.pin = nil
			s.life++
			p.mu.free = append(p.mu.free, uint32(i))
			p.mu.freed++
		}
	}
	p.mu.Unlock()
	for _, v := range left {
		p.destroy(v)
	}
}
