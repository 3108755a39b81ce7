package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"spillway/servers/rocksdb"
	"spillway/servers/servertest"
)

// kinds are the servers that speak memcached's protocol, with flags that make them small.
func kinds(t *testing.T) map[string]string {
	t.Helper()
	list := map[string]string{
		"memcached": "", "synthetic": "--stream-buffer 1MiB", "graph": "--vertices 100", "dataframe": "--rows 100", "mailbox": "",
	}
	if rocksdb.Available() == nil {
		list["rocksdb"] = "--create --dir " + filepath.Join(t.TempDir(), "store")
	}
	return list
}

// TestKindsAgree: whoever knows one kind of server knows the flags and figures that all have in common.
func TestKindsAgree(t *testing.T) {
	t.Parallel()
	const common = "--slots 2 --queue 3 --threads 1 --max-conns 7 --control fixed --control-set limit=2 --slo 5ms --deadline 1s --metrics 127.0.0.1:0"
	for kind, flags := range kinds(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			cmd, addrs, _ := launch(t, kind, strings.Fields("--listen 127.0.0.1:0 "+flags+" "+common)...)
			c := servertest.Dial(t, strings.TrimPrefix(addrs[0], "tcp://"))
			figures := c.Stats("")
			for _, name := range []string{
				"pid", "uptime", "version", "curr_connections", "max_connections", "rejected_connections", "bytes_read", "bytes_written", "threads", "rusage_user",
				"cmd_get", "cmd_set", "get_hits", "get_misses", "delete_hits", "delete_misses",
			} {
				if figures[name] == "" {
					t.Errorf("stats have no %s", name)
				}
			}
			if figures["max_connections"] != "7" || figures["threads"] != "1" {
				t.Errorf("%s connections at most, %s threads", figures["max_connections"], figures["threads"])
			}
			control := c.Stats("spillway")
			for _, name := range []string{"arrivals", "started", "finished", "failed", "in_service", "queued", "shed_limit", "shed_memory", "queue_delay_us", "meter_limit"} {
				if control[name] == "" {
					t.Errorf("stats spillway have no %s", name)
				}
			}
			if control["control"] != "fixed" {
				t.Errorf("stats spillway name the controller %q", control["control"])
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
			_ = cmd.Wait()
		})
	}
}

// TestKindsRefuseAlike: a mistake in a flag that all have is told in the same words by all, with exit code 2 and nothing started.
func TestKindsRefuseAlike(t *testing.T) {
	t.Parallel()
	for _, wrong := range []string{
		"--control none-such", "--control fixed --control-set limt=2", "--slots -2", "--queue -1", "--slo -1ms", "--max-conns 0", "--time-scale 10", "--machine none-such",
		"--no-such-flag", "--listen",
	} {
		said := map[string][]string{}
		for kind, flags := range kinds(t) {
			var out, errs bytes.Buffer
			code := run(append([]string{kind}, strings.Fields("--listen 127.0.0.1:0 "+flags+" "+wrong)...), &out, &errs)
			text := fmt.Sprintf("exit code %d: %s", code, strings.ReplaceAll(errs.String(), "refserver "+kind, "refserver KIND"))
			said[text] = append(said[text], kind)
			if code != 2 {
				t.Errorf("%s %s: exit code %d, %s", kind, wrong, code, errs.String())
			}
		}
		if len(said) > 1 {
			t.Errorf("%s is told differently: %q", wrong, said)
		}
	}
}
