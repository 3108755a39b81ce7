package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"spillway/servers/rocksdb"
)

// needsRocksDB skips a test in a build without RocksDB, having seen that the command says what to install.
func needsRocksDB(t *testing.T) {
	t.Helper()
	if rocksdb.Available() == nil {
		return
	}
	var stdout, stderr bytes.Buffer
	if code := run([]string{"rocksdb", "--dir", t.TempDir()}, &stdout, &stderr); code != 1 || !strings.Contains(stderr.String(), "install librocksdb-dev") {
		t.Errorf("exit code %d, %q", code, stderr.String())
	}
	t.Skip("this is a build without RocksDB")
}

func TestRocksDBUsage(t *testing.T) {
	t.Parallel()
	needsRocksDB(t)
	dir := t.TempDir()
	for args, want := range map[string]string{
		"":                               "the store needs a directory: give one with --dir",
		"--dir D --preset fast":          `options "fast": there are default, paper`,
		"--dir D --workers -1":           "-1 workers",
		"--dir D --wal maybe":            "wal \"maybe\"",
		"--dir D --block-cache x":        "block-cache: size",
		"--dir D --large 5":              "0 for none, or from 16 KiB",
		"--dir D --max-item 1GiB":        "from 1 KiB to 128 MiB",
		"--dir D --reply some":           "full or header",
		"--dir D --mmap --direct-io":     "exclude each other",
		"--dir D --load big":             `load "big": write paper, small, or keys=`,
		"--dir D --load-only":            "say what, with --load",
		"--dir D --scratch":              "leave out --dir",
		"--scratch --load x --load-only": "load \"x\"",
		"--dir D --time-scale 10":        "--time-scale is for a modelled machine",
		"--dir D --machine none":         "none",
		"--dir D extra":                  "unknown command",
		"--dir D --control none-such":    "unknown controller",
		"--dir D --bloom -3":             "a bloom filter of -3",
		"--dir D --write-buffer 1B":      "a write buffer of 1 bytes",
	} {
		var stdout, stderr bytes.Buffer
		code := run(append([]string{"rocksdb"}, strings.Fields(strings.ReplaceAll(args, " D", " "+dir+"/none"))...), &stdout, &stderr)
		if code != 2 || !strings.Contains(stderr.String(), want) || stdout.Len() > 0 {
			t.Errorf("%q: exit code %d, stderr %q, want something about %q", args, code, stderr.String(), want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "none")); err == nil {
		t.Error("a wrong command line has made a directory")
	}
	var stdout, stderr bytes.Buffer
	if code := run([]string{"rocksdb", "--dir", dir + "/none", "--listen", "127.0.0.1:0"}, &stdout, &stderr); code != 1 || !strings.Contains(stderr.String(), "--create makes an empty store") {
		t.Errorf("exit code %d, %q", code, stderr.String())
	}
}

// TestRocksDBSlots: by default one for each loop and two for each worker, none but what was asked for otherwise, and no bound on a modelled machine.
func TestRocksDBSlots(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]int{
		"--threads 2 --workers 3":           8,
		"--threads 1 --workers 1":           3,
		"--threads 2 --workers 3 --slots 5": 5,
		"--workers 3 --machine xl170":       0,
	} {
		f := newRocksDBFlags()
		c := f.command()
		if err := c.ParseFlags(strings.Fields(args + " --dir none --create")); err != nil {
			t.Fatal(err)
		}
		front, store, _, err := f.config(c.Flags())
		if err != nil || front.Slots != want {
			t.Errorf("%q: %d slots for %d loops and %d workers, %v; want %d", args, front.Slots, front.Loops, store.Workers, err, want)
		}
	}
}

