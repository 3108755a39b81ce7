//go:build linux && cgo && !norocksdb

package rocksdb

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/linxGnu/grocksdb"

	"spillway/internal/memproto"
)

// filled returns the configuration of a closed store with some values in files.
func filled(t *testing.T) Config {
	t.Helper()
	config := testConfig(t)
	if _, err := loadInto(t, config, testSet()); err != nil {
		t.Fatal(err)
	}
	config.Create = false
	return config
}

func glob(t *testing.T, dir, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no %s in %s (%v)", pattern, dir, err)
	}
	return files[0]
}

// TestDirectoriesThatCannotBeUsed: each is refused with what is wrong and what helps, and is left as it was.
func TestDirectoriesThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		prepare func(t *testing.T) Config
		want    string
	}{
		"missing": {func(t *testing.T) Config {
			c := testConfig(t)
			c.Dir, c.Create = filepath.Join(c.Dir, "none"), false
			return c
		}, "does not exist: --create makes an empty store, --load fills one"},
		"empty": {func(t *testing.T) Config {
			c := testConfig(t)
			c.Create = false
			return c
		}, "is empty: --create makes"},
		"a file": {func(t *testing.T) Config {
			c := testConfig(t)
			c.Dir = filepath.Join(c.Dir, "file")
			if err := os.WriteFile(c.Dir, nil, 0o666); err != nil {
				t.Fatal(err)
			}
			return c
		}, "is no directory"},
		"something else": {func(t *testing.T) Config {
			c := testConfig(t)
			if err := os.WriteFile(filepath.Join(c.Dir, "letter.txt"), nil, 0o666); err != nil {
				t.Fatal(err)
			}
			return c
		}, "is not empty and holds no store"},
		"another program's": {func(t *testing.T) Config {
			c := testConfig(t)
			o := grocksdb.NewDefaultOptions()
			defer o.Destroy()
			o.SetCreateIfMissing(true)
			db, err := grocksdb.OpenDb(o, c.Dir)
			if err != nil {
				t.Fatal(err)
			}
			db.Close()
			return c
		}, "of another program"},
		"without CURRENT": {func(t *testing.T) Config {
			c := filled(t)
			if err := os.Remove(filepath.Join(c.Dir, "CURRENT")); err != nil {
				t.Fatal(err)
			}
			c.Create = true // all the same nothing new is made of it
			return c
		}, "is damaged"},
		"without its manifest": {func(t *testing.T) Config {
			c := filled(t)
			if err := os.Remove(glob(t, c.Dir, "MANIFEST-*")); err != nil {
				t.Fatal(err)
			}
			return c
		}, "is damaged"},
		"a manifest overwritten": {func(t *testing.T) Config {
			c := filled(t)
			if err := os.WriteFile(glob(t, c.Dir, "MANIFEST-*"), bytes.Repeat([]byte{0xa5}, 500), 0o666); err != nil {
				t.Fatal(err)
			}
			return c
		}, "is damaged"},
		"without a table": {func(t *testing.T) Config {
			c := filled(t)
			if err := os.Remove(glob(t, c.Dir, "*.sst")); err != nil {
				t.Fatal(err)
			}
			return c
		}, "is damaged"},
		"a table cut short": {func(t *testing.T) Config {
			c := filled(t)
			if err := os.Truncate(glob(t, c.Dir, "*.sst"), 1000); err != nil {
				t.Fatal(err)
			}
			return c
		}, "is damaged"},
		"in use": {func(t *testing.T) Config {
			c := filled(t)
			b := openBackend(t, c)
			t.Cleanup(func() { _ = b.Close() })
			return c
		}, "in use by another process"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := tc.prepare(t)
			b, err := Open(c)
			if err == nil {
				_ = b.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), c.Dir) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestDamagedBlock: a read of what the disk has changed is an error, and what is whole is still read.
func TestDamagedBlock(t *testing.T) {
	t.Parallel()
	config := filled(t)
	path := glob(t, config.Dir, "*.sst")
	table, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := len(table) / 4 // of the large values, which come first
	table[at] ^= 1
	if err := os.WriteFile(path, table, 0o666); err != nil {
		t.Fatal(err)
	}
	d := newDirect(t, config)
	wrong, right := 0, 0
	for i := range 20 {
		switch got := d.do(fmt.Sprintf("get l-%06d\r\n", i)); {
		case strings.HasPrefix(got, "SERVER_ERROR reading: Corruption"):
			wrong++
		case strings.HasPrefix(got, "VALUE l-"):
			right++
		default:
			t.Errorf("%.100q", got)
		}
	}
	if wrong != 1 || right != 19 {
		t.Errorf("%d are damaged and %d are whole", wrong, right)
	}
}

// smallDisk puts a disk of 24 MB of our own at dir until the test ends.
func smallDisk(t *testing.T, dir string) {
	t.Helper()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=24m"); err != nil {
		t.Skipf("a small disk of our own cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
}

// TestFullDisk: writes to a full disk are refused, reads go on, and what was acknowledged is there when the store is opened again.
func TestFullDisk(t *testing.T) {
	config := testConfig(t)
	smallDisk(t, config.Dir)
	config.WriteBuffer = 1 << 20
	value := strings.Repeat("0123456789", 50_000)
	d := &direct{Backend: openBackend(t, config), t: t}
	d.p.MaxItem = config.ItemLimit()
	acknowledged, refused := 0, 0
	for i := 0; refused < 3 && i < 200; i++ {
		switch got := d.do(fmt.Sprintf("set k%d 0 0 %d\r\n%s\r\n", i, len(value), value)); {
		case got == "STORED\r\n" && refused == 0:
			acknowledged++
		case strings.HasPrefix(got, "SERVER_ERROR"):
			if refused++; !strings.Contains(got, "the disk is full: free some of it") {
				t.Errorf("%q", got)
			}
		case got != "STORED\r\n":
			t.Fatalf("%q", got)
		}
	}
	if refused == 0 || acknowledged < 5 {
		t.Fatalf("%d values were stored on the disk, and %d refused", acknowledged, refused)
	}
	d.want("get k0\r\n", valueReply("k0", value))
	if _, err := d.Load(t.Context(), Published(100_000, 5), nil); err == nil {
		t.Error("loaded")
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	// A second line there after the disk was full would have ended the process.
	log, err := os.ReadFile(filepath.Join(config.Dir, "LOG"))
	if err != nil || bytes.Contains(log, []byte("[WARN]")) || bytes.Contains(log, []byte("[ERROR]")) {
		t.Errorf("RocksDB has written of errors into its log (%v): %s", err, log)
	}

	if err := syscall.Mount("none", config.Dir, "tmpfs", syscall.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	d.Backend = openBackend(t, config)
	defer d.Close()
	for i := range acknowledged {
		d.want(fmt.Sprintf("get k%d\r\n", i), valueReply(fmt.Sprintf("k%d", i), value))
	}
	d.want("set more 0 0 1\r\nx\r\n", "STORED\r\n")

	empty := config
	empty.Dir = filepath.Join(config.Dir, "second")
	b := openBackend(t, empty)
	defer b.Close()
	if _, err := b.Load(t.Context(), Published(100_000, 5), nil); err == nil || !strings.Contains(err.Error(), "free and this takes about") {
		t.Errorf("more than the disk has room for: %v", err)
	}
}

// TestFullDiskWithoutALog: a store that loses what was written to it when it ends says so.
func TestFullDiskWithoutALog(t *testing.T) {
	config := testConfig(t)
	smallDisk(t, config.Dir)
	config.WAL, config.WriteBuffer = WALOff, 1<<20
	value := strings.Repeat("0123456789", 50_000)
	d := &direct{Backend: openBackend(t, config), t: t}
	d.p.MaxItem = config.ItemLimit()
	refused := ""
	for i := 0; refused == "" && i < 200; i++ {
		if got := d.do(fmt.Sprintf("set k%d 0 0 %d\r\n%s\r\n", i, len(value), value)); got != "STORED\r\n" {
			refused = got
		}
	}
	if !strings.Contains(refused, "the disk is full: free some of it") || strings.Contains(refused, "what was acknowledged is kept") {
		t.Errorf("%q", refused)
	}
	if err := d.Close(); err == nil || !strings.Contains(err.Error(), "is lost, for there is no log of it") {
		t.Errorf("it ended with %v", err)
	}

	d.Backend = openBackend(t, config)
	if err := d.Close(); err != nil { // nobody wrote
		t.Error(err)
	}
}

// TestMakingWasBrokenOff: a directory in which the making of a store was broken off, by a kill or by a full disk, is one in which a store can be made. Nothing is
// done to one that is only like that.
func TestMakingWasBrokenOff(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(t *testing.T, c *Config){
		"at once": func(*testing.T, *Config) {},
		"without CURRENT": func(t *testing.T, c *Config) {
			if err := os.WriteFile(filepath.Join(c.Dir, "MANIFEST-000001"), nil, 0o666); err != nil {
				t.Fatal(err)
			}
		},
		"before it was marked as ours": func(t *testing.T, c *Config) {
			h := newHandles(c)
			defer h.close()
			var err error
			if h.db, err = grocksdb.OpenDb(h.options, c.Dir); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := testConfig(t)
			leave(t, &config)
			marker := filepath.Join(config.Dir, unfinishedName)
			if err := os.WriteFile(marker, nil, 0o666); err != nil {
				t.Fatal(err)
			}
			config.Create = false
			if _, err := Open(config); err == nil || !strings.Contains(err.Error(), "is empty: --create makes an empty store in it") {
				t.Errorf("%v", err)
			}
			config.Create = true
			for i := range 2 {
				d := &direct{Backend: openBackend(t, config), t: t, p: memproto.Parser{MaxItem: config.ItemLimit()}}
				d.want("get k\r\n", map[int]string{0: "END\r\n", 1: valueReply("k", "x")}[i])
				d.want("set k 0 0 1\r\nx\r\n", "STORED\r\n")
				if err := d.Close(); err != nil {
					t.Fatal(err)
				}
				if _, err := os.Stat(marker); err == nil {
					t.Error("the mark of an unfinished store is still there")
				}
			}
		})
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Config){
		"give one with --dir":          func(c *Config) { c.Dir = "" },
		"no zero bytes":                func(c *Config) { c.Dir = "/a\x00b" },
		"0 workers":                    func(c *Config) { c.Workers = 0 },
		"9999 workers":                 func(c *Config) { c.Workers = 9999 },
		"from 1 KiB to 128 MiB":        func(c *Config) { c.MaxItem = 1 },
		"0 for none, or from 16 KiB":   func(c *Config) { c.Large = 100 },
		"wal \"maybe\": it is off, on": func(c *Config) { c.WAL = "maybe" },
		"compression \"brotli\"":       func(c *Config) { c.Compression = "brotli" },
		"compaction \"never\"":         func(c *Config) { c.Compaction = "never" },
		"a block cache of -1":          func(c *Config) { c.BlockCache = -1 },
		"blocks of 1 bytes":            func(c *Config) { c.BlockSize = 1 },
		"a bloom filter of NaN":        func(c *Config) { c.Bloom = math.NaN() },
		"a write buffer of 0":          func(c *Config) { c.WriteBuffer = 0 },
		"3 open files":                 func(c *Config) { c.OpenFiles = 3 },
		"exclude each other":           func(c *Config) { c.DirectIO, c.MmapReads = true, true },
	} {
		c := Default()
		c.Dir = "store"
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		change(&c)
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want something about %q", err, want)
		}
		if _, err := Open(c); err == nil {
			t.Errorf("%q: opened all the same", want)
		}
	}
	for _, name := range Presets() {
		o, err := Preset(name)
		if err != nil || o.check() != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Preset("fast"); err == nil || !strings.Contains(err.Error(), "default, paper") {
		t.Errorf("%v", err)
	}
}

// TestEveryOptionWorks: a store can be written, read, and opened again with each of them.
func TestEveryOptionWorks(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config){
		"paper":     func(c *Config) { c.Options = PaperOptions() },
		"sync":      func(c *Config) { c.WAL = WALSync },
		"snappy":    func(c *Config) { c.Compression = "snappy" },
		"lz4":       func(c *Config) { c.Compression = "lz4" },
		"zstd":      func(c *Config) { c.Compression = "zstd" },
		"universal": func(c *Config) { c.Compaction = CompactionUniversal },
		"bare":      func(c *Config) { c.BlockCache, c.Bloom, c.Checksums, c.Large = 0, 0, false, 0 },
		"files":     func(c *Config) { c.OpenFiles = 16 },
		"direct":    func(c *Config) { c.DirectIO = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := testConfig(t)
			change(&config)
			if _, err := loadInto(t, config, testSet()); err != nil {
				if name == "direct" && strings.Contains(err.Error(), "Invalid argument") {
					t.Skipf("the file system of the test does not know direct I/O: %v", err)
				}
				t.Fatal(err)
			}
			d := newDirect(t, config)
			d.want("set k 0 0 1\r\nx\r\nget k\r\nget scan:1:k*\r\n", "STORED\r\n"+valueReply("k", "x")+valueReply("scan:1:k*", "k 0 1\nx\n"))
			if done, err := d.Load(t.Context(), testSet(), nil); err != nil || done.Items != 2020 || done.Repaired != 0 {
				t.Errorf("%+v, %v", done, err)
			}
		})
	}
}
