package report

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spillway/internal/reqlog"
)

// TestRequests reads a file as a run writes it: records of two points, what they are behind them, and an end that is missing.
func TestRequests(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := Requests(&bytes.Buffer{}, dir); err == nil || !strings.Contains(err.Error(), "--record") {
		t.Errorf("a directory without records: %v", err)
	}
	file := reqlog.Header()
	for point, controller := range []string{"none", "codel"} {
		block := reqlog.BlockOf(nil)
		for i := range 3 { // the first is of the warm-up, the last was shed
			r := reqlog.Record{
				Seq: uint64(i), Intended: 1000, Sent: 1500, Done: 9000, Queued: -1, Service: 2000, BytesOut: 30, BytesIn: 40, Kind: 3,
				Fate: reqlog.OK, Keys: 5, Hits: 4,
			}
			switch i {
			case 0:
				r.Intended = 999
			case 2:
				r.Fate = reqlog.Rejected
			}
			block = r.Append(block)
		}
		reqlog.SealRecords(block, uint32(point))
		text, err := json.Marshal(PointOfRequests{Controller: controller, Load: "1x", Repeat: 2, Classes: []string{"a"}, FromNS: 1000, ToNS: 2000})
		if err != nil {
			t.Fatal(err)
		}
		said := append(reqlog.BlockOf(nil), text...)
		reqlog.SealText(said, uint32(point))
		file = append(append(file, block...), said...)
	}
	want := strings.Join([]string{
		strings.TrimSuffix(requestsHeader, "\n"),
		"none,1x,2,1,a,multiget,ok,0,0.5,8,,2,30,40,5,4", "none,1x,2,2,a,multiget,rejected,0,0.5,,,2,30,40,5,4",
		"codel,1x,2,1,a,multiget,ok,0,0.5,8,,2,30,40,5,4", "codel,1x,2,2,a,multiget,rejected,0,0.5,,,2,30,40,5,4", "",
	}, "\n")
	for _, missing := range []int{0, 3} { // without its last bytes, the last point is not known
		if err := os.WriteFile(filepath.Join(dir, RequestsFile), file[:len(file)-missing], 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := Requests(&out, dir); err != nil {
			t.Fatal(err)
		}
		if missing > 0 {
			want = want[:strings.Index(want, "codel")]
		}
		if out.String() != want {
			t.Errorf("without %d bytes:\n%s\nwant\n%s", missing, &out, want)
		}
	}
}

func TestTerminalSaysMore(t *testing.T) {
	t.Parallel()
	run := &Run{}
	run.Manifest.Capacity = &Capacity{RPS: 1000, Low: 1000, High: 1080, Probes: make([]Probe, 9), Remarks: []string{"a remark"}}
	run.Manifest.Points = []PointFacts{{ClosedLoop: true, Responses: []Responses{{Class: AllClasses, AnsweredRatio: 0.995, P99US: 120}}}}
	for want, got := range map[string]string{
		"capacity 1.00k requests per second: the SLO held at 1.00k and did not hold at 1.08k, after 9 probes\n  a remark\n": run.capacityLine(),
		"p99 over all that were due, the unanswered as infinitely slow: 120 µs\n":                                           run.unanswered(),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if !strings.HasPrefix(run.loop(), "closed loop: ") {
		t.Errorf("%q", run.loop())
	}
	run.Manifest.Points[0].Responses[0] = Responses{Class: AllClasses, AnsweredRatio: 0.5, P50US: 3}
	if got := run.unanswered(); got != "p99 over all that were due: none, since fewer than 99 % were answered\n" {
		t.Errorf("%q", got)
	}
	var b bytes.Buffer
	run.responses(&b)
	if !strings.Contains(b.String(), "| 50.0 % | 3.00 µs | ∞ | ∞ | ∞ |") {
		t.Errorf("%s", &b)
	}
}
