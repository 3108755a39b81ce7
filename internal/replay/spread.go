package replay

import (
	"errors"
	"fmt"
	"time"

	"spillway/workloads"
)

// spreader holds back the rows of one instant until it is known how many there are, and spreads them evenly over a while: a trace whose times are
// whole seconds has its requests at all instants of each second, not at its beginning.
type spreader struct {
	out  *Writer
	over time.Duration
	at   time.Duration
	text []byte // of the rows held back, one after the other
	held []heldRow
	row  Row
}

type heldRow struct {
	class, key, end int // where its class, key and end are in the text
	size            int64
	kind            workloads.Kind
}

// What is held back at most.
const (
	mostHeld      = 1 << 22
	mostHeldBytes = 1 << 28
)

var errTick = fmt.Errorf("more than %d rows, or %d MB of them, have one timestamp; import without spreading them (a spread of 0)", mostHeld, mostHeldBytes>>20)

func newSpreader(out *Writer, over time.Duration) *spreader { return &spreader{out: out, over: over} }

func (s *spreader) write(r *Row) error {
	if s.over == 0 {
		return s.out.Write(r)
	}
	if r.At != s.at {
		if err := s.flush(min(s.over, r.At-s.at)); err != nil {
			return err
		}
		s.at = r.At
	}
	if len(s.held) == mostHeld || len(s.text) > mostHeldBytes {
		return errTick
	}
	h := heldRow{class: len(s.text), size: r.Sizes[0], kind: r.Kind}
	s.text = append(s.text, r.Class...)
	h.key = len(s.text)
	s.text = append(s.text, r.Keys[0]...)
	h.end = len(s.text)
	s.held = append(s.held, h)
	return nil
}

func (s *spreader) flush(over time.Duration) error {
	for i, h := range s.held {
		s.row.At = s.at + time.Duration(float64(over)*float64(i)/float64(len(s.held)))
		s.row.Class, s.row.Kind = s.text[h.class:h.key], h.kind
		s.row.Keys, s.row.Sizes = append(s.row.Keys[:0], s.text[h.key:h.end]), append(s.row.Sizes[:0], h.size)
		if err := s.out.Write(&s.row); err != nil {
			return err
		}
	}
	s.text, s.held = s.text[:0], s.held[:0]
	return nil
}

func (s *spreader) close() error {
	return errors.Join(s.flush(s.over), s.out.Close())
}
