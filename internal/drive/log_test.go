//go:build linux

package drive

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"spillway/clock"
	"spillway/internal/reqlog"
)

func someRecord(i int) reqlog.Record {
	return reqlog.Record{
		Seq: uint64(i), Intended: clock.Instant(i) * 10, Sent: clock.Instant(i)*10 + 3, Done: clock.Instant(i)*10 + 9, Queued: -1, Service: 5,
		BytesOut: 1<<32 - 1, BytesIn: uint32(i), Class: 1<<16 - 1, Kind: 3, Fate: reqlog.Unsent, Reason: 255, Attempts: 2, Keys: 255, Hits: 254,
	}
}

func TestLogRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.SliceOfN(rapid.IntRange(0, 3*perBlock+1), 1, 4).Draw(t, "records of each thread")
		var file bytes.Buffer
		log := NewLog(&file)
		var wg sync.WaitGroup
		for point, n := range counts {
			s := log.Stream(uint32(point))
			wg.Go(func() {
				for i := range n {
					r := someRecord(i)
					s.Add(&r)
				}
				s.Close()
			})
		}
		wg.Wait()
		log.Describe(7, []byte("seven"))
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		got, text := make([]int, len(counts)), ""
		err := reqlog.Read(&file, func(point uint32, r *reqlog.Record) {
			if want := someRecord(got[point]); *r != want {
				t.Fatalf("record %d of point %d: %s", got[point], point, cmp.Diff(want, *r))
			}
			got[point]++
		}, func(point uint32, b []byte) { text = fmt.Sprint(point, string(b)) })
		if err != nil || !cmp.Equal(got, counts) || text != "7seven" {
			t.Fatalf("%v records, want %v; text %q; %v", got, counts, text, err)
		}
	})
}

func TestLogDamage(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	log := NewLog(&file)
	s := log.Stream(1)
	for i := range perBlock + 10 {
		r := someRecord(i)
		s.Add(&r)
	}
	s.Close()
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	whole := file.Bytes()
	read := func(b []byte) (n int, err error) {
		err = reqlog.Read(bytes.NewReader(b), func(uint32, *reqlog.Record) { n++ }, func(uint32, []byte) {})
		return n, err
	}
	if n, err := read(whole[:len(whole)-1]); !errors.Is(err, reqlog.ErrTruncated) || n != perBlock {
		t.Errorf("a file that lacks its end: %d records, %v", n, err)
	}
	if n, err := read(whole[:headBytes+5]); !errors.Is(err, reqlog.ErrTruncated) || n != 0 {
		t.Errorf("a file that ends in a head: %d records, %v", n, err)
	}
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-1] ^= 1
	if n, err := read(flipped); err == nil || !strings.Contains(err.Error(), "checksum") || n != perBlock {
		t.Errorf("a flipped bit: %d records, %v", n, err)
	}
	huge := bytes.Clone(whole)
	huge[headBytes+11] = 0xff
	if _, err := read(huge); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("a huge block: %v", err)
	}
	for _, b := range [][]byte{nil, []byte("profile,ground,controller,"), bytes.Repeat([]byte{0}, 100)} {
		if _, err := read(b); err == nil {
			t.Errorf("%q was read as a log", b)
		}
	}
	other := bytes.Clone(whole)
	other[8] = 80
	if _, err := read(other); err == nil || !strings.Contains(err.Error(), "80 bytes") {
		t.Errorf("a later version: %v", err)
	}
}

const (
	perBlock  = (blockBytes + 71 - 16) / 72 // records
	headBytes = 16
)

type broken struct{ left int }

func (b *broken) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errors.New("no space left")
	}
	return len(p), nil
}

// TestLogOnAFullDisk must say so, and must not make the sender wait for ever.
func TestLogOnAFullDisk(t *testing.T) {
	t.Parallel()
	log := NewLog(&broken{left: 1000})
	s := log.Stream(0)
	for i := range 20 * perBlock {
		r := someRecord(i)
		s.Add(&r)
	}
	s.Close()
	if err := log.Close(); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("%v", err)
	}
}

func TestLogAllocatesNothing(t *testing.T) {
	log := NewLog(&broken{left: 1 << 40})
	s := log.Stream(0)
	r := someRecord(1)
	if n := testing.AllocsPerRun(3*perBlock, func() { s.Add(&r) }); n != 0 {
		t.Errorf("%v allocations a record", n)
	}
	s.Close()
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkLog(b *testing.B) {
	log := NewLog(&broken{left: 1 << 60})
	s := log.Stream(0)
	r := someRecord(1)
	for b.Loop() {
		s.Add(&r)
	}
	s.Close()
	if err := log.Close(); err != nil {
		b.Fatal(err)
	}
}
