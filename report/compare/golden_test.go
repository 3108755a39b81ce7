package compare_test

import (
	"encoding/json"
	"encoding/xml"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spillway/report"
	"spillway/report/compare"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; go test -update writes it", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// everything has a comparison of every outcome that results of one circumstance can have.
func everything(t *testing.T) *compare.Result {
	t.Helper()
	controllers := []string{"none", "fixed", "codel", "seda", "dagor", "gone"}
	base := setup{controllers: controllers, classes: []string{"small", "large"}, loads: []float64{20000}, settings: "{limit: 8}"}
	candidate := base
	candidate.settings = "{limit: 9, queue: 16}"
	candidate.controllers = append(append([]string{}, controllers[:5]...), "new")
	candidate.goodput = func(controller, class string, load float64, repeat int) float64 {
		v := load * noise(repeat, 0.02)
		switch {
		case controller == "fixed" && class == "small":
			return v * 0.9 * noise(repeat+5, 0.002)
		case controller == "fixed":
			return v * 1.08 * noise(repeat+5, 0.002)
		case controller == "codel" && class == "large":
			return v * 0.97 * noise(repeat+5, 0.2)
		case controller == "seda":
			return 0
		}
		return v
	}
	candidate.p99 = func(controller, class string, _ float64, repeat int) float64 {
		switch {
		case controller == "seda":
			return 0
		case controller == "codel":
			return 501 * noise(repeat, 0.1)
		}
		return 500 * noise(repeat, 0.1)
	}
	candidate.change = func(_ *report.Manifest, rows []report.Row) {
		for i := range rows {
			if rows[i].Controller == "dagor" && rows[i].Repeat < 3 {
				rows[i].Valid, rows[i].Warnings = false, []string{"server_count", "send_lag"}
			}
		}
	}
	return compared(t, base, candidate, atDefaults)
}

func TestGoldens(t *testing.T) {
	t.Parallel()
	r := everything(t)
	finite(t, r)
	for name, text := range written(t, r) {
		golden(t, name+".golden", text)
	}
}

// TestNamesInjectNothing: labels and profiles come from files of others.
func TestNamesInjectNothing(t *testing.T) {
	t.Parallel()
	nasty := "x|`a` <script>alert(1)</script>\\| ]]> & \"q\" @somebody [l](javascript:x)\n| injected | row |\n# heading\x1b[31m\x00\u202e"
	s := setup{name: "p" + nasty, controllers: []string{"c" + nasty}, classes: []string{"k" + nasty, "other"}}
	s.settings = "{limit: 8}"
	// A label with such characters would not be a profile's; what reads results must not rely on that.
	s.change = func(m *report.Manifest, _ []report.Row) { m.ResolvedProfile = "workload: {kind: kv}\n" }
	worse := s
	worse.goodput = scaled(0.9, 0.001)
	worse.change = func(m *report.Manifest, rows []report.Row) {
		m.ResolvedProfile = "workload: {kind: kv}\nserver: {settings: {slots: \"" + `a|b\n<b>` + "\"}}\n"
		for i := range rows {
			if rows[i].Repeat == 1 {
				rows[i].Valid, rows[i].Warnings = false, []string{"w" + nasty}
			}
		}
	}
	r := compared(t, s, worse, atDefaults)
	texts := written(t, r)

	for _, name := range []string{"terminal", "markdown"} {
		if i := strings.IndexFunc(texts[name], func(c rune) bool { return c < ' ' && c != '\n' || c == 0x7f || c == '\u202e' }); i >= 0 {
			t.Errorf("%s has a control character at %d: %q", name, i, texts[name][max(0, i-20):i+5])
		}
	}
	columns := 0
	for _, line := range strings.Split(texts["markdown"], "\n") {
		switch {
		case columns == 0 && strings.HasPrefix(line, "|"):
			columns = strings.Count(line, "|")
		case strings.HasPrefix(line, "|") && columns > 0 && strings.Count(line, "|") != columns:
			t.Errorf("a row of %d bars in a table of %d:\n%s", strings.Count(line, "|"), columns, line)
		case strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "## Comparison: "):
			t.Errorf("a heading of its own: %s", line)
		}
		if outside := outsideCode(line); strings.ContainsAny(strings.ReplaceAll(outside, "&lt;", ""), "<>@[]&\\") {
			t.Errorf("markup outside a code span: %q in %s", outside, line)
		}
	}
	if columns == 0 {
		t.Errorf("no table:\n%s", texts["markdown"])
	}
	dec := xml.NewDecoder(strings.NewReader(texts["junit"]))
	cases := 0
	for {
		token, err := dec.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("JUnit is not XML: %v\n%s", err, texts["junit"])
		}
		if e, ok := token.(xml.StartElement); ok {
			switch e.Name.Local {
			case "testcase":
				cases++
			case "testsuites", "testsuite", "failure", "error", "skipped", "system-out":
			default:
				t.Errorf("an element %s", e.Name.Local)
			}
		}
	}
	if cases != len(r.Comparisons) {
		t.Errorf("%d cases for %d comparisons", cases, len(r.Comparisons))
	}
	var d map[string]any
	if err := json.Unmarshal([]byte(texts["json"]), &d); err != nil || d["verdict"] != "not comparable" {
		t.Errorf("JSON: %v, %v", err, d["verdict"])
	}
}

// outsideCode returns a line without its code spans.
func outsideCode(line string) string {
	var b strings.Builder
	for i, part := range strings.Split(line, "`") {
		if i%2 == 0 {
			b.WriteString(part)
		}
	}
	return b.String()
}
