package export_test

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"encoding/csv"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/perf/benchfmt"

	"spillway/internal/hist"
	"spillway/report"
	"spillway/report/export"
)

var update = flag.Bool("update", false, "write the golden files anew")

var began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// written makes a result directory of one class, with the labels given, two loads and two repeats of 50 answers and more, and reads it.
func written(t *testing.T, name, ground string, controllers ...string) *report.Run {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "r")
	w, err := report.NewWriter(dir, report.Manifest{
		Name: name, Ground: ground, Started: began, Versions: report.Versions{Module: "v0.0.0-20260301120000-0123456789ab"}, Machine: report.Machine{CPUModel: "Model T", Cores: 4},
		Server: report.Server{Kind: "memcached", Version: "1.6"},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for c, controller := range controllers {
		for _, rate := range []float64{100, 200} {
			for repeat := 1; repeat <= 2; repeat++ {
				h := hist.New()
				for i := range 50 + 10*repeat + c {
					h.Record(time.Duration(100+i) * time.Microsecond)
				}
				us := func(p float64) report.Value { return report.Known(float64(h.Percentile(p)) / 1e3) }
				n := h.Count()
				r := report.Row{
					Profile: name + "/bus36", Ground: ground, Controller: controller, OfferedTargetRPS: report.Known(rate), Repeat: repeat, Class: "memory-3",
					OfferedRPS: report.Known(rate), GoodputRPS: report.Known(float64(n)), Fates: report.Fates{OK: n, Dropped: 100 - n}, Valid: c != 2 || repeat != 2,
					ShedRatio: report.Known(float64(100-n) / 100), Latency: report.Latency{P50: us(50), P99: us(99), Max: report.Known(float64(h.Max()) / 1e3)},
				}
				all := r
				all.Class = report.AllClasses
				err := w.Add(&report.Point{
					Rows: []report.Row{r, all}, Latencies: []*hist.Hist{h, h}, Start: began.Add(time.Duration(repeat) * time.Second), Window: time.Second,
					Facts: report.PointFacts{Variant: "bus36", Controller: controller, Load: r.Load(), Repeat: repeat, WindowS: 1},
				})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := w.Close(began.Add(time.Minute), report.StateComplete, nil); err != nil {
		t.Fatal(err)
	}
	run, err := report.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

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

// benchmarks reads the benchmark format as benchstat does.
func benchmarks(t *testing.T, text []byte) (list []*benchfmt.Result, units int) {
	t.Helper()
	in := benchfmt.NewReader(bytes.NewReader(text), "x")
	for in.Scan() {
		switch r := in.Result().(type) {
		case *benchfmt.Result:
			list = append(list, r.Clone())
		case *benchfmt.UnitMetadata:
			units++
		default:
			t.Errorf("%+v", r)
		}
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	return list, units
}

func TestBenchfmt(t *testing.T) {
	t.Parallel()
	run := written(t, "svalinn-x", "host", "none", "a/b=d", "bad")
	var b bytes.Buffer
	if err := export.Benchfmt(&b, []*report.Run{run}); err != nil {
		t.Fatal(err)
	}
	golden(t, "benchfmt", b.Bytes())
	list, units := benchmarks(t, b.Bytes())
	if len(list) != 10 || units != 9 {
		t.Fatalf("%d results and %d units, want 12 repeats without the two that are not valid", len(list), units)
	}
	r := list[4]
	if got, want := string(r.Name), "Svalinn-x/variant=bus36/controller=a_b_d/load=100/class=memory-3-4"; got != want {
		t.Errorf("called %s, want %s", got, want)
	}
	base, parts := r.Name.Parts()
	if string(base) != "Svalinn-x" || string(parts[len(parts)-1]) != "-4" || string(parts[len(parts)-2]) != "/class=memory-3" {
		t.Errorf("read as %s %s", base, parts)
	}
	if v, ok := r.Value("goodput-req/s"); !ok || v != 61 {
		t.Errorf("goodput %v, %v", v, ok)
	}
	if r.GetConfig("ground") != "host" || r.GetConfig("server") != "memcached 1.6" || r.Iters != 100 {
		t.Errorf("configuration %v, %d requests", r.Config, r.Iters)
	}
}

// TestBenchfmtNames: labels that differ in what a name cannot have stay apart, and none of them makes a line of its own.
func TestBenchfmtNames(t *testing.T) {
	t.Parallel()
	run := written(t, "x", "sim", "a", "b", "c", "d")
	run.Manifest.Name, run.Manifest.Machine.CPUModel = "x\nBenchmarkEvil 1 1 ns/op", "m\nground: host"
	for i := range run.Rows {
		r := &run.Rows[i]
		r.Controller = map[string]string{"a": "a b", "b": "a_b", "c": "a\nUnit p99-us better=higher", "d": "\u202e\x00"}[r.Controller]
	}
	var b bytes.Buffer
	if err := export.Benchfmt(&b, []*report.Run{run}); err != nil {
		t.Fatal(err)
	}
	list, units := benchmarks(t, b.Bytes())
	names := map[string]bool{}
	for _, r := range list {
		names[string(r.Name)] = true
		if r.GetConfig("ground") != "sim" {
			t.Errorf("ground %q", r.GetConfig("ground"))
		}
	}
	if len(names) != 8 || units != 9 || len(list) != 14 {
		t.Errorf("%d names, %d units, %d lines in\n%s", len(names), units, len(list), b.String())
	}
}

var interval = regexp.MustCompile(`^Tag=[^, ]+,\d+\.\d{3,6},\d+\.\d{3,6},\d+\.\d{3,6},HISTFAA[A-Za-z0-9+/]+=*$`)

// TestHlog holds the log against the description of the format and reads it with the library's own reader.
func TestHlog(t *testing.T) {
	t.Parallel()
	a, b := written(t, "x", "host", "none"), written(t, "x", "host", "none")
	b.Manifest.Started = began.Add(time.Hour)
	var out bytes.Buffer
	if err := export.Hlog(&out, []*report.Run{a, b}); err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{}
	for i, run := range []*report.Run{a, b} {
		for j := range run.Rows {
			want[[]string{"x/", "x_2/"}[i]+run.Rows[j].Tag()] = run.Rows[j].Fates.Completed()
		}
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	heads := map[string]bool{}
	for _, line := range lines {
		switch {
		case strings.HasPrefix(line, "#[Histogram log format version 1.3]"), strings.HasPrefix(line, "#[StartTime: 1772366400"), strings.HasPrefix(line, "#[BaseTime: 1772366400"):
			heads[line[:10]] = true
		case strings.HasPrefix(line, `"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"`):
			heads["legend"] = true
		case strings.HasPrefix(line, "#"):
		case !interval.MatchString(line):
			t.Errorf("not an interval of the format: %.80s", line)
		default:
			fields := strings.Split(line, ",")
			if got := payload(t, fields[4]); got != want[strings.TrimPrefix(fields[0], "Tag=")] {
				t.Errorf("%s has %d values, want %d", fields[0], got, want[strings.TrimPrefix(fields[0], "Tag=")])
			}
		}
	}
	if len(heads) != 4 {
		t.Errorf("the head has %v:\n%s", heads, out.String()[:400])
	}
	read := map[string]int64{}
	for in := hdrhistogram.NewHistogramLogReader(bytes.NewReader(out.Bytes())); ; {
		h, err := in.NextIntervalHistogram()
		if err != nil {
			t.Fatal(err)
		}
		if h == nil {
			break
		}
		read[h.Tag()] = h.TotalCount()
		if len(read) == 16 && h.StartTimeMs() != began.Add(time.Hour).Add(2*time.Second).UnixMilli() {
			t.Errorf("the last interval begins at %v", time.UnixMilli(h.StartTimeMs()).UTC())
		}
	}
	if diff := cmp.Diff(want, read); diff != "" {
		t.Errorf("HdrHistogram's reader has (-want +got):\n%s", diff)
	}
}

// payload counts the values of a histogram by the description of its format alone: base64 of a cookie, a length and zlib of a head of 40 bytes and
// counts as zigzag varints, of which negative ones are empty buckets.
func payload(t *testing.T, text string) (sum int64) {
	t.Helper()
	packed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	if cookie := binary.BigEndian.Uint32(packed); cookie != 0x1c849314 || int(binary.BigEndian.Uint32(packed[4:])) != len(packed)-8 {
		t.Fatalf("cookie %x, or a wrong length", cookie)
	}
	in, err := zlib.NewReader(bytes.NewReader(packed[8:]))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(in)
	if err != nil || binary.BigEndian.Uint32(body) != 0x1c849313 {
		t.Fatalf("%v, cookie %x", err, binary.BigEndian.Uint32(body))
	}
	for rest := body[40:]; len(rest) > 0; {
		n, size := binary.Varint(rest) // the same as the format's for counts below 2^55
		if rest = rest[size:]; n > 0 {
			sum += n
		}
	}
	return sum
}

func TestHistory(t *testing.T) {
	t.Parallel()
	run := written(t, "x", "host", "none", "svalinn")
	var b bytes.Buffer
	if err := export.History(&b, []*report.Run{run}, ""); err != nil {
		t.Fatal(err)
	}
	golden(t, "history.csv", b.Bytes())
	path := filepath.Join(t.TempDir(), "history.csv")
	for i, want := range []int{16, 0, 16} {
		commit := ""
		if i == 2 {
			commit = "fedcba"
		}
		added, err := export.AppendHistory(path, []*report.Run{run, run}, commit)
		if err != nil || added != want {
			t.Errorf("time %d: %d lines are new, %v; want %d", i+1, added, err, want)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil || !bytes.HasPrefix(text, b.Bytes()) || bytes.Count(text, []byte("\n")) != 33 {
		t.Errorf("%v: the history is\n%s", err, text)
	}
	if err := os.WriteFile(path, []byte("a,b\n1,2\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := export.AppendHistory(path, []*report.Run{run}, ""); err == nil || !strings.Contains(err.Error(), "is it a history?") {
		t.Errorf("a file of something else: error %v", err)
	}
	if text, _ := os.ReadFile(path); string(text) != "a,b\n1,2\n" {
		t.Error("a file of something else was changed")
	}
}

// TestNoFormulas: no cell of a history is one that a spreadsheet would compute.
func TestNoFormulas(t *testing.T) {
	t.Parallel()
	run := written(t, "x", "host", "none")
	for i := range run.Rows {
		run.Rows[i].Controller, run.Rows[i].Class = "=cmd|' /C calc'!A0", "\t@sum(1)"
	}
	run.Manifest.Name, run.Manifest.Machine.CPUModel = "+1+1", "-1"
	var b bytes.Buffer
	if err := export.History(&b, []*report.Run{run}, "=1"); err != nil {
		t.Fatal(err)
	}
	records, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(records) < 2 {
		t.Fatal(err, len(records))
	}
	for _, r := range records[1:] {
		for i, cell := range r {
			if i != 4 && cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])) { // the fifth is a direction, a number
				t.Errorf("column %d has %q", i+1, cell)
			}
		}
	}
}

func TestCommit(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"v0.0.0-20260301120000-0123456789ab": "0123456789ab", "v0.0.0-20260301120000-0123456789ab+dirty": "0123456789ab", "v1.2.3": "v1.2.3",
		"(devel) fedcba987654": "fedcba987654", "(devel)": "(devel)", "v1.0.0-rc-1": "v1.0.0-rc-1", "": "",
	} {
		if got := export.Commit(version); got != want {
			t.Errorf("%q is of commit %q, want %q", version, got, want)
		}
	}
}

// failing refuses what is written to it.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestErrorsOfWriting(t *testing.T) {
	t.Parallel()
	runs := []*report.Run{written(t, "x", "host", "none")}
	for name, write := range map[string]func(io.Writer, []*report.Run) error{
		"benchfmt": export.Benchfmt, "hlog": export.Hlog, "history": func(w io.Writer, runs []*report.Run) error { return export.History(w, runs, "") },
	} {
		if write(failing{}, runs) == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestMachines: every line of a modelled run says which machine it is of, also where the profile describes it and where a variant has another.
func TestMachines(t *testing.T) {
	t.Parallel()
	run := written(t, "x", "sim", "none")
	run.Manifest.ModelledMachine = &report.ModelledMachine{Figures: []report.Figure{{Name: "cores", Value: "2"}, {Name: "bus.total", Value: "36GB/s"}}}
	own := run.Manifest.ModelledMachine.Label()
	for _, want := range []string{own, "laptop"} { // the second time a variant's
		var lines, table bytes.Buffer
		if err := errors.Join(export.Benchfmt(&lines, []*report.Run{run}), export.History(&table, []*report.Run{run}, "")); err != nil {
			t.Fatal(err)
		}
		list, _ := benchmarks(t, lines.Bytes())
		for _, r := range list {
			if got := r.GetConfig("machine"); got != "model "+want {
				t.Errorf("benchfmt has machine %q, want %q", got, "model "+want)
			}
		}
		records, err := csv.NewReader(&table).ReadAll()
		if err != nil || len(records) < 2 || len(list) == 0 {
			t.Fatal(err, len(records), len(list))
		}
		for _, r := range records[1:] {
			if r[12] != want {
				t.Errorf("history has machine %q, want %q", r[12], want)
			}
		}
		run.Manifest.ModelledMachine = nil
		run.Manifest.Variants = []report.Variant{{Name: "bus36", ModelledMachine: &report.ModelledMachine{Name: "laptop"}}}
	}
}