// TestRocksDBSurvivesKill: what was acknowledged is there after the process was killed, with the log as it is by default.
func TestRocksDBSurvivesKill(t *testing.T) {
	t.Parallel()
	needsRocksDB(t)
	dir := filepath.Join(t.TempDir(), "store")
	args := []string{"--listen", "127.0.0.1:0", "--dir", dir, "--create"}
	large := strings.Repeat("0123456789", 30_000)
	for round := range 3 {
		cmd, addrs, _ := launch(t, "rocksdb", args...)
		addr := strings.TrimPrefix(addrs[0], "tcp://")
		for earlier := range round {
			talk(t, addr, fmt.Sprintf("get k%d gone%d\r\nget large%d\r\n", earlier, earlier, earlier),
				fmt.Sprintf("VALUE k%d 5 1\r\nx\r\nEND\r\nVALUE large%d 0 %d\r\n%s\r\nEND\r\n", earlier, earlier, len(large), large))
		}
		talk(t, addr, fmt.Sprintf("set gone%d 0 0 1\r\nx\r\nset k%d 5 0 1\r\nx\r\nset large%d 0 0 %d\r\n%s\r\ndelete gone%d\r\n", round, round, round, len(large), large, round),
			"STORED\r\nSTORED\r\nSTORED\r\nDELETED\r\n")
		if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
	}
}

// TestRocksDBLoadsAndServes: a loaded directory is used again, one process has it at a time, and an orderly end keeps what has no log.
func TestRocksDBLoadsAndServes(t *testing.T) {
	t.Parallel()
	needsRocksDB(t)
	dir := filepath.Join(t.TempDir(), "store")
	args := []string{"--listen", "127.0.0.1:0", "--dir", dir, "--load", "keys=500,prefix=a-,value=uniform:5B..1000B", "--preset", "paper"}
	var stdout, stderr bytes.Buffer
	if code := run(append(append([]string{"rocksdb"}, args...), "--load-only"), &stdout, &stderr); code != 0 || !strings.Contains(stderr.String(), "500 items") || stdout.Len() > 0 {
		t.Fatalf("exit code %d, %q", code, stderr.String())
	}
	cmd, addrs, words := launch(t, "rocksdb", args...)
	addr := strings.TrimPrefix(addrs[0], "tcp://")
	if line, err := words.ReadString('\n'); err != nil || !strings.Contains(line, "loaded before") {
		t.Errorf("%q, %v", line, err)
	}
	talk(t, addr, "mg a-0000000000000499\r\nmg a-0000000000000500\r\nset mine 0 0 1\r\nx\r\n", "HD\r\nEN\r\nSTORED\r\n")
	stderr.Reset()
	if code := run(append([]string{"rocksdb"}, args...), &stdout, &stderr); code != 1 || !strings.Contains(stderr.String(), "in use by another process") {
		t.Errorf("a second process: exit code %d, %q", code, stderr.String())
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	_, addrs, _ = launch(t, "rocksdb", args...)
	talk(t, strings.TrimPrefix(addrs[0], "tcp://"), "get mine\r\n", "VALUE mine 0 1\r\nx\r\nEND\r\n")
}

// TestRocksDBScratch: a temporary store goes away with its server, also on a modelled machine.
func TestRocksDBScratch(t *testing.T) {
	needsRocksDB(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	for _, more := range [][]string{nil, {"--machine", "xl170", "--time-scale", "10"}} {
		cmd, addrs, _ := launch(t, "rocksdb", append([]string{"--listen", "127.0.0.1:0", "--scratch", "--load", "keys=50,prefix=a-,value=200kB", "--reply", "header"}, more...)...)
		for text, want := range map[string]string{"mg a-0000000000000007 s v\r\n": "HD s200000\r\n", "ms b 1\r\nx\r\n": "HD\r\n", "mg c v\r\n": "EN\r\n", "md c\r\n": "NF\r\n"} {
			talk(t, strings.TrimPrefix(addrs[0], "tcp://"), text, want)
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(tmp); err != nil || len(left) != 0 {
			t.Errorf("%v, %v are left", left, err)
		}
	}
}
