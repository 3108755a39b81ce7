package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"spillway/internal/harness"
	"spillway/profiles"
	"spillway/report"
)

// TestReadmePicture draws the picture in README.md from its profile. On other processors the last digits of a simulation may differ, so there only
// what it shows is looked at.
func TestReadmePicture(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("simulates for a while in one goroutine")
	}
	p, err := profiles.Load("../../docs/overload.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	outcome, err := harness.Run(t.Context(), harness.Config{Profile: p, Out: dir, Pace: "auto"})
	if err != nil || outcome.Invalid > 0 {
		t.Fatalf("%+v, %v", outcome, err)
	}
	drawn, err := os.ReadFile(filepath.Join(dir, "plots", "goodput-all.svg"))
	if err != nil {
		t.Fatal(err)
	}
	committed, err := os.ReadFile("../../docs/overload.svg")
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOARCH == "amd64" && !bytes.Equal(drawn, committed) {
		t.Error("docs/overload.svg is not what docs/overload.yaml gives: make readme draws it anew")
	}
	for _, want := range []string{"none", "protego", "svalinn", report.LineOptimum, report.LineCeiling} {
		if !strings.Contains(string(committed), ">"+want+"<") {
			t.Errorf("the picture has no line of %s", want)
		}
	}
}
