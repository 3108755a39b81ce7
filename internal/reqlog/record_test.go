package reqlog

import (
	"bytes"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
)

func TestRecordIsSmall(t *testing.T) {
	t.Parallel()
	// What it may hold is a matter of every request that is in flight.
	if got := unsafe.Sizeof(Record{}); got != 72 {
		t.Errorf("a record takes %d bytes, want 72", got)
	}
}

func TestLatencyRunsFromTheIntendedInstant(t *testing.T) {
	t.Parallel()
	r := Record{Intended: 1_000, Sent: 5_000, Done: 9_000}
	if r.Latency() != 8*time.Microsecond || r.SendLag() != 4*time.Microsecond {
		t.Errorf("latency %v, send lag %v", r.Latency(), r.SendLag())
	}
	r.Held = 3000 // which is not the generator's fault, and the user's wait
	if r.Latency() != 8*time.Microsecond || r.SendLag() != time.Microsecond {
		t.Errorf("latency %v, send lag %v", r.Latency(), r.SendLag())
	}
}

func TestFates(t *testing.T) {
	t.Parallel()
	type row struct {
		Name            string
		Sent, Completed bool
	}
	want := []row{
		{"pending", false, false}, {"ok", true, true}, {"late", true, true}, {"refused", false, false}, {"rejected", true, false},
		{"dropped", true, false}, {"expired", true, false}, {"timed_out", true, false}, {"failed", true, false}, {"unsent", false, false},
	}
	var got []row
	for f := Pending; f < NumFates; f++ {
		got = append(got, row{f.String(), f.Sent(), f.Completed()})
	}
	if NumFates.String() != "unknown" {
		t.Errorf("beyond the fates there is %q", NumFates)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestForm pins the 72 bytes of a record: files written today are read next year.
func TestForm(t *testing.T) {
	t.Parallel()
	r := Record{
		Seq: 1, Intended: 2, Sent: 3, Done: 4, Queued: -1, Service: 6, BytesOut: 7, BytesIn: 8, Class: 0x0102, Kind: 3, Fate: Unsent, Reason: 5,
		Attempts: 6, Keys: 7, Hits: 8, Held: 9,
	}
	form := r.Append(nil)
	want := []byte{
		1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0,
		255, 255, 255, 255, 255, 255, 255, 255, 6, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 8, 0, 0, 0, 2, 1, 3, 9, 5, 6, 7, 8,
		9, 0, 0, 0, 0, 0, 0, 0,
	}
	if diff := cmp.Diff(want, form); diff != "" {
		t.Error(diff)
	}
	block := append(BlockOf(nil), form...)
	SealRecords(block, 3)
	text := append(BlockOf(nil), "a point"...)
	SealText(text, 3)
	file := append(append(Header(), block...), text...)
	var back Record
	said := ""
	err := Read(bytes.NewReader(file), func(point uint32, r *Record) { back = *r }, func(point uint32, text []byte) { said = string(text) })
	if err != nil || back != r || said != "a point" {
		t.Errorf("read back %+v, %q, %v", back, said, err)
	}
}
