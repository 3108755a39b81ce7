//go:build linux

package web

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"spillway/clock"
)

const (
	originSlot  = 100 * time.Millisecond
	originSlots = 3000 // five minutes
)

// origin counts requests by class and tenth of a second.
type origin struct {
	clock clock.Clock
	mu    struct {
		sync.Mutex
		counts [originSlots][]uint32
		last   int64 // number of the slot that is being counted in
	}
}

func newOrigin(c clock.Clock, classes int) *origin {
	o := &origin{clock: c}
	all := make([]uint32, originSlots*classes)
	for i := range o.mu.counts {
		o.mu.counts[i] = all[i*classes : (i+1)*classes]
	}
	return o
}

func (o *origin) count(class uint16) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.advance()
	o.mu.counts[o.mu.last%originSlots][class]++
}

// advance moves on to the slot of now. It is called with mu held.
func (o *origin) advance() {
	now := int64(o.clock.Now()) / int64(originSlot)
	for n := max(o.mu.last, now-originSlots); n < now; n++ {
		clear(o.mu.counts[(n+1)%originSlots])
	}
	o.mu.last = max(o.mu.last, now)
}

// OriginCounts is the page /origin: what a protected server was asked for.
type OriginCounts struct {
	Classes []string   `json:"classes"`
	SlotMS  int64      `json:"slot_ms"` // length of a slot
	First   int64      `json:"first"`   // number of the first slot below, from the start of the server
	Counts  [][]uint32 `json:"counts"`  // by slot and class; the last slot is not over
}

func (o *origin) read(classes []string) OriginCounts {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.advance()
	c := OriginCounts{Classes: classes, SlotMS: originSlot.Milliseconds(), First: max(0, o.mu.last-originSlots+1)}
	for n := c.First; n <= o.mu.last; n++ {
		c.Counts = append(c.Counts, append([]uint32(nil), o.mu.counts[n%originSlots]...))
	}
	return c
}

func (s *Server) serveOrigin(w http.ResponseWriter) {
	if s.origin == nil {
		http.Error(w, "this server does not count what it is asked for; start it with --origin", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(s.origin.read(s.config.Classes)) // whoever does not take it has gone
}
