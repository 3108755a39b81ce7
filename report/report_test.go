package report

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"spillway/internal/hist"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden holds got against testdata/NAME.golden.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, got, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; go test -update writes it", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// designHeader is the header that the design prescribes. Other tools read the file by it.
const designHeader = "profile,ground,controller,offered_target_rps,load_factor,repeat,seed,class,slo_us,offered_rps,sent_rps,throughput_rps,goodput_rps,optimum_rps,ceiling_rps,ok,late,refused,rejected,dropped,expired,timed_out,failed,unsent,shed_ratio,drop_ratio,latency_mean_us,latency_p50_us,latency_p90_us,latency_p99_us,latency_p999_us,latency_max_us,send_lag_p50_us,send_lag_p99_us,queue_mean_us,queue_p99_us,service_mean_us,service_p99_us,cpu_ratio,membw_bytes_per_s,membw_source,credits_mean,memsem_mean,valid,warnings"

func TestHeaderIsTheDesigns(t *testing.T) {
	t.Parallel()
	if got := strings.Join(Header(), ","); got != designHeader {
		t.Errorf("header is\n%s\nwant\n%s", got, designHeader)
	}
}

var began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// point makes a point of one class, "get", from the latencies of its completed requests in a window of one second.
func point(controller, factor string, repeat int, shed int64, latencies ...time.Duration) *Point {
	const slo = 5 * time.Millisecond
	h := hist.New()
	var f Fates
	for _, l := range latencies {
		h.Record(l)
		if l > slo {
			f.Late++
		} else {
			f.OK++
		}
	}
	f.Dropped = shed
	us := func(d time.Duration) Value {
		if h.Count() == 0 {
			return Value{}
		}
		return Known(float64(d) / 1e3)
	}
	row := Row{
		Profile: "golden", Ground: "host", Controller: controller, OfferedTargetRPS: Known(20), LoadFactor: factor, Repeat: repeat,
		Seed: 1, Class: "get", SLO: Known(5000), OfferedRPS: Known(float64(f.Arrivals())), SentRPS: Known(float64(f.Sent())),
		ThroughputRPS: Known(float64(f.Completed())), GoodputRPS: Known(float64(f.OK)), Fates: f,
		ShedRatio: ratio(f.Shed(), f.Arrivals()), DropRatio: ratio(f.Shed(), f.Sent()),
		Latency: Latency{
			Mean: us(h.Mean()), P50: us(h.Percentile(50)), P90: us(h.Percentile(90)), P99: us(h.Percentile(99)),
			P999: us(h.Percentile(99.9)), Max: us(h.Max()),
		},
		Valid: true,
	}
	all := row
	all.Class, all.SLO = AllClasses, Value{}
	return &Point{
		Rows: []Row{row, all}, Latencies: []*hist.Hist{h, h}, Start: began.Add(time.Duration(repeat) * time.Second), Window: time.Second,
		Samples: []Sample{
			{Class: "get", TimeUS: 0, Name: "goodput", Unit: "rps", Value: Known(float64(f.OK))},
			{TimeUS: 100_000, Name: "queue_delay", Unit: "us", Value: Known(12.5)},
			{TimeUS: 100_000, Name: "=cmd|' /C calc'!A0", Value: Known(1)},
			{TimeUS: 200_000, Name: "cpu", Unit: "ratio"},
		},
		Facts: PointFacts{Controller: controller, Load: factor + "x", Repeat: repeat, Seed: 1, WindowS: 1},
	}
}

func ms(n ...float64) (list []time.Duration) {
	for _, v := range n {
		list = append(list, time.Duration(v*float64(time.Millisecond)))
	}
	return list
}

