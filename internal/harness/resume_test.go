//go:build linux

package harness

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"spillway/profiles"
	"spillway/report"
)

// times of a manifest and what of it repeats in documents: what differs between two runs that measured the same.
var times = regexp.MustCompile(`\s*"(started|ended|wall_s|resumed)": ("[^"]*"|[0-9.e-]+|\[[^]]*\]),?\n|\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?( UTC|Z)?|took [0-9.hms]+`)

// filesOf returns the content of all files below dir but for times.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, dir)] = string(times.ReplaceAll(text, nil))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// sameFiles fails when the files of two directories differ in more than times.
func sameFiles(t *testing.T, want, got string) {
	t.Helper()
	a, b := filesOf(t, want), filesOf(t, got)
	if len(a) < 4 {
		t.Fatalf("only %d files", len(a))
	}
	for name := range a {
		if name == "/report.html" { // which has all the others in it, compressed or in another order; its parts are compared here
			delete(a, name)
			delete(b, name)
		}
	}
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("files (-uninterrupted +resumed):\n%.4000s", diff)
	}
}

// interruptAfter runs p until so many points are written, and returns where.
func interruptAfter(t *testing.T, c Config, points int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c.Observe = func(e Event) {
		if e.Kind == Finished && e.Done >= points {
			cancel()
		}
	}
	out, err := Run(ctx, c)
	if err != nil || !out.CutShort {
		t.Fatalf("outcome %+v, %v; want it cut short", out, err)
	}
}

const resumable = "repeats: 2"

// TestResume: a run that was interrupted anywhere and gone on with leaves the same bytes as one that was not.
func TestResume(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]*profiles.Profile{
		"points":   modelledProfile(t, resumable, "repeats: 6"),
		"variants": modelledProfile(t, "timeout: 10ms", "variants: [{name: slow, set: {}}, {name: fast, set: {machine.cores: 4}}]\ntimeout: 10ms", resumable, "repeats: 3"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole := filepath.Join(t.TempDir(), "whole")
			if _, err := Run(t.Context(), Config{Profile: p, Out: whole, Jobs: 1}); err != nil {
				t.Fatal(err)
			}
			for _, points := range []int{1, 7} {
				dir := filepath.Join(t.TempDir(), "part")
				c := Config{Profile: p, Out: dir, Jobs: 1}
				interruptAfter(t, c, points)
				before, err := report.ReadInterrupted(dir)
				if err != nil || before.Complete || len(before.Points()) < points {
					t.Fatalf("%v: %d points are whole, want %d", err, len(before.Points()), points)
				}
				c.Resume = true
				ran := 0
				c.Observe = func(e Event) {
					if e.Kind == Finished {
						ran++
					}
				}
				out, err := Run(t.Context(), c)
				if err != nil || out.Points != 24 || out.CutShort {
					t.Fatalf("resumed: %+v, %v", out, err)
				}
				if ran != 24-len(before.Points()) {
					t.Errorf("%d points were simulated after %d of 24", ran, len(before.Points()))
				}
				sameFiles(t, whole, dir)
			}
		})
	}
}

// TestResumeComplete: of a run that came to its end nothing is measured again, and a document that is missing is written.
func TestResumeComplete(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "out")
	c := Config{Profile: modelledProfile(t), Out: dir, Jobs: 1}
	if _, err := Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	before := filesOf(t, dir)
	if err := os.Remove(filepath.Join(dir, report.PageFile)); err != nil {
		t.Fatal(err)
	}
	c.Resume = true
	var mu sync.Mutex
	c.Observe = func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Kind != Noted {
			t.Errorf("event %+v", e)
		}
	}
	out, err := Run(t.Context(), c)
	if err != nil || out.Points != 8 || out.Dir != dir {
		t.Fatalf("outcome %+v, %v", out, err)
	}
	after := filesOf(t, dir)
	if _, ok := after["/"+report.PageFile]; !ok {
		t.Error("the page that was missing is not there")
	}
	for name, text := range before {
		if name != "/"+report.PageFile && after[name] != text {
			t.Errorf("%s has changed", name)
		}
	}
}

