//go:build linux

package harness

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"spillway/clock"
	"spillway/internal/drive"
	"spillway/profiles"
	"spillway/report"
)

// replayText replays a log of a hundred requests in a hundred milliseconds, ten at a time.
const replayText = `name: replayed
on: sim
machine: {cores: 2, bus: {total: 4GB, per_core: 4GB}, network: 10us}
server: {kind: memcached}
workload:
  kind: replay
  connections: 8
  senders: 3
  replay: {file: LOG}
  classes: [{name: a, slo: 1ms}, {name: b, slo: 1ms}]
load: {speeds: [1]}
controllers: [{name: none}]
timeout: 50ms
drain: 50ms
warmup: 30ms
window: 100ms
repeats: 1
`

// logTimes are those of logText: a millisecond and a few nanoseconds apart.
func logTimes() (list []time.Duration) {
	for i := range 100 {
		list = append(list, time.Duration(i)*(time.Millisecond+7))
	}
	return list
}

// logText has gets of class a and sets of class b by turns.
func logText() string {
	var b strings.Builder
	b.WriteString("time,class,key,size,operation\n")
	for i, at := range logTimes() {
		fmt.Fprintf(&b, "%dns,%s\n", at, []string{fmt.Sprintf("a,k%d,100,get", i%10), fmt.Sprintf("b,k%d,2000,set", i%10)}[i%2])
	}
	return b.String()
}

