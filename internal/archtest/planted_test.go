package archtest

import (
	"fmt"
	"strings"
	"testing"
)

// The tests below plant violations and look whether the checks find them: a rule that cannot fail is not a rule.

func plant(t *testing.T, name, text string) []*source {
	t.Helper()
	s, err := parse(name, text)
	if err != nil {
		t.Fatal(err)
	}
	return []*source{s}
}

func TestPlanted(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		check func([]*source) []string
		file  string
		text  string
		want  string // part of the one violation; "" for none
	}{
		{"arrow within the row", checkArrows, "control/gate.go", `package control; import "spillway/clock"`, ""},
		{"arrow upwards", checkArrows, "control/gate.go", `package control; import "spillway/servers"`, "imports servers, which the row of control"},
		{"arrow of a test", checkArrows, "control/gate_test.go", `package control; import "spillway/internal/dist"`, ""},
		{"mechanism to mechanism", checkArrows, "control/aqm/codel.go", `package aqm; import "spillway/control/limit"`, "imports control/limit"},
		{"catalog to every mechanism", checkArrows, "control/catalog/catalog.go", `package catalog; import "spillway/control/limit"`, ""},
		{"unknown package", checkArrows, "util/util.go", `package util`, "no row in mayImport"},
		{"test support in a product", checkArrows, "control/gate.go", `package control; import "spillway/control/controltest"`, "is for tests"},
		{"test support in a test", checkArrows, "control/gate_test.go", `package control; import "spillway/control/controltest"`, ""},
		{"a command imported", checkArrows, "report/csv_test.go", `package report; import "spillway/cmd/loadgen"`, "commands are at the top"},
		{"harness test to servers", checkArrows, "internal/harness/host_test.go", `package harness; import "spillway/servers/memcached"`, "measures a process"},

		{"single importer", checkModules, "internal/hist/hist.go", `package hist; import "github.com/HdrHistogram/hdrhistogram-go"`, ""},
		{"second importer", checkModules, "report/csv.go", `package report; import "github.com/HdrHistogram/hdrhistogram-go"`, "the one door"},
		{"cobra outside cmd", checkModules, "internal/harness/run.go", `package harness; import "github.com/spf13/cobra"`, "flags end in cmd"},
		{"part of a module", checkModules, "internal/metrics/page.go", `package servers; import "github.com/prometheus/client_golang/prometheus/promhttp"`, ""},
		{"a longer name is another module", checkModules, "cmd/x/x.go", `package main; import "github.com/spf13/cobra-cli"`, "without a row"},
		{"test module in a test", checkModules, "control/gate_test.go", `package control; import "pgregory.net/rapid"`, ""},
		{"test module in test support", checkModules, "control/controltest/run.go", `package controltest; import "github.com/cockroachdb/datadriven"`, ""},
		{"test module elsewhere", checkModules, "control/gate.go", `package control; import "pgregory.net/rapid"`, "it is for tests"},
		{"unlisted module", checkModules, "control/gate_test.go", `package control; import "github.com/stretchr/testify/assert"`, "without a row"},

		{"sync in control", checkImports, "control/gate.go", `package control; import "sync"`, "virtual time"},
		{"atomic in control", checkImports, "control/limit/aimd.go", `package limit; import "sync/atomic"`, "virtual time"},
		{"slog in workloads", checkImports, "workloads/kv.go", `package workloads; import "log/slog"`, "virtual time"},
		{"sync in guard", checkImports, "guard/guard.go", `package guard; import "sync"`, ""},
		{"os in a test of control", checkImports, "control/gate_test.go", `package control; import "os"`, ""},
		{"old rand", checkImports, "internal/dist/zipf.go", `package dist; import "math/rand"`, "handed in"},
		{"dot import", checkImports, "guard/guard_test.go", `package guard; import . "fmt"`, "dot import"},

		{"wall clock in control", checkCalls, "control/gate.go", `package control; import "time"; func f() { time.Now() }`, "`now` is an argument"},
		{"wall clock by another name", checkCalls, "control/gate.go", `package control; import t "time"; func f() { t.Since(t.Time{}) }`, "`now` is an argument"},
		{"wall clock passed on", checkCalls, "report/csv.go", `package report; import "time"; var now = time.Now`, "`now` is an argument"},
		{"wall clock where allowed", checkCalls, "clock/clock.go", `package clock; import "time"; func f() { time.Now() }`, ""},
		{"durations are fine", checkCalls, "control/gate.go", `package control; import "time"; const d = time.Second`, ""},
		{"a variable called time", checkCalls, "control/gate.go", `package control; func f(time struct{ Now func() }) { time.Now() }`, ""},
		{"global random source", checkCalls, "workloads/kv.go", `package workloads; import "math/rand/v2"; func f() { rand.IntN(3) }`, "cannot be seeded"},
		{"own random source", checkCalls, "workloads/kv.go", `package workloads; import "math/rand/v2"; func f(r *rand.Rand) { rand.New(rand.NewPCG(1, 2)); r.IntN(3) }`, ""},
		{"sleep in a test", checkCalls, "guard/guard_test.go", `package guard; import "time"; func f() { time.Sleep(1) }`, "synctest"},
		{"sleep on a paced path", checkCalls, "internal/drive/drive.go", `package drive; import "time"; func f() { time.Sleep(1) }`, "oversleeps"},
		{"exit in a library", checkCalls, "internal/harness/run.go", `package harness; import "os"; func f() { os.Exit(1) }`, "only main.go"},
		{"exit in a command's file", checkCalls, "cmd/loadgen/run.go", `package main; import "os"; func f() { os.Exit(1) }`, "only main.go"},
		{"exit in main.go", checkCalls, "cmd/loadgen/main.go", `package main; import "os"; func main() { os.Exit(1) }`, ""},
		{"fatal log", checkCalls, "servers/front.go", `package servers; import "log"; func f() { log.Fatalf("x") }`, "only main.go"},

		{"goroutine", checkGoroutines, "internal/load/generator.go", `package load; func f() { go f() }`, "go statement"},
		{"channel", checkGoroutines, "control/gate.go", `package control; type t struct { c chan int }`, "channel"},
		{"goroutine where allowed", checkGoroutines, "guard/guard.go", `package guard; func f() { go f() }`, ""},
		{"goroutine in a test", checkGoroutines, "control/gate_test.go", `package control; func f() { go f() }`, ""},

		{"long file", checkSizes, "clock/clock.go", "package clock\n" + strings.Repeat("\n", maxFileLines), "lines, more than"},
		{"long function", checkSizes, "clock/clock.go", "package clock\nfunc f() {" + strings.Repeat("\n", maxFuncLines) + "}\n", "func f has"},
		{"long test", checkSizes, "clock/clock_test.go", "package clock\n" + strings.Repeat("\n", maxFileLines), ""},
		{"wide interface", checkSizes, "clock/clock.go", `package clock; type T interface { A(); B(); C(); D(); E() }`, "interface T has 5"},
		{"init", checkInit, "clock/clock.go", `package clock; func init() {}`, "before main"},
		{"method called init", checkInit, "clock/clock.go", `package clock; type T struct{}; func (T) init() {}`, ""},

		{"no package comment", checkDocs, "clock/clock.go", `package clock`, "no package comment"},
		{"no comment on a function", checkDocs, "clock/clock.go", "// Package clock.\npackage clock\n\nfunc F() {}\n", "F is exported"},
		{"no comment on a method", checkDocs, "clock/clock.go", "// Package clock.\npackage clock\n\n// T is.\ntype T[K any] struct{}\n\nfunc (t *T[K]) F() {}\n", "F is exported"},
		{"well-known method", checkDocs, "clock/clock.go", "// Package clock.\npackage clock\n\n// T is.\ntype T struct{}\n\nfunc (T) Error() string { return \"\" }\n", ""},
		{"method of a private type", checkDocs, "clock/clock.go", "// Package clock.\npackage clock\n\ntype t struct{}\n\nfunc (t) F() {}\n", ""},
		{"comment on a group", checkDocs, "clock/clock.go", "// Package clock.\npackage clock\n\n// Some.\nconst (\n\tA = 1\n\tB = 2\n)\n", ""},
		{"no comment on a constant", checkDocs, "clock/clock.go", "// Package clock.\npackage clock\n\nconst (\n\tA = 1\n)\n", "A is exported"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			bad := tt.check(plant(t, tt.file, tt.text))
			switch {
			case tt.want == "" && len(bad) > 0:
				t.Errorf("found %q in what is right", bad)
			case tt.want != "" && (len(bad) == 0 || !strings.Contains(bad[0], tt.want)):
				t.Errorf("found %q, want %q", bad, tt.want)
			}
		})
	}
}