// TestResumeTorn: what a full disk or a killed process tore is measured again.
func TestResumeTorn(t *testing.T) {
	t.Parallel()
	p := modelledProfile(t, resumable, "repeats: 6")
	whole := filepath.Join(t.TempDir(), "whole")
	if _, err := Run(t.Context(), Config{Profile: p, Out: whole, Jobs: 1}); err != nil {
		t.Fatal(err)
	}
	cut := func(dir, name string, bytes int64) {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if err == nil {
			err = os.Truncate(path, info.Size()-bytes)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	grow := func(dir, name, text string) {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteString(text)
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	for name, tear := range map[string]func(dir string){
		"trace":          func(dir string) { cut(dir, "trace.csv", 7) },
		"histograms":     func(dir string) { cut(dir, "histograms.hlog", 7) },
		"list":           func(dir string) { cut(dir, "finished.jsonl", 7) },
		"half a line":    func(dir string) { grow(dir, "trace.csv", "modelled,sim,none") },
		"half an entry":  func(dir string) { grow(dir, "histograms.hlog", "Tag=none") },
		"half a point":   func(dir string) { grow(dir, "finished.jsonl", `{"point":"none`) },
		"nothing at all": func(dir string) { cut(dir, "finished.jsonl", 1); grow(dir, "finished.jsonl", "?") },
		"killed while on": func(dir string) { // the streams still beside their place, half a point behind what is listed
			for _, f := range []string{"trace.csv", "histograms.hlog"} {
				if err := os.Rename(filepath.Join(dir, f), filepath.Join(dir, f+".partial")); err != nil {
					t.Fatal(err)
				}
				grow(dir, f+".partial", "half")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "part")
			c := Config{Profile: p, Out: dir, Jobs: 1}
			interruptAfter(t, c, 5)
			tear(dir)
			c.Resume = true
			if out, err := Run(t.Context(), c); err != nil || out.Points != 24 {
				t.Fatalf("resumed: %+v, %v", out, err)
			}
			sameFiles(t, whole, dir)
		})
	}
}

// TestResumeAllocation: the cells of points that were finished are in allocation.csv as they would have been.
func TestResumeAllocation(t *testing.T) {
	t.Parallel()
	p, err := profiles.Load("allocation-cases")
	if err == nil {
		p, err = p.Set([]profiles.Assignment{{Key: "window", Value: "60s"}, {Key: "repeats", Value: "2"}, {Key: "claims", Value: "null"}})
	}
	if err != nil {
		t.Fatal(err)
	}
	whole, dir := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "part")
	if _, err := Run(t.Context(), Config{Profile: p, Out: whole, Jobs: 1}); err != nil {
		t.Fatal(err)
	}
	c := Config{Profile: p, Out: dir, Jobs: 1}
	interruptAfter(t, c, 9)
	c.Resume = true
	if _, err := Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	sameFiles(t, whole, dir)
}

// TestResumeRefusals: another run is not gone on with, and what differs is named.
func TestResumeRefusals(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "out")
	interruptAfter(t, Config{Profile: modelledProfile(t, resumable, "repeats: 6"), Out: dir, Jobs: 1, Version: "v1"}, 2)
	before := filesOf(t, dir)
	for want, c := range map[string]Config{
		"the seed was 3 and is 2":                      {Profile: modelledProfile(t, resumable, "repeats: 6", "seed: 3", "seed: 2"), Out: dir, Version: "v1"},
		"the version of loadgen was v1 and is v2":      {Profile: modelledProfile(t, resumable, "repeats: 6"), Out: dir, Version: "v2"},
		"`repeats: 6` stood and now `repeats: 3` does": {Profile: modelledProfile(t, resumable, "repeats: 3"), Out: dir, Version: "v1"},
		"holds no run to go on with":                   {Profile: modelledProfile(t), Out: t.TempDir()},
		"validate: this computer is measured":          {Profile: validating(t), Out: dir},
		"--record: what was recorded":                  {Profile: modelledProfile(t, "on: sim", "on: model"), Record: true, Out: dir},
	} {
		c.Resume = true
		if _, err := Run(t.Context(), c); !errors.Is(err, ErrUsage) || !strings.Contains(strings.ReplaceAll(err.Error(), `"`, "`"), want) {
			t.Errorf("error %v, want it to have %q", err, want)
		}
	}
	if diff := cmp.Diff(before, filesOf(t, dir)); diff != "" {
		t.Errorf("a refusal changed files:\n%s", diff)
	}
	// Somebody else is at it.
	in, err := report.ReadInterrupted(dir)
	if err != nil {
		t.Fatal(err)
	}
	w, err := report.Continue(in, in.Manifest, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close(in.Manifest.Started, report.StateCutShort, nil)
	if _, err := Run(t.Context(), Config{Profile: modelledProfile(t, resumable, "repeats: 6"), Out: dir, Version: "v1", Resume: true}); err == nil ||
		!strings.Contains(err.Error(), "another loadgen is writing to it") {
		t.Errorf("error %v", err)
	}
}

// validating returns a profile that asks for a prediction.
func validating(t *testing.T) *profiles.Profile {
	t.Helper()
	p, err := profiles.Load("validate-model")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestResumeOnHost: where points are measured in a shuffled order, those that are finished are not measured again, and the capacity that was found is
// taken over: it is what the factors of finished points are shares of.
func TestResumeOnHost(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "out")
	run := func(resume bool, until int) (*fake, Outcome) {
		f := &fake{profile: profile(t, "rates: [100, 200]", "of_capacity: [0.5, 1]"), latency: saturating}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		e := newExperiment(t, f)
		e.config.Profile, e.config.Out, e.config.Resume = f.profile, dir, resume
		e.config.Observe = func(ev Event) {
			if ev.Kind == Finished && ev.Done == until {
				cancel()
			}
		}
		out, err := e.run(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return f, out
	}
	first, out := run(false, 3)
	if !out.CutShort || len(first.ran) != 3 {
		t.Fatalf("outcome %+v after %v", out, first.ran)
	}
	second, out := run(true, -1)
	if out.CutShort || out.Points != len(first.ran)+len(second.ran) || len(second.probes) > 0 {
		t.Fatalf("outcome %+v after %v, probes %v", out, second.ran, second.probes)
	}
	for _, p := range second.ran {
		for _, q := range first.ran {
			if p == q {
				t.Errorf("%s was measured twice", p)
			}
		}
	}
	read, err := report.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	c := read.Manifest.Capacity
	if c == nil || !strings.Contains(strings.Join(c.Remarks, ""), "found before the run was interrupted") || len(read.Manifest.Resumed) != 1 {
		t.Errorf("capacity %+v, resumed %v", c, read.Manifest.Resumed)
	}
	if list, err := os.ReadFile(filepath.Join(dir, "finished.jsonl")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a complete run leaves %s, %v", bytes.TrimSpace(list), err)
	}
}
