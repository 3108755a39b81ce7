package html

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"spillway/report"
)

func TestPage(t *testing.T) {
	b := newTab(t, 1440)
	b.open(written(t, small().make(t)), "")
	b.drawAll()
	if list := eval[[]string](b, blank); len(list) > 0 {
		t.Errorf("charts that show nothing: %v", list)
	}
	if n := eval[int](b, `Chart.all.size`); n != 30+2+8 {
		t.Errorf("%d charts were drawn", n)
	}
	if n := eval[int](b, `document.querySelectorAll(".bars .row").length`); n != 6*2*16 {
		t.Errorf("%d bars were drawn, want two charts of 16 in each of 6 groups", n)
	}
	for _, f := range eval[[]string](b, `[...document.querySelectorAll("figure")].filter((f) => !f.querySelector("table tbody tr") || !f.querySelector("h5").textContent || !f.querySelector("figcaption p").textContent).map((f) => f.id)`) {
		t.Errorf("%s has no table, no title or no summary", f)
	}
	if !strings.Contains(eval[string](b, `document.querySelector("#goodput-cpu-slow tbody").textContent`), "not valid: send_lag") {
		t.Error("the table behind a chart does not say which point is not valid, and why")
	}
	if text := eval[string](b, `document.body.innerText`); strings.Contains(text, "NaN") || strings.Contains(text, "Infinity") || strings.Contains(text, "undefined") {
		t.Error("the page says NaN, Infinity or undefined")
	}
	unique(b)
	b.clean()
}

// unique fails the test where two elements have one identifier.
func unique(b *tab) {
	b.t.Helper()
	if list := eval[[]string](b, `(() => { const seen = new Set(); return [...document.querySelectorAll("[id]")].map((e) => e.id).filter((id) => seen.has(id) || !seen.add(id)); })()`); len(list) > 0 {
		b.t.Errorf("identifiers that are there twice: %v", list)
	}
}

// TestTheTestsSeeWhatTheyLookFor: a picture from outside is refused by the page's policy, and seen.
func TestTheTestsSeeWhatTheyLookFor(t *testing.T) {
	b := newTab(t, 1440)
	b.open(written(t, small().make(t)), "")
	eval[bool](b, `new Promise((done) => {
		document.addEventListener("securitypolicyviolation", () => done(true));
		const i = document.createElement("img"); i.src = "http://127.0.0.1:9/x.png"; document.body.append(i);
		const s = document.createElement("script"); s.textContent = "window.pwned = true"; document.body.append(s);
	})`)
	if eval[bool](b, `window.pwned === true`) {
		t.Error("a script ran that is not the page's own")
	}
	eval[int](b, `Promise.resolve(1)`)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.ContainsFunc(b.problems, func(p string) bool { return strings.Contains(p, "Content Security Policy") }) {
		t.Errorf("a violation of the policy was not seen: %q", b.problems)
	}
}

// coloured counts the pixels of a colour in a chart.
const coloured = `((id, colour) => {
	const u = [...Chart.all].find((c) => c.spec.id === id).plot, k = colour.match(/[0-9a-f]{2}/g).map((h) => parseInt(h, 16));
	const data = ` + pixels + `(u);
	let n = 0;
	for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 200 && Math.abs(data[i] - k[0]) + Math.abs(data[i + 1] - k[1]) + Math.abs(data[i + 2] - k[2]) < 12) n++;
	return n;
})`

const svalinn = "#d55e00"

