package reqlog

import (
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
)

func TestRecordIsSmall(t *testing.T) {
	t.Parallel()
	// One cache line. What it may hold is a matter of every request that is in flight.
	if got := unsafe.Sizeof(Record{}); got != 64 {
		t.Errorf("a record takes %d bytes, want 64", got)
	}
}

func TestLatencyRunsFromTheIntendedInstant(t *testing.T) {
	t.Parallel()
	r := Record{Intended: 1_000, Sent: 5_000, Done: 9_000}
	if r.Latency() != 8*time.Microsecond || r.SendLag() != 4*time.Microsecond {
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