func manifest() Manifest {
	return Manifest{
		Name: "golden", Title: "Records that never change", Ground: "host", State: StateRunning, Started: began, Seed: 1, Pacing: "auto",
		Argv:     []string{"loadgen", "run", "golden"},
		Versions: Versions{Module: "v0.0.0", Go: "go1.26", Kernel: "6.1"},
		Machine:  Machine{CPUModel: "Model|T", Cores: 2, RAMBytes: 8 << 30},
		Server:   Server{Kind: "memcached", Version: "1.0", GOMAXPROCS: 1},
		Classes:  []Class{{Name: "get", SLOUS: 5000}},
		Planned:  5,
		Capacity: &Capacity{
			RPS: 20, Low: 20, High: 21,
			Probes: []Probe{{RPS: 20, Holds: true, GoodputRPS: 20, P99US: 900}, {RPS: 21, Why: "latency grows", GoodputRPS: 19, P99US: 6000}},
		},
		ProfileText: "name: golden\n", ResolvedProfile: "name: golden\n",
	}
}

// goldenDir writes a result directory with repeats, an invalid point, a point that shed everything and one that was cut short before
// its window began.
func goldenDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "results")
	var order []string
	for _, p := range []struct {
		controller, load string
		repeat           int
	}{{"none", "0.5x", 1}, {"none", "0.5x", 2}, {"none", "2x", 1}, {"codel", "0.5x", 1}, {"codel", "2x", 1}} {
		order = append(order, PointLabel(p.controller, p.load, p.repeat))
	}
	w, err := NewWriter(dir, manifest(), order)
	if err != nil {
		t.Fatal(err)
	}
	cut := point("codel", "2", 1, 0)
	for i := range cut.Rows {
		r := &cut.Rows[i]
		r.OfferedRPS, r.SentRPS, r.ThroughputRPS, r.GoodputRPS = Value{}, Value{}, Value{}, Value{}
		r.Valid, r.Warnings = false, []string{"cut_short", "no_arrivals"}
	}
	cut.Window = 0
	cut.Facts.Notes = map[string]string{"cut_short": "after 0s of the window"}
	late := point("none", "2", 1, 0, ms(20, 30, 40, 50)...)
	for i := range late.Rows {
		late.Rows[i].Warnings = []string{"drift"}
	}
	// Not in the order of the profile, as a shuffled run is not.
	for _, p := range []*Point{
		late, point("none", "0.5", 2, 0, ms(1, 2, 3, 9)...), point("codel", "0.5", 1, 10), point("none", "0.5", 1, 2, ms(0.5, 1)...), cut,
	} {
		if err := w.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	closeAndReport(t, w, began.Add(time.Minute), StateCutShort)
	return dir
}

// closeAndReport ends a run and writes what follows from its files, as package document does.
func closeAndReport(t *testing.T, w *Writer, at time.Time, state string) {
	t.Helper()
	if err := w.Close(at, state, nil); err != nil {
		t.Fatal(err)
	}
	run, err := ReadDir(w.Dir())
	if err != nil {
		t.Fatal(err)
	}
	markdown := func(out io.Writer) error { return Markdown(out, []*Run{run}) }
	if err := errors.Join(WriteTables(w.Dir(), run), WriteFile(filepath.Join(w.Dir(), ReportFile), markdown)); err != nil {
		t.Fatal(err)
	}
}