func TestLegendToggles(t *testing.T) {
	b := newTab(t, 1440)
	b.open(written(t, small().make(t)), "goodput-cpu-slow")
	b.wait(`document.querySelector("#goodput-cpu-slow").dataset.drawn && document.querySelector("#optimum-share-cpu-slow").dataset.drawn`)
	count := coloured + `("goodput-cpu-slow", "` + svalinn + `")`
	b.wait(count + ` > 50`)
	const button = `#goodput-cpu-slow .legend button[data-key="svalinn"]`
	b.do(chromedp.Click(chromedp.CSS(button)))
	b.wait(count + ` === 0`)
	b.wait(coloured + `("optimum-share-cpu-slow", "` + svalinn + `") === 0`) // in every chart of the run
	if got := eval[string](b, `document.querySelector('`+button+`').getAttribute("aria-pressed")`); got != "false" {
		t.Errorf("aria-pressed is %s of a line that is hidden", got)
	}
	b.do(chromedp.Focus(chromedp.CSS(button)), chromedp.KeyEvent(" ")) // and with the keyboard
	b.wait(count + ` > 50`)

	// Bars hide a segment.
	b.do(chromedp.ScrollIntoView(chromedp.CSS("#group-1-outcomes")))
	b.wait(`document.querySelector("#group-1-outcomes").dataset.drawn`)
	segments := `document.querySelectorAll("#group-1-outcomes .bar g").length`
	before := eval[int](b, segments)
	b.do(chromedp.Click(chromedp.CSS(`#group-1-outcomes .legend button[data-key="rejected"]`)))
	if after := eval[int](b, segments); after >= before {
		t.Errorf("%d segments after one was hidden, %d before", after, before)
	}
	b.clean()
}

const scaleOf = `((id) => { const s = [...Chart.all].find((c) => c.spec.id === id).plot.scales.x; return [s.min, s.max]; })`

func TestZoomIsShared(t *testing.T) {
	b := newTab(t, 1440)
	b.open(written(t, small().make(t)), "time-0")
	b.wait(`document.querySelector("#time-0")?.dataset.drawn && document.querySelector("#time-1").dataset.drawn`)
	width := func(id string) float64 {
		s := eval[[]float64](b, scaleOf+`("`+id+`")`)
		return s[1] - s[0]
	}
	all := width("time-0")
	b.do(chromedp.Focus(chromedp.CSS("#time-0 .plot")), chromedp.KeyEvent("+"))
	b.wait(scaleOf + `("time-1")[1] - ` + scaleOf + `("time-1")[0] < ` + report.Known(all*0.6).String())
	b.do(chromedp.KeyEvent("-"))
	b.wait(scaleOf + `("time-1")[1] - ` + scaleOf + `("time-1")[0] > ` + report.Known(all*0.9).String())
	b.do(chromedp.KeyEvent("+"), chromedp.KeyEvent("+"), chromedp.KeyEvent("0"))
	if w := width("time-1"); math.Abs(w-all) > 1 {
		t.Errorf("0 shows %v of %v", w, all)
	}
	b.do(chromedp.KeyEvent("+"), chromedp.KeyEvent(kb.Escape))
	if w := width("time-0"); math.Abs(w-all) > 1 {
		t.Errorf("Esc shows %v of %v", w, all)
	}

	// With the mouse: drag, and back by a double click.
	box := eval[[]float64](b, `(() => { const r = document.querySelector("#time-0 .u-over").getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; })()`)
	y := box[1] + box[3]/2
	b.do(chromedp.DragAndDropXY(box[0]+box[2]*0.25, y, box[0]+box[2]*0.75, y, 8))
	b.wait(scaleOf + `("time-1")[1] - ` + scaleOf + `("time-1")[0] < ` + report.Known(all*0.6).String())
	if !eval[bool](b, `document.querySelector("#time-1").classList.contains("zoomed")`) {
		t.Error("the other chart does not show that it is zoomed")
	}
	b.do(chromedp.Click(chromedp.CSS(`#time-0 .tools button[aria-label="Show everything"]`)))
	b.wait(scaleOf + `("time-1")[1] - ` + scaleOf + `("time-1")[0] > ` + report.Known(all*0.99).String())
	b.clean()
}