func TestPlantedRows(t *testing.T) {
	t.Parallel()
	list := append(plant(t, "a/a.go", "package a"), plant(t, "b/b.go", "package b")...)
	bad := checkRows(list, map[string][]string{"a": {"b"}, "b": {"a"}, "gone": {}})
	if len(bad) != 3 {
		t.Errorf("found %q, want the two that import each other and the one that is gone", bad)
	}
}

func TestPlantedText(t *testing.T) {
	t.Parallel()
	adrs := map[string]bool{"0001": true}
	tests := []struct {
		file, text string
		want       int
	}{
		{"a.go", "// TODO: later", 1},
		{"a.go", "// TODO(0001): later", 0},
		{"a.go", "// TODO(0099): later", 1},
		{"a.go", "// FIXME", 1},
		{"a.go", "// TODOS are not one", 0},
		{"a.md", "A TODO in prose is fine.", 0},
		{"a.sh", "cd /home/someone/spillway", 1},
		{"a.go", `const p = "/root/x"`, 1},
		{"a.md", "see https://example.org/home/x and $HOME/x", 0},
		{"a.go", "// docs/adr/0001 says so; ADR 0001 too", 0},
		{"a.go", "// docs/adr/0042 says so", 1},
	}
	for i, tt := range tests {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			if bad := checkText(tt.file, tt.text, adrs); len(bad) != tt.want {
				t.Errorf("%q: found %q, want %d", tt.text, bad, tt.want)
			}
		})
	}
	links := relativeLinks("[a](x.md) [b](y.md#part) [c](https://example.org/z.md) [d](#here)")
	if len(links) != 2 || links[0] != "x.md" || links[1] != "y.md" {
		t.Errorf("relative links are %q, want x.md and y.md", links)
	}
}
