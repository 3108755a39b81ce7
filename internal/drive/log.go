//go:build linux

package drive

import (
	"fmt"
	"io"

	"spillway/internal/reqlog"
)

const (
	// blockBytes is how much is gathered before it is written.
	blockBytes = 256 << 10
	// perStream is how many blocks a stream has in hand; while one is filled, the others are on their way to the disk.
	perStream = 4
)

// Log writes records as they come. Its memory does not grow with their number.
type Log struct {
	full chan *block
	done chan struct{}
	err  error // of the writer; read after done
}

// block is a part of the file as it is written.
type block struct {
	content []byte
	point   uint32
	free    chan<- *block // where it goes back to; nil for a block of text
}

// NewLog begins a log on w. Close ends it; w stays open.
func NewLog(w io.Writer) *Log {
	l := &Log{full: make(chan *block, perStream), done: make(chan struct{})}
	go l.write(w)
	return l
}

func (l *Log) write(w io.Writer) {
	defer close(l.done)
	_, l.err = w.Write(reqlog.Header())
	for b := range l.full {
		if b.free == nil {
			reqlog.SealText(b.content, b.point)
		} else {
			reqlog.SealRecords(b.content, b.point)
		}
		if l.err == nil { // after an error blocks are only taken back, so that nobody waits for ever
			_, l.err = w.Write(b.content)
		}
		if b.free != nil {
			b.content = reqlog.BlockOf(b.content)
			b.free <- b
		}
	}
}

// Describe writes what a point is. All streams of the point are closed before.
func (l *Log) Describe(point uint32, text []byte) {
	l.full <- &block{point: point, content: append(reqlog.BlockOf(nil), text...)}
}

// Close waits until everything is written and returns the first error of writing. All streams are closed before.
func (l *Log) Close() error {
	close(l.full)
	<-l.done
	if l.err != nil {
		return fmt.Errorf("log of requests: %w", l.err)
	}
	return nil
}

// Stream takes the records of one point from one thread.
type Stream struct {
	log  *Log
	now  *block
	free chan *block
}

// Stream returns a stream of its own for each thread.
func (l *Log) Stream(point uint32) *Stream {
	s := &Stream{log: l, free: make(chan *block, perStream)}
	for range perStream {
		s.free <- &block{point: point, content: reqlog.BlockOf(make([]byte, 0, blockBytes)), free: s.free}
	}
	s.now = <-s.free
	return s
}

// Add writes one record. It allocates nothing. When the disk is slower than the load it waits, which shows as send lag: a log with gaps
// would not say so.
func (s *Stream) Add(r *reqlog.Record) {
	s.now.content = r.Append(s.now.content)
	if len(s.now.content) >= blockBytes {
		s.log.full <- s.now
		s.now = <-s.free
	}
}

// Close writes what has been gathered.
func (s *Stream) Close() {
	if len(s.now.content) > len(reqlog.BlockOf(nil)) {
		s.log.full <- s.now
	}
	s.now = nil
}