func TestGoldenFiles(t *testing.T) {
	t.Parallel()
	dir := goldenDir(t)
	for _, name := range []string{pointsFile, traceFile, reportFile, manifestFile} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(got, []byte("NaN")) || bytes.Contains(got, []byte("Inf")) {
			t.Errorf("%s has a number that is none:\n%s", name, got)
		}
		sameCells(t, got)
		golden(t, name, got)
	}
	run, err := ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Terminal(&out, run); err != nil {
		t.Fatal(err)
	}
	golden(t, "terminal", out.Bytes())
	if left, _ := filepath.Glob(filepath.Join(dir, "*.partial")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestPooledPercentileIsOfTheUnion holds the p99 of two repeats against that of all their requests together. The mean of the two
// percentiles would be 50.5 ms.
func TestPooledPercentileIsOfTheUnion(t *testing.T) {
	t.Parallel()
	w, err := NewWriter(filepath.Join(t.TempDir(), "r"), manifest(), nil)
	if err != nil {
		t.Fatal(err)
	}
	fast, slow := make([]time.Duration, 9900), make([]time.Duration, 100)
	for i := range fast {
		fast[i] = time.Millisecond
	}
	for i := range slow {
		slow[i] = 100 * time.Millisecond
	}
	for i, latencies := range [][]time.Duration{fast, slow} {
		if err := w.Add(point("none", "1", i+1, 0, latencies...)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(began, StateComplete, nil); err != nil {
		t.Fatal(err)
	}
	run, err := ReadDir(w.Dir())
	if err != nil {
		t.Fatal(err)
	}
	p := run.Pool()[0]
	if got, _ := p.P99.Value.Get(); math.Abs(got-1000) > 1 {
		t.Errorf("pooled p99 is %v us, want 1000", got)
	}
	if got := p.P99.with(Value.micros); got != "1.00 ms (1.00 ms–100 ms)" {
		t.Errorf("shown as %q", got)
	}
	// 10 000 requests of which 9 900 were in time, in two windows of a second.
	if got, _ := p.Goodput.Value.Get(); got != 4950 {
		t.Errorf("pooled goodput is %v, want 4950", got)
	}
}

func TestPoolTakesTheValidRepeats(t *testing.T) {
	t.Parallel()
	good, bad := point("none", "1", 1, 0, ms(1)...).Rows[0], point("none", "1", 2, 0, ms(90, 90)...).Rows[0]
	bad.Valid = false
	run := &Run{Rows: []Row{good, bad}}
	p := run.Pool()[0]
	if got, _ := p.P99.Value.Get(); got != 1000 || p.Valid != 1 || p.Repeats != 2 {
		t.Errorf("pooled %+v, want the valid repeat alone", p)
	}
	good.Valid = false
	run.Rows = []Row{good, bad}
	p = run.Pool()[0]
	if got, _ := p.Offered.Value.Get(); got != 1.5 || p.Valid != 0 {
		t.Errorf("pooled %+v, want both where none is valid", p)
	}
	if p.P99.Value.known {
		t.Error("a percentile of two repeats without histograms is not known")
	}
}

func TestCSVRoundTrip(t *testing.T) {
	t.Parallel()
	rows := append(point("none", "1", 1, 3, ms(1, 2)...).Rows, point("none", "", 2, 0).Rows...)
	rows[0].Warnings = []string{"drift", "misses"}
	rows[0].CPURatio = Known(1.0 / 3)
	rows[0].MemBWSource = "pcm"
	var out bytes.Buffer
	if err := CSV(&out, rows); err != nil {
		t.Fatal(err)
	}
	rows[0].CPURatio = Known(0.333333)
	again, err := ReadCSV(&out, "x.csv")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rows, again, cmp.AllowUnexported(Value{}), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("read back (-written +read):\n%s", diff)
	}
}

func TestCSVMistakes(t *testing.T) {
	t.Parallel()
	var good bytes.Buffer
	if err := CSV(&good, point("none", "1", 1, 0, ms(1)...).Rows[:1]); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ old, new, want string }{
		"column":  {"profile,", "profil,", "x.csv: column 1 should be profile"},
		"missing": {",warnings", "", "x.csv: column 45 should be warnings"},
		"fields":  {"golden,host", "golden,host,more", "wrong number of fields"},
		"nan":     {",1000,1000,1000,1000", ",NaN,1000,1000,1000", `x.csv:2: latency_mean_us: "NaN" is not a number`},
		"valid":   {",true,", ",yes,", `x.csv:2: valid: "yes" is neither true nor false`},
		"repeat":  {"1,1,1,get", "1,0,1,get", `x.csv:2: repeat: "0" is not a repeat`},
		"empty":   {good.String(), "", "x.csv: the file is empty"},
	} {
		text := strings.Replace(good.String(), tt.old, tt.new, 1)
		if text == good.String() {
			t.Errorf("%s: nothing was replaced in\n%s", name, good.String())
		}
		if _, err := ReadCSV(strings.NewReader(text), "x.csv"); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want it to have %q", name, err, tt.want)
		}
	}
}

