package html

import (
	"strings"
	"testing"

	"spillway/report"
)

// claiming returns results with claims over single baselines, in as many columns as there can be.
func claiming(t *testing.T) *report.Run {
	t.Helper()
	run := small().make(t)
	run.Manifest.Claims = []report.Claim{
		{Text: "CPU goodput over the baselines, up to 3.21 times", Metric: "goodput_rps", Class: "cpu", Controller: "svalinn", Over: []string{"protego"}, Take: "max", Paper: report.Known(3.21), HoldsAt: report.Known(2)},
		{Text: "goodput", Metric: "goodput_rps", Class: "memory", Controller: "svalinn", Over: []string{"none"}, Take: "min", HoldsAt: report.Known(1)},
		{Text: "the tail", Metric: "latency_p99_us", Class: "cpu", Controller: "protego", Take: "max", HoldsUnder: report.Known(2500)},
	}
	return run
}

// brokenCells returns the texts of the cells of the column `of` of the table of claims that are broken over lines, though a line would have room for them,
// and how many cells there are.
const brokenCells = `(() => {
	const cells = [...document.querySelectorAll('.claims td[data-label="of"]')];
	const lines = (c) => { const r = document.createRange(); r.selectNodeContents(c); return new Set([...r.getClientRects()].map((b) => Math.round(b.top))).size; };
	return [String(cells.length), ...cells.filter((c) => c.textContent.length <= 26 && lines(c) > 1).map((c) => c.textContent)];
})()`

// beyondTheEdge returns what is not wholly on the screen, of what has to be: everything at the top, and every cell of the claims.
const beyondTheEdge = `[...document.querySelectorAll("nav a, #theme, .facts li, .findings p, .from, .claims th, .claims td, .claims .verdict, .claims small")].filter((e) => {
	const b = e.getBoundingClientRect();
	return b.width && (b.left < 0 || b.right > innerWidth + 0.5);
}).map((e) => e.className + " " + e.textContent)`

// covered returns the links of the head that something else lies upon.
const covered = `[...document.querySelectorAll("nav a")].filter((e) => {
	const b = e.getBoundingClientRect(), at = document.elementFromPoint(b.left + b.width / 2, b.top + b.height / 2), end = document.elementFromPoint(b.right - 1, b.top + b.height / 2);
	return at !== e || end !== e;
}).map((e) => e.textContent)`

// TestClaimsFitTheScreen: whose figure is held against whose stands on one line, and nothing of the claims or of the head of the page is beyond the edge
// of a screen or of a phone.
func TestClaimsFitTheScreen(t *testing.T) {
	page := written(t, claiming(t))
	for _, width := range []int{1280, 390} {
		b := newTab(t, width)
		b.open(page, "")
		got := eval[[]string](b, brokenCells)
		if got[0] != "6" || len(got) > 1 {
			t.Errorf("at a width of %d, of %s cells are broken: %q", width, got[0], got[1:])
		}
		if w := eval[int](b, `document.documentElement.scrollWidth`); w > width {
			t.Errorf("the page is %d wide, the screen %d", w, width)
		}
		if list := eval[[]string](b, beyondTheEdge); len(list) > 0 {
			t.Errorf("at a width of %d there is something beyond the edge: %q", width, list)
		}
		if list := eval[[]string](b, covered); len(list) > 0 {
			t.Errorf("at a width of %d links are covered: %q", width, list)
		}
		if n := eval[int](b, `(() => { const s = document.querySelector(".claims"); return s.scrollWidth - s.clientWidth; })()`); n > 0 {
			t.Errorf("at a width of %d the table of claims is %d pixels too wide", width, n)
		}
		b.clean()
	}
}

// TestReasonsStandBesideOutcomes: why a claim came to its outcome is in its row, and nothing of it is closed.
func TestReasonsStandBesideOutcomes(t *testing.T) {
	t.Parallel()
	run := claiming(t)
	run.Manifest.Claims[0].Note = "as the paper has it"
	run.Manifest.Claims[1].HoldsAt, run.Manifest.Claims[1].Take = report.Known(30), "last"
	page := written(t, run)
	_, table, _ := strings.Cut(page, `<div class="scroll claims"`)
	table, _, _ = strings.Cut(table, "</table>")
	for text, times := range map[string]int{
		"cannot hold: at most 3.33× is to be gained over a single queue on this machine": 2, // once for each variant
		"as the paper has it": 2, `rowspan="1"`: 12, "undecided: ": 2,
	} {
		if n := strings.Count(table, text); n != times {
			t.Errorf("the table of claims has %q %d times, want %d", text, n, times)
		}
	}
	if !strings.Contains(page, `<a href="#claims">Of 6 claims `) {
		t.Error("the top does not say what became of the claims")
	}
}