func TestCursorIsShared(t *testing.T) {
	b := newTab(t, 1440)
	b.open(written(t, small().make(t)), "time-0")
	b.wait(`document.querySelector("#time-0")?.dataset.drawn && document.querySelector("#time-1").dataset.drawn`)
	b.do(chromedp.Focus(chromedp.CSS("#time-0 .plot")), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowRight))
	const tip = `document.querySelector("#time-1 .tip")`
	b.wait(`!` + tip + `.hidden && ` + tip + `.textContent.includes("svalinn")`)
	if at := eval[string](b, tip+`.querySelector(".at").textContent`); at != "20.0 ms" {
		t.Errorf("the other chart's cursor is at %s, want the third sample, at 20 ms", at)
	}
	if said := eval[string](b, `document.getElementById("live").textContent`); !strings.HasPrefix(said, "20.0 ms: ") || !strings.Contains(said, "svalinn") {
		t.Errorf("aloud it says %q", said)
	}
	b.do(chromedp.KeyEvent(kb.End))
	b.wait(tip + `.querySelector(".at").textContent === "490 ms"`)

	// A chart over the load says which point is not valid.
	eval[bool](b, `(() => { location.hash = "goodput-cpu-slow"; return true; })()`)
	b.wait(`document.querySelector("#goodput-cpu-slow").dataset.drawn`)
	b.do(chromedp.Focus(chromedp.CSS("#goodput-cpu-slow .plot")), chromedp.KeyEvent(kb.Home), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowRight))
	b.wait(`document.querySelector("#goodput-cpu-slow .tip").textContent.includes("not valid")`)
	b.clean()
}

func TestThemes(t *testing.T) {
	b := newTab(t, 1440)
	b.media("", "light")
	b.open(written(t, simple().make(t)), "goodput-cpu")
	b.wait(`document.querySelector("#goodput-cpu").dataset.drawn`)
	const ground = `getComputedStyle(document.body).backgroundColor`
	b.wait(ground + ` === "rgb(255, 255, 255)"`)
	b.media("", "dark")
	b.wait(ground + ` === "rgb(20, 23, 26)"`)
	b.wait(coloured + `("goodput-cpu", "#a7b0b8") > 0`) // numbers at the axes
	b.do(chromedp.Click(chromedp.CSS("#theme")))
	b.wait(ground + ` === "rgb(255, 255, 255)"`) // chosen: light
	b.do(chromedp.Click(chromedp.CSS("#theme")))
	b.media("", "light")
	b.wait(ground + ` === "rgb(20, 23, 26)"`) // chosen: dark

	b.media("print", "dark") // paper is white whatever was chosen
	b.wait(ground + ` === "rgb(255, 255, 255)"`)
	b.wait(`[...document.querySelectorAll("details[open] figure")].every((f) => f.dataset.drawn)`)
	if list := eval[[]string](b, blank); len(list) > 0 {
		t.Errorf("charts that are blank on paper: %v", list)
	}
	pdf, err := chromedp.Run(b.ctx, chromedp.PrintToPDF())
	if err != nil || len(pdf) < 50_000 {
		t.Errorf("printed to %d bytes: %v", len(pdf), err)
	}
	b.clean()
}

// TestChoosing: another load has charts of its own, and those that it takes the place of are given up.
func TestChoosing(t *testing.T) {
	b := newTab(t, 1440)
	b.open(written(t, simple().make(t)), "time-0")
	b.wait(`document.querySelector("#time-0")?.dataset.drawn && document.querySelector("#cdf")?.dataset.drawn`)
	choose := func(id, value string) {
		t.Helper()
		eval[bool](b, `(() => { const s = document.getElementById("`+id+`"); s.value = "`+value+`"; s.dispatchEvent(new Event("change")); return s.value !== ""; })()`)
	}
	if at := eval[string](b, `document.getElementById("time-choose-load").value`); at != "1.00M" {
		t.Errorf("the first load to be seen is %s, want the highest", at)
	}
	choose("time-choose-load", "400k")
	choose("latency-choose-class", "memory")
	b.wait(`document.querySelector("#time-0").dataset.drawn`)
	if legend := eval[string](b, `document.querySelector(".shared").innerText`); !strings.Contains(legend, "not valid") {
		t.Errorf("at 400k protego is not valid, and the legend says %q", legend)
	}
	if said := eval[string](b, `document.querySelector(".dist .summary").textContent`); !strings.HasPrefix(said, "At 1.00M, class memory: protego p50 ") {
		t.Errorf("of the distribution it says %q", said)
	}
	b.do(chromedp.Click(chromedp.CSS(`.shared button[data-key="svalinn"]`)))
	b.wait(coloured + `("time-0", "` + svalinn + `") === 0`)
	if n := eval[int](b, `[...Chart.all].filter((c) => !c.figure.isConnected).length`); n > 0 {
		t.Errorf("%d charts are kept that nobody can see", n)
	}
	b.clean()
}