func TestValueIsNeverNaN(t *testing.T) {
	t.Parallel()
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if s := Known(v).String(); s != "" {
			t.Errorf("Known(%v) is written %q", v, s)
		}
	}
	for v, want := range map[float64]string{
		0: "0", math.Copysign(0, -1): "0", -1e-9: "0", 0.1 + 0.2: "0.3", 1e15: "1000000000000000", math.MaxFloat64: strings.TrimSuffix(Known(math.MaxFloat64).String(), "x"), 1.0000001: "1",
	} {
		if got := Known(v).String(); got != want {
			t.Errorf("Known(%v) is written %q, want %q", v, got, want)
		}
	}
}

func TestFormats(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ got, want string }{
		{Known(0).rate(), "0"}, {Known(9.996).rate(), "10.0"}, {Known(999.4).rate(), "999"}, {Known(999.6).rate(), "1.00k"},
		{Known(31234).rate(), "31.2k"}, {Known(1.5e6).rate(), "1.50M"}, {Value{}.rate(), "–"},
		{Known(850).micros(), "850 µs"}, {Known(1234).micros(), "1.23 ms"}, {Known(2.5e6).micros(), "2.50 s"},
		{Known(0).percent(), "0.0 %"}, {Known(0.0001).percent(), "<0.1 %"}, {Known(-0.0001).percent(), ">-0.1 %"}, {Known(-0.02).percent(), "-2.0 %"}, {Known(0.5).percent(), "50.0 %"},
		{Known(0.99999).percent(), ">99.9 %"}, {Known(1).percent(), "100.0 %"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

func TestSchemaVersionIsChecked(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"schema_version": 3, "name": 5}`: "schema version 3, this loadgen reads versions 1 to 2; use the loadgen that wrote them",
		`{"name": "x"}`:                    "no schema_version",
		`{`:                                "manifest.json is damaged: unexpected end of JSON input",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, manifestFile), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadDir(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want it to have %q", text, err, want)
		}
	}
	if _, err := ReadDir(t.TempDir()); err == nil || !strings.Contains(err.Error(), "is not a result directory") {
		t.Errorf("an empty folder: error %v", err)
	}
}

// TestNoSuchDirectory: whoever mistypes a name hears that it is not there, not that something is missing in it.
func TestNoSuchDirectory(t *testing.T) {
	t.Parallel()
	nowhere, file := filepath.Join(t.TempDir(), "nowhere"), filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	read := func(dir string) error { _, err := ReadDir(dir); return err }
	resume := func(dir string) error { _, err := ReadInterrupted(dir); return err }
	requests := func(dir string) error { return Requests(io.Discard, dir) }
	for _, tc := range []struct {
		of   func(string) error
		dir  string
		want string
	}{
		{read, nowhere, nowhere + " does not exist"}, {requests, nowhere, nowhere + " does not exist"},
		{resume, nowhere, "results folder " + nowhere + " does not exist, so it holds no run to go on with"}, {read, file, file + " is a file, and a result is a directory"},
	} {
		if err := tc.of(tc.dir); err == nil || err.Error() != tc.want {
			t.Errorf("error %v, want %q", err, tc.want)
		}
	}
	if err := resume(nowhere); !errors.Is(err, ErrNoRun) {
		t.Errorf("error %v is no ErrNoRun", err)
	}
}

// TestResultsSoFarAreOnDisk reads a directory after the first of two points, as if loadgen had been killed then.
func TestResultsSoFarAreOnDisk(t *testing.T) {
	t.Parallel()
	w, err := NewWriter(filepath.Join(t.TempDir(), "r"), manifest(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Add(point("none", "1", 1, 0, ms(1)...)); err != nil {
		t.Fatal(err)
	}
	run, err := ReadDir(w.Dir())
	if err != nil || len(run.Rows) != 2 || run.Manifest.State != StateRunning || len(run.Manifest.Points) != 1 {
		t.Fatalf("read %+v, %v", run, err)
	}
	var out bytes.Buffer
	if err := Markdown(&out, []*Run{run}); err != nil || !strings.Contains(out.String(), "has not ended, or was killed") {
		t.Errorf("the report does not say that the run goes on (%v):\n%s", err, out.String())
	}
}

func TestFolderIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mine"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := NewWriter(dir, manifest(), nil); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("a folder with files in it: error %v", err)
	}
	if _, err := NewWriter(filepath.Join(dir, "mine", "r"), manifest(), nil); err == nil || errors.Is(err, ErrNotEmpty) ||
		!strings.Contains(err.Error(), "--out") {
		t.Errorf("a folder below a file: error %v", err)
	}
	if _, err := NewWriter(t.TempDir(), manifest(), nil); err != nil {
		t.Errorf("an empty folder: error %v", err)
	}
}

// TestWriteFileIsWholeOrNot interrupts the writing of a file that exists.
func TestWriteFileIsWholeOrNot(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	if err := WriteFile(path, func(w io.Writer) error { _, err := io.WriteString(w, "old"); return err }); err != nil {
		t.Fatal(err)
	}
	err := WriteFile(path, func(w io.Writer) error {
		_, _ = io.WriteString(w, "half")
		return syscall.ENOSPC
	})
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v, want one of the full disk that names the file", err)
	}
	if got, _ := os.ReadFile(path); string(got) != "old" {
		t.Errorf("the file has %q, want the old content", got)
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

// TestFullDisk lets the trace go to a device that is always full: the point's row must be on disk all the same, and the error say why.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("no device that is always full: %v", err)
	}
	w, err := NewWriter(filepath.Join(t.TempDir(), "r"), manifest(), nil)
	if err != nil {
		t.Fatal(err)
	}
	w.trace.file.Close()
	w.trace.file = full
	w.trace.w.Reset(full)
	big := point("none", "1", 1, 0, ms(1)...)
	for range 10_000 {
		big.Samples = append(big.Samples, big.Samples[0])
	}
	err = w.Add(big)
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), traceFile) {
		t.Errorf("error %v, want one of a full disk that names the trace", err)
	}
	if err := w.Close(began, StateFailed, err); err != nil {
		t.Errorf("closing says once more that the disk is full: %v", err)
	}
	run, err := ReadDir(w.Dir())
	if err != nil || len(run.Rows) != 2 {
		t.Errorf("read %+v, %v; want the point's rows", run, err)
	}
	if err := errors.Join(WriteTables(w.Dir(), run), MarkdownWith(io.Discard, run, nil, 0)); err != nil {
		t.Errorf("no report: %v", err)
	}
}

func TestEveryWarningIsExplained(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, w := range warnings {
		if seen[w.code] || w.sentence == "" || w.verdict == "" || strings.ContainsAny(w.code, ";,= ") {
			t.Errorf("the entry of %q is not in order", w.code)
		}
		seen[w.code] = true
	}
	if s, v := Explain("from_the_future"); s != "" || v != Harmless {
		t.Errorf("an unknown code is explained as %q, %q", s, v)
	}
}

func TestGroundsAreKeptApart(t *testing.T) {
	t.Parallel()
	a := &Run{Manifest: manifest(), Rows: point("none", "1", 1, 0, ms(1)...).Rows}
	b := &Run{Manifest: manifest(), Rows: a.Rows}
	b.Manifest.Ground = "sim"
	var out bytes.Buffer
	if err := Markdown(&out, []*Run{a, b}); err != nil || !strings.Contains(out.String(), "must not be compared directly") {
		t.Errorf("two grounds in one report without a word (%v)", err)
	}
}

func TestEmptyRun(t *testing.T) {
	t.Parallel()
	run := &Run{Manifest: manifest()}
	var out bytes.Buffer
	if err := errors.Join(Terminal(&out, run), Markdown(&out, []*Run{run})); err != nil {
		t.Fatal(err)
	}
	if s := out.String(); strings.Contains(s, "NaN") || !strings.Contains(s, "no point was measured") {
		t.Errorf("an empty run is shown as\n%s", s)
	}
}
