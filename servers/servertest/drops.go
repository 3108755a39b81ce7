//go:build linux

package servertest

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
)

// Batch is how many requests Drops has under way at once.
const Batch = 10_000

// mostGrowth is by how much memory may have grown after all drops: what 24 bytes that each leaves behind would come to after a million. The runtime gives
// memory back by and by, and a heap between two collections is larger or smaller.
const mostGrowth = 24 << 20

// Drops asks n times for what is dropped, each with the reply that is given, and fails the test if the process has more memory afterwards: resident, which
// counts what C and mappings have too, or on Go's heap. It returns how many were asked for.
func Drops(t testing.TB, addr, ask, reply string, n int) (asked int) {
	t.Helper()
	c := Dial(t, addr)
	asks := []byte(strings.Repeat(ask, Batch))
	want := strings.Repeat(reply, Batch)
	got := make([]byte, len(want))
	round := func() {
		failed := make(chan error, 1)
		go func() {
			_, err := c.Write(asks)
			failed <- err
		}()
		if _, err := io.ReadFull(c.In, got); err != nil {
			t.Fatal(err)
		}
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Fatalf("got %.200q, want nothing but %q", got, reply)
		}
		asked += Batch
	}
	for range 2 {
		round() // what is kept for further use is there now
	}
	resident, heap := memory(t)
	for range n / Batch {
		round()
	}
	residentAfter, heapAfter := memory(t)
	if grown := residentAfter - resident; grown > mostGrowth {
		t.Errorf("after %d drops the process has %d bytes more in memory", asked, grown)
	}
	if grown := heapAfter - heap; grown > mostGrowth/10 {
		t.Errorf("after %d drops there are %d bytes more on the heap", asked, grown)
	}
	return asked
}

// memory returns the bytes of this process that are in memory, and those of live objects on Go's heap.
func memory(t testing.TB) (resident, heap int) {
	t.Helper()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip("there is no /proc")
	}
	var total, pages int
	if _, err := fmt.Sscan(string(text), &total, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize(), int(stats.HeapAlloc)
}
