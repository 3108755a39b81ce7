//go:build linux

package calibrate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/control"
	"spillway/internal/frames"
	"spillway/profiles"
	"spillway/servers"
	"spillway/servers/dataframe"
	"spillway/servers/synthetic"
)

// TestFit: from points that follow a law, the table has its figures.
func TestFit(t *testing.T) {
	t.Parallel()
	var points []CostPoint
	for _, size := range []int64{100, 1 << 10, 16 << 10, 256 << 10, 1 << 20} {
		hot := 5*time.Microsecond + time.Duration(size)/50 // 20 ns a kB
		points = append(points, CostPoint{Operation: "get", Size: size, Best: hot})
		if size >= 1<<10 {
			extra := time.Duration(0)
			if size >= 16<<10 {
				extra = time.Duration(float64(size) / 10) // 10 GB/s
			}
			points = append(points, CostPoint{Operation: "get", Size: size, Cold: true, Best: hot + extra})
		}
	}
	points = append(points, CostPoint{Operation: "delete", Best: 4321})
	table := Fit(costKinds[0].ops, points)
	get := table.Operations["get"]
	if get.Compute != 5*time.Microsecond || get.ComputePerKB != 20 || get.MovedPerByte != 1 || get.CachedBelow != 16<<10 {
		t.Errorf("get: %+v", get)
	}
	if at := float64(get.At); at < 9.5e9 || at > 10.6e9 {
		t.Errorf("get's values come at %g", at)
	}
	if got := table.Operations["delete"]; got != (profiles.OperationCost{Compute: 4320}) {
		t.Errorf("delete: %+v", got)
	}
	if _, ok := table.Operations["set"]; ok || table.Provenance["get.compute"] != "measured" || table.Provenance["get.moved_per_byte"] != "derived" {
		t.Errorf("%+v", table)
	}
	ct := &CostTable{Kind: "memcached", Points: points, Table: table}
	text, err := ct.File()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "costs.yaml", text)
	path := filepath.Join(t.TempDir(), "costs.yaml")
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	again, err := profiles.LoadCosts(path)
	if diff := cmp.Diff(table, again); diff != "" || err != nil {
		t.Errorf("written and read again: %v\n%s", err, diff)
	}
}

// inProcess starts a synthetic or a dataframe server here, in the place of refserver.
func inProcess(t *testing.T) func(context.Context, []string) (string, func(), error) {
	return func(ctx context.Context, args []string) (string, func(), error) {
		backend, err := backendOf(args)
		if err != nil {
			return "", nil, err
		}
		c := servers.Default()
		c.Listen, c.Loops = []string{"127.0.0.1:0"}, 1
		s, err := servers.New(backend, control.Stack{Controller: control.None{}}, c)
		if err != nil {
			return "", nil, err
		}
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		done := make(chan error, 1)
		go func() { done <- s.Serve(ctx) }()
		return s.Addrs()[0], func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}, nil
	}
}

func backendOf(args []string) (servers.Backend, error) {
	switch args[0] {
	case "synthetic":
		return synthetic.NewHost(synthetic.Config{Memory: 1 << 20, Buffer: 1 << 20})
	case "dataframe":
		shape := frames.DefaultShape()
		if _, err := fmt.Sscan(args[slices.Index(args, "--rows")+1], &shape.Rows); err != nil {
			return nil, err
		}
		f, err := frames.Generate(shape)
		if err != nil {
			return nil, err
		}
		return dataframe.New(dataframe.Config{Frame: f, Parallelism: 1})
	}
	return nil, errors.New("no such server here")
}

func TestCostsOfAServer(t *testing.T) {
	t.Parallel()
	var told []string
	table, err := Costs(t.Context(), CostConfig{Kind: "synthetic", Quick: true, Start: inProcess(t), Progress: func(s string) { told = append(told, s) }})
	if err != nil {
		t.Fatal(err)
	}
	if got := table.Table.Operations; len(got) != 1 || got["get"].Compute <= 0 || len(table.Points) != 1 || table.Points[0].Requests == 0 {
		t.Errorf("%+v", table)
	}
	if len(told) != 1 || !strings.Contains(table.Text(), "time of one core") {
		t.Errorf("%q, %q", told, table.Text())
	}
}

func TestCostsRefuses(t *testing.T) {
	t.Parallel()
	if _, err := Costs(t.Context(), CostConfig{Kind: "teapot"}); !errors.Is(err, ErrKind) || !strings.Contains(err.Error(), "memcached, rocksdb, synthetic, dataframe") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if table, err := Costs(ctx, CostConfig{Kind: "synthetic", Quick: true, Start: inProcess(t)}); table != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", table, err)
	}
	if _, err := Costs(t.Context(), CostConfig{Kind: "memcached", Quick: true, Start: inProcess(t)}); err == nil || !strings.Contains(err.Error(), "no such server") {
		t.Errorf("%v", err)
	}
}
