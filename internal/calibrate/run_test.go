//go:build linux

package calibrate

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRun measures this machine, hastily and over little memory: everything is there, and nothing of it is held against a number.
func TestRun(t *testing.T) {
	var told []string
	r, err := Run(t.Context(), Config{Quick: true, Streams: []int{1}, Progress: func(s string) { told = append(told, s) }, region: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if len(told) != 9 || !strings.HasPrefix(told[0], "1 of 9: read, one stream") {
		t.Errorf("%q", told)
	}
	cpus, err := allowed()
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rates) != 4 || len(r.Latencies) == 0 || r.Compute == nil || r.Lock == nil || r.Loopback == nil || len(r.Pacing) != 2 || (r.Line != nil) != (len(cpus) > 1) {
		t.Errorf("something is missing: %+v", r)
	}
	for _, rate := range r.Rates {
		if rate.Best <= 0 || rate.Median > rate.Best || rate.Spread < 0 || rate.Spread > 1 {
			t.Errorf("%+v", rate)
		}
	}
	if r.Knee == nil || r.Knee.Saturated || r.Knee.PerStream != r.Rates[0].Best {
		t.Errorf("with one stream there is no knee to be seen: %+v", r.Knee)
	}
	text, err := r.File()
	want := "do not saturate the memory"
	if len(cpus) == 1 {
		want = "cannot saturate its memory with the cores it has"
	}
	if err != nil || !strings.Contains(string(text), want) {
		t.Errorf("%v: %s", err, text)
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
}

// TestRunIsInterrupted: what was measured before is kept, and says that it is not all.
func TestRunIsInterrupted(t *testing.T) {
	for _, tc := range []struct {
		at   string
		knee bool
	}{{"1 of", false}, {"2 of", true}} {
		ctx, cancel := context.WithCancel(t.Context())
		r, err := Run(ctx, Config{Quick: true, Streams: []int{1}, region: 1 << 20, Progress: func(s string) {
			if strings.HasPrefix(s, tc.at) {
				cancel()
			}
		}})
		cancel()
		if !errors.Is(err, context.Canceled) || r == nil || !r.Unfinished || (r.Knee != nil) != tc.knee {
			t.Errorf("interrupted at %s: %v, %+v", tc.at, err, r)
		}
		if tc.knee && !strings.Contains(r.Text(), "It was interrupted") {
			t.Errorf("%s", r.Text())
		}
	}
}

func TestRunRefuses(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, -1, 1 << 20} {
		if _, err := Run(t.Context(), Config{Streams: []int{n}}); !errors.Is(err, ErrStreams) {
			t.Errorf("%d streams: %v", n, err)
		}
	}
}

func TestNumbersOfStreams(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		streams []int
		cpus    int
		want    string
	}{
		{nil, 1, "[1]"}, {nil, 2, "[1,2]"}, {nil, 6, "[1,2,4,6]"}, {nil, 16, "[1,2,4,6,8,12,16]"}, {[]int{8, 3}, 16, "[1,3,8]"},
	} {
		got, _ := json.Marshal((&Config{Streams: tc.streams}).numbers(tc.cpus))
		if string(got) != tc.want {
			t.Errorf("%v on %d: %s, want %s", tc.streams, tc.cpus, got, tc.want)
		}
	}
}
