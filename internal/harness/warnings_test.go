//go:build linux

package harness

import (
	"strings"
	"testing"
	"time"

	"spillway/internal/drive"
	"spillway/internal/load"
)

// TestNumbersBehindWarnings: what was counted is said of the window, or with what else is in it.
func TestNumbersBehindWarnings(t *testing.T) {
	t.Parallel()
	f := &fake{profile: profile(t), latency: quick}
	r := f.result(100, time.Second)
	r.Load.Warnings = []string{drive.WarnLittle, drive.WarnReconnected, drive.WarnSocketFull, drive.WarnWindowFull}
	r.Load.InFlight, r.Load.WindowFull = 70, 3
	r.Load.Counters = load.Counters{WindowFull: 500, SocketFull: 7, Lost: 2, Reconnects: 1}
	notes := judge(&Point{Rate: 100, Repeat: 1}, &r).Facts.Notes
	for code, want := range map[string]string{
		drive.WarnWindowFull: "3 of 100 requests of the window", drive.WarnSocketFull: "7 times, warm-up included",
		drive.WarnReconnected: "2 lost, 1 established anew, warm-up and drain included",
	} {
		if notes[code] != want {
			t.Errorf("%s: %q, want %q", code, notes[code], want)
		}
	}
	if got := notes[drive.WarnLittle]; !strings.HasPrefix(got, "70 requests in flight were counted, ") || !strings.HasSuffix(got, " more or less may be chance") {
		t.Errorf("little: %q", got)
	}
}