func replayProfile(t *testing.T, log string, replace ...string) *profiles.Profile {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log.csv")
	if err := os.WriteFile(path, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(strings.NewReplacer(replace...).Replace(replayText), "LOG", path)
	p, err := profiles.Parse("replayed.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// drawAll fires all requests of some sources.
func drawAll(t *testing.T, list []drive.Source) (instants map[uint64]time.Duration, hashes []uint64) {
	t.Helper()
	instants = map[uint64]time.Duration{}
	for _, s := range list {
		for s.Due() != clock.Never {
			rec, _, _ := s.Fire()
			instants[rec.Seq] = time.Duration(rec.Intended)
		}
		requests, hash := s.(interface{ Sequence() (uint64, uint64) }).Sequence()
		hashes = append(hashes, requests, hash)
	}
	return instants, hashes
}

// TestRecordedTimesAreKept: at the recorded speed a request is due when it was recorded, to the nanosecond, on every ground and whatever the number of
// senders, who all draw the same sequence.
func TestRecordedTimesAreKept(t *testing.T) {
	t.Parallel()
	p := replayProfile(t, logText())
	point := points(p, 0, 0)[0]
	if point.Rate < 990 || point.Rate > 1010 || point.speed != "1" {
		t.Fatalf("%+v", point)
	}
	m, err := newModelled(p)
	if err != nil {
		t.Fatal(err)
	}
	at := point.spans(p)
	w, _, err := m.workload(at.warmUp)
	if err != nil {
		t.Fatal(err)
	}
	g, _, err := generator(p, &point, w, at)
	if err != nil {
		t.Fatal(err)
	}
	simulated, one := drawAll(t, []drive.Source{g})
	h := &host{profile: p}
	sources, err := h.sources(&point, at)
	if err != nil {
		t.Fatal(err)
	}
	measured, three := drawAll(t, sources)
	if len(sources) != 3 || len(three) != 6 {
		t.Fatalf("%d senders", len(sources))
	}
	for i := range three {
		if three[i] != one[i%2] {
			t.Errorf("sender %d drew %v, the simulation %v", i/2, three, one)
		}
	}
	times := logTimes()
	round := times[99] + times[99]/99
	// The last of the log, as many as lie within 30 ms, are the warm-up.
	const before = 29
	for seq := range uint64(before + 100) {
		want := at.warmUp
		if i := int(seq) - before; i >= 0 {
			want += times[i%100]
		} else {
			want += times[100+i] - round
		}
		if want >= at.warmUp+at.window {
			break
		}
		if simulated[seq] != want || measured[seq] != want {
			t.Fatalf("request %d is due at %v on sim and %v on host, want %v", seq, simulated[seq], measured[seq], want)
		}
	}
	if len(simulated) != len(measured) || len(simulated) != before+100 {
		t.Errorf("%d and %d requests", len(simulated), len(measured))
	}
}

// TestReplayIsSimulated holds the results of a simulation against the log.
func TestReplayIsSimulated(t *testing.T) {
	t.Parallel()
	p := replayProfile(t, logText(), "window: 100ms", "window: 200ms", "speeds: [1]", "speeds: [2]")
	run := simulate(t, p, 1)
	for _, row := range run.Rows {
		want := map[string]float64{"a": 1000, "b": 1000, "all": 2000}[row.Class] // two rounds and a little less of twice 500 a second each
		for what, v := range map[string]report.Value{"offered": row.OfferedRPS, "goodput": row.GoodputRPS, "optimum": row.OptimumRPS} {
			if got := value(t, v); math.Abs(got-want) > 0.03*want {
				t.Errorf("class %s: %s %g a second, want %g", row.Class, what, got, want)
			}
		}
	}
	if f := run.Manifest.Replay; f == nil || f.Requests != 100 || f.Keys != 10 || f.Stored != 5 || f.Digest == "" {
		t.Errorf("manifest %+v", f)
	}
	stopped := simulate(t, replayProfile(t, logText(), "window: 100ms", "window: 200ms", "LOG}", "LOG, at_end: stop}"), 1)
	for _, row := range stopped.Rows {
		if n := row.Fates.OK; row.Class == "all" && n != 100 {
			t.Errorf("%d requests of a log of 100 that is not repeated", n)
		}
	}
}

// TestReplayStretchesToTheRate: the log's own gaps, as far apart as the rate takes.
func TestReplayStretchesToTheRate(t *testing.T) {
	t.Parallel()
	p := replayProfile(t, logText(), "speeds: [1]", "rates: [500, 2k]")
	for i, want := range []int64{50, 200} {
		run := simulate(t, p, 1)
		n := 0
		for _, row := range run.Rows {
			if row.Class != "all" {
				continue
			}
			if got := row.Fates.OK; n == i && (got < want-1 || got > want+1) {
				t.Errorf("%d requests in 100 ms, want %d", got, want)
			}
			n++
		}
	}
}

// TestReplayCapacityFollowsTheSizes: what is priced is each request by its own size.
func TestReplayCapacityFollowsTheSizes(t *testing.T) {
	t.Parallel()
	small, err := newModelled(replayProfile(t, logText()))
	if err != nil {
		t.Fatal(err)
	}
	large, err := newModelled(replayProfile(t, strings.ReplaceAll(logText(), ",100,get", ",1000000,get")))
	if err != nil {
		t.Fatal(err)
	}
	// A megabyte and half a megabyte on average over 4 GB/s: 8000 a second; small ones are bound by two cores at 5.5 us each.
	if small.capacity.Bottleneck != "cores" || math.Abs(small.capacity.RPS-2/5.5e-6) > 1e3 {
		t.Errorf("small values: %+v", small.capacity)
	}
	if large.capacity.Bottleneck != "bus" || math.Abs(large.capacity.RPS-8000) > 100 {
		t.Errorf("large values: %+v", large.capacity)
	}
}

// TestReplayRefused: what cannot be replayed is wrong usage, with its place, before anything is started.
func TestReplayRefused(t *testing.T) {
	t.Parallel()
	multi := "time,class,key,size,operation\n0,a,k l,5,multiget\n1,b,k,5,set\n"
	for _, tt := range []struct {
		log     string
		replace []string
		want    string
	}{
		{"time,class\n", nil, "replayed.yaml:9:12: workload.replay.file: "},
		{"time,class,key,size,operation\n0,c,k,1,get\n", nil, `log.csv:2: class "c" is none of the workload's`},
		{logText(), []string{"file: LOG", "file: LOG.none"}, "log.csv.none: no such file or directory"},
		{multi, []string{"on: sim", "on: model"}, "has 1 multigets: not on the ground model"},
		{multi, []string{"on: sim", "on: host", "kind: memcached", "kind: external, settings: {target: 'http://127.0.0.1:1/{key}'}"}, "has 1 multigets: HTTP has none"},
		{logText(), []string{"speeds: [1]", "speeds: [1000000000000]"}, "replayed.yaml:11:17: load.speeds: a log of"},
		{logText(), []string{"kind: memcached", "kind: synthetic"}, "a server of the kind synthetic does not answer that; one of the kind memcached does"},
		{strings.ReplaceAll(logText(), ",2000,set", ",2000000,set"), []string{"on: sim", "on: host"}, "the largest value of the log has 2MB and server.settings.max_item is 1MiB: make it 2MiB"},
		{strings.ReplaceAll(logText(), ",2000,set", ",30000000,set"), []string{"on: sim", "on: host", "kind: memcached", "kind: memcached, settings: {max_item: 31MiB}"}, "the values of the log take 150"},
		{logText(), []string{"on: sim", "on: model", "{name: none}", "{name: bouncer}"}, "judges by class: the keys of a log do not say"},
	} {
		p := replayProfile(t, tt.log, tt.replace...)
		_, err := Run(t.Context(), Config{Profile: p, Out: filepath.Join(t.TempDir(), "out"), Pace: "auto"})
		if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v, want %q", tt.replace, err, tt.want)
		}
	}
}

// TestScansAreNotStored: a store takes a key of their form for a question, and would refuse the run; for other servers it is a key as any.
func TestScansAreNotStored(t *testing.T) {
	t.Parallel()
	log := "time,class,key,size,operation\n0,a,k,5,get\n1,a,scan:2:k,30,get\n2,b,keys:3:k,7,get\n3,b,scanner,2,get\n"
	for kind, want := range map[string][]string{"rocksdb": {"k", "scanner"}, "memcached": {"k", "scan:2:k", "keys:3:k", "scanner"}} {
		p := replayProfile(t, log, "on: sim", "on: host", "kind: memcached", "kind: "+kind)
		w, err := replayOf(p)
		if err != nil {
			t.Fatal(err)
		}
		var keys []string
		for op := range w.Preload() {
			keys = append(keys, string(op.Key))
		}
		if !slices.Equal(keys, want) {
			t.Errorf("%s: stored %v, want %v", kind, keys, want)
		}
		if f := ofReplay(p); f.Stored != int64(len(want)) {
			t.Errorf("%s: the manifest tells of %d, want %d", kind, f.Stored, len(want))
		}
	}
}

// TestReplayTellsClassesApart: where every class says what its keys begin with, a server knows them.
func TestReplayTellsClassesApart(t *testing.T) {
	t.Parallel()
	log := strings.NewReplacer(",a,k", ",a,x-", ",b,k", ",b,y-").Replace(logText())
	p := replayProfile(t, log, "{name: a,", "{name: a, key: x-,", "{name: b,", "{name: b, key: y-,")
	w, err := replayOf(p)
	if err != nil {
		t.Fatal(err)
	}
	flags, err := tellApart(p, w)
	if err != nil || !strings.Contains(strings.Join(flags, " "), "--class a=x-* --class b=y-*") {
		t.Errorf("%v, %v", flags, err)
	}
}

// TestShippedReplay: the shipped profile runs on all grounds, and with one seed gives the same bytes.
func TestShippedReplay(t *testing.T) {
	t.Parallel()
	p, err := profiles.Load("replay-daily")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(Grounds(p), " "); got != "sim model host" {
		t.Errorf("it runs on %s", got)
	}
}

// TestMissesOfALog: who replays a log whose reads have no sizes hears why they find nothing, and what to do.
func TestMissesOfALog(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ log, want string }{
		"without sizes": {
			"time,class,key,size,operation\n0,a,x,,get\n1ms,a,y,7,get\n2ms,a,x y,,multiget\n3ms,b,x,9,set\n",
			"1 of 51 reads; 3 of the 4 reads of the log have no size: they found nothing when it was made, so their keys are not stored first. Where the log only lacks the sizes, fill in its column size",
		},
		"with sizes": {logText(), "1 of 51 reads"},
	} {
		p := replayProfile(t, tt.log)
		f := &fake{profile: profile(t), latency: quick}
		r := f.result(100, time.Second)
		r.Profile = p
		r.Load.Tally.Classes[0].Reads, r.Load.Tally.Classes[0].Hits = 51, 50
		point := judge(&Point{Rate: 100, Repeat: 1}, &r)
		if got := point.Facts.Notes[warnMisses]; got != tt.want {
			t.Errorf("%s: note %q, want %q", name, got, tt.want)
		}
	}
	sentence, _ := report.Explain(warnMisses)
	if !strings.Contains(sentence, "log that is replayed") {
		t.Errorf("the warning says nothing of logs: %s", sentence)
	}
}
