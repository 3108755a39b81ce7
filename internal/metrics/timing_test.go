package metrics

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"spillway/control"
)

func TestTiming(t *testing.T) {
	t.Parallel()
	var d Timing
	if d.Mean() != 0 {
		t.Errorf("the mean of nothing is %v", d.Mean())
	}
	for _, v := range []time.Duration{-time.Second, 500 * time.Nanosecond, time.Microsecond, 3 * time.Microsecond, time.Hour} {
		d.Add(v)
	}
	if d.buckets[0] != 2 || d.buckets[1] != 1 || d.buckets[2] != 1 || d.count != 5 {
		t.Errorf("%v", d)
	}
	if want := (time.Hour - time.Second + 4500*time.Nanosecond) / 5; d.Mean() != want {
		t.Errorf("the mean is %v, want %v", d.Mean(), want)
	}
}

// TestPage: what a server shows is on the page, and what it does not know is not.
func TestPage(t *testing.T) {
	t.Parallel()
	f := Figures{
		Control: "codel", Gate: control.Stats{Arrived: 9, Started: 7, InService: 2, Queued: 3}, Classes: []Class{{Name: "gold", Arrived: 9}}, QueueDelay: 250 * time.Millisecond,
		Connections: 4, Accepted: 6, Turned: 1,
		Meters: func(yield func(string, float64) bool) { yield("credits", 12.5) },
		Store:  func(yield func(string, uint64) bool) { yield("cmd_get", 17) },
	}
	f.Classes[0].Shed[control.Lock] = 5
	f.Service.Add(3 * time.Microsecond)
	read := func() string {
		w := httptest.NewRecorder()
		Page(func() Figures { return f }).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		text, err := io.ReadAll(w.Body)
		if err != nil || w.Code != 200 {
			t.Fatalf("%d, %v", w.Code, err)
		}
		return string(text)
	}
	page := read()
	for _, want := range []string{
		"spillway_control_info{control=\"codel\"} 1\n", "spillway_arrivals_total 9\n", "spillway_started_total 7\n", "spillway_in_service 2\n", "spillway_in_flight 5\n", "spillway_queue_delay_seconds 0.25\n",
		`spillway_shed_total{class="gold",reason="lock"} 5`, `spillway_class_arrivals_total{class="gold"} 9`, `spillway_controller_meter{meter="credits"} 12.5`,
		`spillway_store{stat="cmd_get"} 17`, "spillway_connections 4\n", "spillway_connections_total 6\n", "spillway_connections_rejected_total 1\n",
		`spillway_service_seconds_bucket{le="2e-06"} 0`, `spillway_service_seconds_bucket{le="4e-06"} 1`, "go_goroutines",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %s", want)
		}
	}
	if strings.Contains(page, "spillway_received_bytes_total") {
		t.Error("there is traffic, which nobody counts")
	}
	f.Traffic = &Traffic{Received: 100, Sent: 200}
	if page := read(); !strings.Contains(page, "spillway_received_bytes_total 100\n") || !strings.Contains(page, "spillway_sent_bytes_total 200\n") {
		t.Error("the traffic is not on the page")
	}
}