// TestLinkToAChart: a fragment opens what the chart stands in.
func TestLinkToAChart(t *testing.T) {
	e := small()
	e.variants = []string{"a", "b", "c", "d"}
	b := newTab(t, 1440)
	b.open(written(t, e.make(t)), "latency-p99-memory-d")
	const figure = `document.querySelector("#latency-p99-memory-d")`
	b.wait(figure + `?.dataset.drawn && ` + figure + `.getBoundingClientRect().top >= 0 && ` + figure + `.getBoundingClientRect().top < innerHeight / 2`)
	if n := eval[int](b, `document.querySelectorAll("details.group:not([open])").length`); n != 12-mostOpen-1 {
		t.Errorf("%d groups are closed, want all but those at first and the one with the chart", n)
	}
	if href := eval[string](b, figure+`.querySelector(".anchor").getAttribute("href")`); href != "#latency-p99-memory-d" {
		t.Errorf("the chart's own link is %s", href)
	}
	b.clean()
}

func TestPhone(t *testing.T) {
	e := simple()
	e.name = "a-name-that-is-longer-than-any-that-somebody-would-think-of-giving"
	e.controllers = append(e.controllers, "another-name-that-does-not-fit-into-a-narrow-column-at-all")
	b := newTab(t, 390)
	b.open(written(t, e.make(t)), "")
	b.drawAll()
	if w := eval[int](b, `document.documentElement.scrollWidth`); w > 390 {
		t.Errorf("the page is %d wide: %v", w, eval[[]string](b, `[...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > 391 && !e.closest(".scroll, pre, nav")).slice(0, 5).map((e) => e.tagName + "." + e.className)`))
	}
	b.clean()
}

func TestNothingIsInjected(t *testing.T) {
	const evil = `</script><img src=x onerror="window.pwned=1"><svg onload=window.pwned=1>`
	e := experiment{
		name: evil, variants: []string{`<b>v`}, controllers: []string{evil, "=cmd()|x", "\u202eevil\u2066", `"'` + "`${pwned=1}"}, loads: []float64{1e3, 2e3},
		classes: []string{`a&b<script>window.pwned=1</script>`, "{{.}}"}, repeats: 1, trace: true, invalid: func(string, float64) bool { return true },
	}
	run := e.make(t)
	run.Manifest.Title, run.Manifest.State, run.Manifest.Error = evil, evil, evil
	run.Manifest.ProfileText, run.Manifest.ResolvedProfile = evil, "\u202e"+evil
	run.Manifest.Claims = []report.Claim{{Text: evil + "**x** `y` | z", Metric: "goodput_rps", Controller: evil, Note: evil}}
	for i := range run.Rows {
		run.Rows[i].Warnings = []string{evil, "send_lag"}
	}
	page := written(t, run)
	if strings.ContainsAny(page, "\u202e\u2066") {
		t.Error("the page has characters that reorder what is written")
	}
	b := newTab(t, 1440)
	b.open(page, "")
	scripts, images := eval[int](b, `document.scripts.length`), `document.querySelectorAll("img, iframe, object, svg[onload], b b").length`
	b.drawAll()
	if scripts != 6 || eval[int](b, images) != 0 || eval[bool](b, `"pwned" in window`) {
		t.Errorf("%d scripts, %d elements that were injected", scripts, eval[int](b, images))
	}
	if h := eval[string](b, `document.querySelector("h1").textContent`); h != evil {
		t.Errorf("the name is shown as %q", h)
	}
	b.clean()
}

