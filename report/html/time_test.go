package html

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestTimesStandBelowEachOther: meters are sampled at different instants, and all charts show the same stretch of time.
func TestTimesStandBelowEachOther(t *testing.T) {
	run := single().make(t)
	row := &run.Rows[0]
	trace, err := os.OpenFile(filepath.Join(run.Dir, traceFile), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{"-80000", "1234000"} {
		fmt.Fprintf(trace, "%s,sim,%s,%s,%d,,%s,constructor,toString,0\n", row.Profile, row.Controller, row.OfferedTargetRPS, row.Repeat, at)
	}
	if err := trace.Close(); err != nil {
		t.Fatal(err)
	}
	b := newTab(t, 390)
	b.open(written(t, run), "time-0")
	b.drawAll()
	for _, s := range eval[[][]float64](b, `[...Chart.all].filter((c) => c.spec.id.startsWith("time-")).map((c) => { const s = c.plot.scales.x; return [s.min, s.max]; })`) {
		if s[0] != -80000 || s[1] != 1234000 {
			t.Errorf("a chart shows %v, want what the others show", s)
		}
	}
	// The last label stands at the edge, and must fit on the paper.
	for _, room := range eval[[]float64](b, `[...Chart.all].filter((c) => c.spec.tight).map((c) => c.host.clientWidth - c.plot.over.offsetLeft - c.plot.over.offsetWidth)`) {
		if room < 24 {
			t.Errorf("the last label has %v pixels behind the edge", room)
		}
	}
	if text := eval[string](b, `document.body.innerText`); strings.Contains(text, "function") {
		t.Error("a meter with the name of something in JavaScript is shown as that")
	}
	b.clean()
}

// TestChartsThatAreGone: what is chosen again and again leaves nothing behind, and a legend still hides lines.
func TestChartsThatAreGone(t *testing.T) {
	b := newTab(t, 1440)
	b.open(written(t, simple().make(t)), "time-0")
	b.wait(`document.querySelector("#time-0")?.dataset.drawn`)
	before := eval[int](b, `Chart.group("time").charts.size`)
	for _, load := range []string{"400k", "1.00M", "400k", "1.00M"} {
		eval[bool](b, `(() => { const s = document.getElementById("time-choose-load"); s.value = "`+load+`"; s.dispatchEvent(new Event("change")); return true; })()`)
		b.wait(`document.querySelector("#time-0").dataset.drawn`)
	}
	b.wait(`Chart.group("time").charts.size === ` + strconv.Itoa(before))
	b.do(chromedp.Click(chromedp.CSS(`.shared button[data-key="svalinn"]`)))
	b.wait(coloured + `("time-0", "` + svalinn + `") === 0`)
	if list := eval[[]string](b, `[...document.querySelectorAll('.legend button[data-key="svalinn"]')].map((e) => e.getAttribute("aria-pressed"))`); slices.Contains(list, "true") {
		t.Errorf("one line is hidden in all charts, and legends say %v", list)
	}
	b.clean()
}

// TestLinkThatWasCut: half of an escape in the fragment is no reason to fail.
func TestLinkThatWasCut(t *testing.T) {
	b := newTab(t, 1440)
	b.open(written(t, single().make(t)), "")
	eval[bool](b, `(() => { location.hash = "%E2%8"; return true; })()`)
	b.do(chromedp.Reload())
	b.wait(`document.documentElement.dataset.ready === "yes"`)
	b.clean()
}
