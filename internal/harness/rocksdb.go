//go:build linux

package harness

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"spillway/profiles"
	"spillway/workloads"
)

const kindRocksDB = "rocksdb"

// rocksdbFlags are the keys of server.settings of a RocksDB server. A flag that ends in = is a switch.
var rocksdbFlags = map[string]string{
	"dir": "--dir", "preset": "--preset", "reply": "--reply", "workers": "--workers", "max_item": "--max-item", "large": "--large",
	"wal": "--wal", "compression": "--compression", "compaction": "--compaction", "block_cache": "--block-cache", "block_size": "--block-size",
	"bloom": "--bloom", "write_buffer": "--write-buffer", "open_files": "--open-files", "mmap": "--mmap=", "direct_io": "--direct-io=",
	"checksums": "--checksums=", "max_conns": "--max-conns", "threads": "--threads", "slots": "--slots", "queue": "--queue",
	"deadline": "--deadline", "slo": "--slo",
}

// ofFiles are those that its files are written with: a directory that was loaded with others is another one.
var ofFiles = []string{"preset", "compression", "block_size", "bloom"}

const settingDir = "dir"

// checkRocksDB judges one value of server.settings that only a RocksDB server has.
func checkRocksDB(key, text string) (err error) {
	switch key {
	case "workers":
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil || n > 1024 {
			return fmt.Errorf("%q is not a whole number from 0 to 1024", text)
		}
	case "mmap", "direct_io", "checksums":
		_, err = strconv.ParseBool(text)
	case "bloom":
		_, err = strconv.ParseFloat(text, 64)
	case "open_files":
		_, err = strconv.Atoi(text)
	}
	if err != nil {
		return fmt.Errorf("%q: %w", text, errors.Unwrap(err))
	}
	return nil
}

// loadable returns what a RocksDB server is to be loaded with, as its flag has it, and how many items that is. There is nothing where the
// workload wants a store that begins anew at each point: one that is filled by misses, or whose items expire.
func loadable(p *profiles.Profile) (flags []string, items int64, err error) {
	if p.Workload.Kind == kindReplay {
		return nil, 0, nil // it deletes and overwrites
	}
	classes, err := p.Workload.KVClasses()
	if err != nil {
		return nil, 0, err
	}
	kv, err := workloads.NewKV(classes)
	if err != nil {
		return nil, 0, err
	}
	for i, n := range kv.Stored() {
		c, k := &p.Workload.Classes[i], &classes[i]
		switch {
		case k.WriteBack != "" || k.Expire > 0:
			return nil, 0, nil
		case n == 0:
			continue
		}
		prefix := k.KeyPrefix
		if prefix == "" {
			prefix = k.Name + "-"
		}
		text := fmt.Sprintf("keys=%d,prefix=%s,", n, prefix)
		switch {
		case k.KeySize != 0:
			text += fmt.Sprintf("size=%d,", k.KeySize)
		case k.KeySizes != nil:
			text += "sizes=" + c.KeySize + ","
		}
		flags = append(flags, "--load", text+"value="+c.Value)
		items += int64(n)
	}
	return flags, items, nil
}

// prepareStores sees to it that each replica of a RocksDB server has a directory with what the workload reads, which does not go over the
// protocol: RocksDB takes it in bulk, and a directory that has it already is used again.
func (h *host) prepareStores(ctx context.Context, s *server, observe func(string)) error {
	p := h.profile
	if p.Server.Kind != kindRocksDB {
		return nil
	}
	load, items, err := loadable(p)
	if err != nil {
		return err
	}
	given := p.Server.Settings[settingDir]
	switch {
	case h.config.NoPreload && given != "":
		load = nil // it is used as it is
	case h.config.NoPreload || load == nil:
		load = nil
		if given != "" {
			return mistake(p, "server.settings.dir", "server.settings.dir: this workload needs a store that is empty at each point; leave the directory out")
		}
	}
	for i := range h.replicas() {
		dir := given
		switch {
		case given != "" && h.replicas() > 1:
			dir = filepath.Join(given, strconv.Itoa(i))
		case given == "" && load == nil:
			if dir, err = os.MkdirTemp("", "spillway-rocksdb-"); err != nil {
				return fmt.Errorf("a directory for the store: %w", err)
			}
			s.folders = append(s.folders, dir)
		case given == "":
			dir = h.storeDir(load, i)
		}
		extra := append([]string{"--dir", dir}, load...)
		if load == nil {
			extra = append(extra, "--create")
		} else if err := h.loadStore(ctx, extra, observe); err != nil {
			return err
		}
		s.extra = append(s.extra, extra)
	}
	if load != nil {
		s.loaded, s.stored = true, items
	}
	return nil
}

// storeDir returns where a store is kept between runs: a folder that is named by all that its files depend on.
func (h *host) storeDir(load []string, replica int) string {
	text := strings.Join(load, "\n")
	for _, key := range ofFiles {
		text += "\n" + key + "=" + h.profile.Server.Settings[key]
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	name := sha256.Sum256([]byte(text))
	return filepath.Join(cache, "spillway", fmt.Sprintf("rocksdb-%x-%d", name[:6], replica))
}

// loadStore has refserver load a directory and waits for it, however long it takes: it says how far it is.
func (h *host) loadStore(ctx context.Context, extra []string, observe func(string)) error {
	observe("loading")
	args := append([]string{kindRocksDB}, extra...)
	for _, key := range slices.Concat(ofFiles, []string{"mmap", "direct_io", "compaction", "wal", "write_buffer", "max_item"}) {
		if text, given := h.profile.Server.Settings[key]; given {
			args = append(args, settingArgs(rocksdbFlags[key], text)...)
		}
	}
	c := exec.CommandContext(ctx, h.binary, append(args, "--load-only")...)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) } // it keeps what it has stored so far
	c.WaitDelay = stopDeadline
	told := &lines{tell: func(line string) { observe(strings.TrimPrefix(line, serverName+": ")) }}
	c.Stderr = told
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err := c.Run()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("loading the store: %w: %s", err, strings.TrimPrefix(told.last, serverName+": "))
	}
	return nil
}

// settingArgs returns the arguments for a flag as tables of settings have it.
func settingArgs(flag, text string) []string {
	if strings.HasSuffix(flag, "=") {
		return []string{flag + text}
	}
	return []string{flag, text}
}

// lines is a writer that hands on whole lines as they come, and keeps the last one.
type lines struct {
	tell func(string)
	text []byte
	last string
}

// Write implements io.Writer. It never fails.
func (l *lines) Write(b []byte) (int, error) {
	l.text = append(l.text, b...)
	for {
		line, rest, found := bytes.Cut(l.text, []byte("\n"))
		if !found {
			if len(l.text) > lastWords {
				l.text = l.text[:0]
			}
			return len(b), nil
		}
		l.last = string(line)
		l.tell(l.last)
		l.text = append(l.text[:0], rest...)
	}
}
