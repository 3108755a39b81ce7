package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/internal/memproto"
	"spillway/machine"
)

// TestSynthetic: on this computer and on a modelled machine, the same request gets the same reply.
func TestSynthetic(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"host":  {"--stream-buffer", "1MiB", "--memory", "1MiB", "-t", "2"},
		"model": {"--machine", "laptop", "--time-scale", "10", "--control", "codel", "--slo", "1ms"},
	} {
		cmd, addrs, stderr := launch(t, "synthetic", append(args, "--listen", "127.0.0.1:0")...)
		talk(t, addrs[0], "mg c1us,s1000,l0:1us,d1us,m10 O1\r\nget c1us\r\n", "HD O1\r\nVALUE c1us 0 0\r\n\r\nEND\r\n")
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		said, _ := io.ReadAll(stderr)
		if err := cmd.Wait(); err != nil || len(said) > 0 {
			t.Errorf("%s: %v, stderr %q", name, err, said)
		}
	}
}

// TestDeathOfAModelledMachine: the process ends with exit code 1 and says why.
func TestDeathOfAModelledMachine(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "small.yaml")
	if err := os.WriteFile(file, []byte("cores: 1\nnetwork: 1us\nram: 1000B\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd, addrs, stderr := launch(t, "synthetic", "--machine", file, "--time-scale", "1", "--listen", "127.0.0.1:0")
	talk(t, addrs[0], "mg m1001\r\n", "")
	said, _ := io.ReadAll(stderr)
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != exitFailed || !strings.Contains(string(said), "the modelled machine ran out of memory and died") {
		t.Errorf("%v, stderr %q", err, said)
	}
}

// TestMemcachedOnAMachine: values are stored and read for real, at the cost that the table says.
func TestMemcachedOnAMachine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	hardware, costs := filepath.Join(dir, "m.yaml"), filepath.Join(dir, "c.yaml")
	for file, text := range map[string]string{
		hardware: "cores: 1\nnetwork: 0us\nbus: {total: 1GB, per_core: 1GB}\n",
		costs:    "operations:\n  get: {compute: 7us, moved_per_byte: 1}\n  set: {compute: 9us, moved_per_byte: 2}\n  delete: {compute: 3us}\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd, addrs, _ := launch(t, "memcached", "--machine", hardware, "--costs", costs, "--time-scale", "10", "--listen", "127.0.0.1:0")
	value := strings.Repeat("v", 1000)
	talk(t, addrs[0], "ms a 1000 L\r\n"+value+"\r\nmn\r\n", "HD L0,11\r\nMN\r\n")
	talk(t, addrs[0], "mg a v L\r\nmn\r\n", "VA 1000 L0,8\r\n"+value+"\r\nMN\r\n")
	talk(t, addrs[0], "mg b v L\r\nmn\r\n", "EN L0,7\r\nMN\r\n")
	talk(t, addrs[0], "md a L\r\nmn\r\n", "HD L0,3\r\nMN\r\n")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestStoreCosts(t *testing.T) {
	t.Parallel()
	spec := machine.Spec{Cores: 1, Bus: machine.Bus{Total: 1e9, PerCore: 1e9}}
	sizes := map[string]int{"a": 4000, "b": 5000}
	c, err := loadCosts("memcached", spec, func(key []byte) int { return sizes[string(key)] })
	if err != nil {
		t.Fatal(err)
	}
	c.get.Compute, c.get.ComputePerByte, c.get.MovedPerByte, c.get.CachedBelow = 1000, 0, 1, 0
	c.set.Compute, c.set.ComputePerByte, c.set.MovedPerByte, c.set.CachedBelow = 2000, 1, 0, 0
	c.del.Compute, c.del.ComputePerByte, c.del.MovedPerByte, c.del.CachedBelow = 3000, 0, 0, 0
	compute := func(d time.Duration) machine.Step { return machine.Step{Kind: machine.Compute, Duration: d} }
	stream := func(n int64) machine.Step { return machine.Step{Kind: machine.Stream, Bytes: n} }
	for text, want := range map[string][]machine.Step{
		"get a b c\r\n":          {compute(1000), stream(4000), compute(1000), stream(5000), compute(1000)},
		"mg b s v\r\n":           {compute(1000), stream(5000)},
		"set a 0 0 3\r\nxyz\r\n": {compute(2003)},
		"ms a 0\r\n\r\n":         {compute(2000)},
		"md a\r\n":               {compute(3000)},
		"delete a\r\n":           {compute(3000)},
	} {
		var p memproto.Parser
		var cmd memproto.Command
		n, status := p.Parse([]byte(text), &cmd)
		if status == memproto.Block {
			status = cmd.SetBlock([]byte(text)[n:])
		}
		if status != memproto.Ready {
			t.Fatalf("%q: status %v", text, status)
		}
		got, err := c.Steps(nil, &cmd)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: %v (-want +got):\n%s", text, err, diff)
		}
	}
	if _, err := loadCosts("memcached", machine.Spec{Cores: 1}, nil); err == nil || !strings.Contains(err.Error(), "this machine has none") {
		t.Errorf("without a bus: %v", err)
	}
}