func single() experiment {
	return experiment{name: "single", controllers: []string{"svalinn"}, loads: []float64{1e5}, classes: []string{"cpu"}, repeats: 1, trace: true}
}

func TestOddResults(t *testing.T) {
	shed := simple()
	shed.shed = true
	invalid := simple()
	invalid.invalid = func(string, float64) bool { return true }
	stopped := simple().make(t)
	stopped.Manifest.State, stopped.Manifest.Planned, stopped.Rows, stopped.Latency, stopped.Dir = report.StateRunning, 64, stopped.Rows[:9], nil, t.TempDir()
	empty := &report.Run{Manifest: report.Manifest{Name: "empty", Ground: "host", State: report.StateFailed, Error: "no server"}}
	zero := single()
	zero.loads = []float64{0}
	for name, run := range map[string]*report.Run{"empty": empty, "single": single().make(t), "shed": shed.make(t), "invalid": invalid.make(t), "interrupted": stopped, "no load": zero.make(t)} {
		t.Run(name, func(t *testing.T) {
			page := written(t, run)
			b := newTab(t, 1440)
			b.open(page, "")
			b.drawAll()
			for _, wrong := range []string{"NaN", "Infinity", "undefined", "[object"} {
				if text := eval[string](b, `document.body.innerText`); strings.Contains(text, wrong) {
					t.Errorf("the page says %s", wrong)
				}
			}
			if list := eval[[]string](b, blank); len(list) > 0 {
				t.Errorf("charts that show nothing: %v", list)
			}
			if list := eval[[]string](b, `[...document.querySelectorAll("figure .plot")].filter((p) => !p.querySelector("canvas, .row, .notice")).map((p) => p.closest("figure").id)`); len(list) > 0 {
				t.Errorf("figures without anything in them: %v", list)
			}
			text := eval[string](b, `document.body.innerText`)
			for _, want := range map[string][]string{
				"empty": {"No point was measured", "There are no time series"}, "single": {"1 of 1 points are valid"}, "interrupted": {"There are no time series", "running"},
				"invalid": {"0 of 12 points are valid", "not valid"}, "shed": {"queue full"},
			}[name] {
				if !strings.Contains(text, want) {
					t.Errorf("the page does not say %q", want)
				}
			}
			b.clean()
		})
	}
}

// TestSeveralRuns: one page, a section each, no identifier twice.
func TestSeveralRuns(t *testing.T) {
	one, two := simple().make(t), simple().make(t)
	two.Manifest.Ground = "host"
	b := newTab(t, 1440)
	b.open(written(t, one, two), "r2-goodput-cpu")
	b.wait(`document.querySelector("#r2-goodput-cpu")?.dataset.drawn`)
	unique(b)
	if text := eval[string](b, `document.body.innerText`); !strings.Contains(text, "made on different grounds (sim, host)") {
		t.Error("the page does not say that its runs are of different grounds")
	}
	if n := eval[int](b, `document.querySelectorAll("article").length`); n != 2 {
		t.Errorf("%d sections, want two", n)
	}
	b.clean()
}

// TestManyPointsOpen: a page of ten thousand points draws what is in view and nothing else.
func TestManyPointsOpen(t *testing.T) {
	if testing.Short() {
		t.Skip("it is large")
	}
	b := newTab(t, 1440)
	b.open(written(t, large(t)), "")
	t.Logf("opened in %.0f ms", eval[float64](b, `performance.getEntriesByType("navigation")[0].loadEventEnd`))
	if n := eval[int](b, `document.querySelectorAll("*").length`); n > 20_000 {
		t.Errorf("%d elements at once", n)
	}
	if n := eval[int](b, `Chart.all.size`); n > 12 {
		t.Errorf("%d charts were drawn before anybody saw them", n)
	}
	eval[bool](b, `(() => { document.querySelector('details[data-table="points"]').open = true; return true; })()`)
	b.wait(`document.querySelectorAll('details[data-table="points"] tbody tr').length === 200`)
	b.clean()
}
