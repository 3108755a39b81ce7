//go:build linux

package guard_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/guard"
	"spillway/internal/httptarget"
	"spillway/internal/load"
	"spillway/internal/reqlog"
	"spillway/workloads"
)

// The client of loadgen understands a Handler as it does refserver web: why a request was shed, and how long one that was served took.
func TestHandlerTellsLoadgen(t *testing.T) {
	t.Parallel()
	g := newGuard(refusing{}, 1)
	defer g.Close()
	classes := []string{"fine", "budget", "limit", "memory"}
	reasons := []control.Reason{control.NoReason, control.Budget, control.Limit, control.Memory}
	server := httptest.NewServer(g.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }),
		func(r *http.Request) (q control.Request) {
			for i, name := range classes {
				if r.Header.Get(guard.ClassHeader) == name {
					q.Class = uint16(reasons[i])
				}
			}
			return q
		}))
	defer server.Close()

	var got []reqlog.Record
	now := clock.NewReal()
	target, err := httptarget.Open(t.Context(), httptarget.Config{
		URL: server.URL + "/", Classes: classes, Conns: 1, MaxConns: 1, Clock: now, Timeout: 10 * time.Second, Spin: load.SpinAlways,
		Settle: func(r *reqlog.Record) { got = append(got, *r) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	for class := range classes {
		op := workloads.Op{Kind: workloads.Get, Class: uint16(class)}
		rec := reqlog.Record{Seq: uint64(class), Intended: now.Now(), Class: op.Class, Queued: -1, Service: -1}
		target.Issue(now.Now(), &rec, &op, 0)
		target.Flush(now.Now())
		for end := now.Now().Add(20 * time.Second); len(got) <= class && now.Now() < end; {
			target.Wait(now.Now().Add(100 * time.Millisecond))
		}
	}
	if len(got) != len(classes) {
		t.Fatalf("%d of %d requests have a fate", len(got), len(classes))
	}
	if r := got[0]; r.Fate != reqlog.OK || r.Queued < 0 || r.Service < 0 {
		t.Errorf("served: %+v, want the times that it waited and was served", r)
	}
	for i, r := range got[1:] {
		if r.Fate != reqlog.Rejected && r.Fate != reqlog.Dropped || r.Reason != uint8(reasons[i+1]) {
			t.Errorf("%s: fate %v, reason %v", classes[i+1], r.Fate, control.Reason(r.Reason))
		}
	}
}
