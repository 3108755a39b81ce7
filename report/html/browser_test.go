package html

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience is how long a test waits for what must come: long, since the machine may be busy, and never slept through.
const patience = 90 * time.Second

// browser is one for all tests of this package; each has a tab of its own.
var browser struct {
	sync.Once
	ctx   context.Context
	close func()
	err   error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if browser.close != nil {
		browser.close()
	}
	os.Exit(code)
}

// findBrowser returns the path of a Chromium, or of a browser made of it; empty where there is none. Some systems have a command of that name that
// only says where to get one, and fails.
func findBrowser() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "headless-shell"} {
		path, err := exec.LookPath(name)
		if err == nil && exec.Command(path, "--version").Run() == nil {
			return path
		}
	}
	return ""
}

func start() {
	path := findBrowser()
	if path == "" {
		return
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.Flag("disable-dev-shm-usage", true))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // it refuses to run as root otherwise
	}
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(ctx)
	browser.ctx, browser.close = ctx, func() { cancel(); stop() }
	browser.err = chromedp.Do(ctx)
}

// tab is a page in the browser, with everything that it should not have done.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string
	asked    []string // addresses that were requested
}

// newTab opens a tab of the given width. The test is skipped where there is no browser.
func newTab(t *testing.T, width int) *tab {
	t.Helper()
	browser.Do(start)
	if browser.err != nil {
		t.Fatalf("the browser does not start: %v", browser.err)
	}
	if browser.ctx == nil {
		t.Skip("there is no Chromium in PATH, so the page is not opened: scripts/install-deps.sh installs it (Debian: apt-get install chromium)")
	}
	ctx, cancel := chromedp.NewContext(browser.ctx)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, b.heard); err != nil {
		t.Fatal(err)
	}
	must(b, cdplog.Enable, cdp.Empty{})
	must(b, network.Enable, network.EnableParams{})
	b.size(width)
	return b
}

func must[P, R any](b *tab, command cdp.Command[P, R], p P) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, command, p); err != nil {
		b.t.Fatal(err)
	}
}

func (b *tab) size(width int) {
	b.t.Helper()
	must(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: int64(width), Height: 900, DeviceScaleFactor: 1, Mobile: width < 500})
}

// media sets the colours that the system asks for, and whether the page is printed.
func (b *tab) media(medium, scheme string) {
	b.t.Helper()
	must(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: medium, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
}

func (b *tab) heard(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		b.problems = append(b.problems, fmt.Sprintf("console %s: %v", e.Type, e.Args))
	case *runtime.EventExceptionThrown:
		b.problems = append(b.problems, fmt.Sprintf("exception %s at line %d", e.ExceptionDetails.Text, e.ExceptionDetails.LineNumber))
		if x := e.ExceptionDetails.Exception; x != nil {
			b.problems = append(b.problems, fmt.Sprint(x))
		}
	case *cdplog.EventEntryAdded: // violations of the policy among them
		b.problems = append(b.problems, "log: "+e.Entry.Text)
	case *network.EventRequestWillBeSent:
		b.asked = append(b.asked, e.Request.URL)
	}
}

// open shows a page and waits until its script has run.
func (b *tab) open(page, fragment string) {
	b.t.Helper()
	path := filepath.Join(b.t.TempDir(), "report.html")
	write1(b.t, path, page)
	address := url.URL{Scheme: "file", Path: path, Fragment: fragment}
	if err := chromedp.Do(b.ctx, chromedp.Navigate(address.String())); err != nil {
		b.t.Fatal(err)
	}
	b.wait(`document.documentElement.dataset.ready === "yes"`)
}

// wait waits for a condition of the page.
func (b *tab) wait(condition string) {
	b.t.Helper()
	if _, err := chromedp.Run(b.ctx, chromedp.Poll[bool]("!!("+condition+")", chromedp.WithPollingInterval(20*time.Millisecond), chromedp.WithPollingTimeout(patience))); err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.t.Fatalf("waited for %s: %v; the page said %q", condition, err, b.problems)
	}
}

// eval returns the value of an expression in the page.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// drawAll opens everything that is closed and scrolls through the page until every chart is drawn.
func (b *tab) drawAll() {
	b.t.Helper()
	eval[bool](b, openAll)
	b.wait(`[...document.querySelectorAll("details[data-table]")].every((d) => d.dataset.filled)`)
	b.wait(`(() => {
		for (const s of document.querySelectorAll(".dist, .time")) if (!s.querySelector("figure, .notice")) { s.scrollIntoView(); return false; }
		const left = [...document.querySelectorAll("figure")].filter((f) => !f.dataset.drawn);
		if (left.length) left[0].scrollIntoView();
		return left.length === 0;
	})()`)
	eval[bool](b, openAll) // the tables of what was drawn on the way
	b.wait(`[...document.querySelectorAll("details.rows")].every((d) => d.dataset.filled)`)
}

const openAll = `(() => { document.querySelectorAll("details").forEach((d) => { d.open = true; }); return true; })()`

// pixels reads a chart's canvas by way of a copy, so that the browser does not advise the page to make it one that is often read.
const pixels = `((u) => {
	const { width, height } = u.ctx.canvas, c = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
	c.drawImage(u.ctx.canvas, 0, 0);
	return c.getImageData(0, 0, width, height).data;
})`

// blank returns the names of charts whose canvas shows nothing of the colours of their lines.
const blank = `[...Chart.all].filter((c) => {
	const u = c.plot, colours = c.spec.lines.filter((l) => l.ys.some((y) => y !== null)).map((l) => l.label.c.match(/[0-9a-f]{2}/g).map((h) => parseInt(h, 16)));
	const data = ` + pixels + `(u);
	for (let i = 0; i < data.length; i += 4) {
		if (data[i + 3] > 200 && colours.some((k) => Math.abs(data[i] - k[0]) + Math.abs(data[i + 1] - k[1]) + Math.abs(data[i + 2] - k[2]) < 24)) return false;
	}
	return true;
}).map((c) => c.spec.id)`

// clean fails the test if the page did anything that it should not have.
func (b *tab) clean() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.problems {
		b.t.Errorf("the page said: %s", p)
	}
	for _, a := range b.asked {
		if !strings.HasPrefix(a, "file://") || !strings.Contains(a, "/report.html") {
			b.t.Errorf("the page asked for %s", a)
		}
	}
	if len(b.asked) == 0 {
		b.t.Error("no request was seen, not even for the page: this test would not see others either")
	}
}
