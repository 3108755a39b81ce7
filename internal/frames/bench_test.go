//go:build linux

package frames

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// threadTime returns how long this thread has had a processor: what others do on it at the same time does not count.
func threadTime(b *testing.B) time.Duration {
	b.Helper()
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		b.Fatal(err)
	}
	return time.Duration(t.Nano())
}

// BenchmarkOperations is where the figures of profiles/costs/dataframe.yaml come from: the best of several runs, as the time of one processor for each step (see
// Query.Steps). It is taken over 8000 rows, of which a cache of 1 MiB holds all columns, and over more than 32 MiB of each column, which none does.
func BenchmarkOperations(b *testing.B) {
	for _, size := range []struct {
		name string
		rows int
	}{{"cached", 8000}, {"year", YearRows}, {"memory", 6_000_000}} {
		s := DefaultShape()
		s.Rows = size.rows
		f, err := Generate(s)
		if err != nil {
			b.Fatal(err)
		}
		for k := range NumKinds {
			q := Standard(k)
			if q.Check(size.rows) != nil || q.Steps(size.rows) > 1e9 && size.name == "memory" {
				continue // it takes too long to be worth it
			}
			b.Run(k.String()+"/"+size.name, func(b *testing.B) {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				w := NewWorker(f)
				var out []byte
				best := time.Duration(1<<63 - 1)
				batch := max(int(100_000_000/(10*q.Steps(size.rows))), 1)
				for b.Loop() {
					before := threadTime(b)
					for range batch {
						if out, err = w.Answer(&q, out[:0]); err != nil {
							b.Fatal(err)
						}
					}
					best = min(best, (threadTime(b)-before)/time.Duration(batch))
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(best.Nanoseconds()), "ns/query")
				b.ReportMetric(float64(best.Nanoseconds())/float64(q.Steps(size.rows)), "ns/step")
				b.ReportMetric(float64(q.Moved(size.rows))/float64(best.Nanoseconds()), "GB/s")
			})
		}
	}
}
