//go:build linux

package levels

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tree writes files below a new folder.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const statusText = "Name:\tserver\nVmPeak:\t 1226748 kB\nVmSize:\t 1226700 kB\nVmRSS:\t   14336 kB\nThreads:\t8\n"

func TestParseStatus(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]float64{"VmRSS": 14336 * 1024, "VmSize": 1226700 * 1024} {
		if got, err := parseStatus([]byte(statusText), key); err != nil || got != want {
			t.Errorf("%s is %v, %v; want %v", key, got, err, want)
		}
	}
	for _, key := range []string{"VmSwap", "Threads", "Vm"} {
		if got, err := parseStatus([]byte(statusText), key); err == nil {
			t.Errorf("%s is %v, want an error", key, got)
		}
	}
}

func TestParsePressure(t *testing.T) {
	t.Parallel()
	text := "some avg10=12.34 avg60=3.00 avg300=0.50 total=123456\nfull avg10=1.00 avg60=0.00 avg300=0.00 total=99\n"
	if got, err := parsePressure([]byte(text)); err != nil || got != 0.1234 {
		t.Errorf("%v, %v; want 0.1234", got, err)
	}
	for _, wrong := range []string{"", "full avg10=1.00\n", "some total=3\n", "some avg10=x\n"} {
		if got, err := parsePressure([]byte(wrong)); err == nil {
			t.Errorf("%q: %v, want an error", wrong, got)
		}
	}
}

func TestGroups(t *testing.T) {
	t.Parallel()
	const v1 = "12:pids:/x\n4:memory:/box/one\n1:cpu,cpuacct:/box/one\n0::/\n"
	for name, c := range map[string]struct {
		files       map[string]string
		used, limit int64
		cpus        float64
		limitError  string
		cpuError    string
	}{
		"version 2": {
			files: map[string]string{
				"proc/self/cgroup": "0::/app.slice/server.service\n", "cg/app.slice/server.service/memory.current": "104857600\n",
				"cg/app.slice/server.service/memory.stat": "anon 90000000\nfile 14000000\ninactive_file 4857600\nactive_file 9142400\n",
				"cg/app.slice/server.service/memory.max":  "419430400\n", "cg/app.slice/server.service/cpu.max": "150000 100000\n",
			},
			used: 100_000_000, limit: 419430400, cpus: 1.5,
		},
		"version 2 without limits, seen from within": {
			files: map[string]string{
				"proc/self/cgroup": "0::/../../kubepods/pod7\n", "cg/memory.current": "4096\n", "cg/memory.stat": "inactive_file 8192\n",
				"cg/memory.max": "max\n", "cg/cpu.max": "max 100000\n",
			},
			limitError: "has no memory limit", cpuError: "no limit",
		},
		"version 1": {
			files: map[string]string{
				"proc/self/cgroup": v1, "cg/memory/box/one/memory.usage_in_bytes": "3510272\n",
				"cg/memory/box/one/memory.stat":           "cache 1000\ninactive_file 5\ntotal_inactive_file 10272\n",
				"cg/memory/box/one/memory.limit_in_bytes": "209715200\n", "cg/cpu,cpuacct/box/one/cpu.cfs_quota_us": "50000\n",
				"cg/cpu,cpuacct/box/one/cpu.cfs_period_us": "100000\n",
			},
			used: 3_500_000, limit: 209715200, cpus: 0.5,
		},
		"version 1 without limits": {
			files: map[string]string{
				"proc/self/cgroup": v1, "cg/memory/memory.usage_in_bytes": "5000\n", "cg/memory/memory.stat": "total_inactive_file 1000\n",
				"cg/memory/memory.limit_in_bytes": "9223372036854771712\n", "cg/cpu/cpu.cfs_quota_us": "-1\n", "cg/cpu/cpu.cfs_period_us": "100000\n",
			},
			used: 4000, limitError: "has no memory limit", cpuError: "no limit",
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := tree(t, c.files)
			g, err := OwnGroup(filepath.Join(root, "proc"), filepath.Join(root, "cg"))
			if err != nil {
				t.Fatal(err)
			}
			if used, err := g.Used(); err != nil || used != c.used {
				t.Errorf("used %d, %v; want %d", used, err, c.used)
			}
			same := func(what string, got, want any, err error, wrong string) {
				if wrong == "" && (err != nil || got != want) || wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)) {
					t.Errorf("%s %v, %v; want %v, %q", what, got, err, want, wrong)
				}
			}
			limit, err := g.Limit()
			same("limit", limit, c.limit, err, c.limitError)
			cpus, err := g.CPUs()
			same("processors", cpus, c.cpus, err, c.cpuError)
		})
	}
}

func TestGroupsThatAreNot(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "in none", "3:cpu:/\n": "in none", "0::/\n": "memory.current: no such file", "4:memory:/\n": "memory.usage_in_bytes: no such file", "nonsense": "in none",
	} {
		root := tree(t, map[string]string{"proc/self/cgroup": text})
		if _, err := OwnGroup(filepath.Join(root, "proc"), filepath.Join(root, "cg")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want something about %q", text, err, want)
		}
	}
}

// TestHere reads this very process: what there is must be plausible, and what there is not must say so.
func TestHere(t *testing.T) {
	t.Parallel()
	files, err := Files(0)
	if err != nil {
		t.Fatal(err)
	}
	list := []Level{RSS(1 << 40), Heap(1 << 40), files, CPU(1)}
	for _, make := range []func() (Level, error){
		func() (Level, error) { return Cgroup(1 << 40) }, func() (Level, error) { return Pressure(0.5) }, func() (Level, error) { return Address(1 << 50) },
	} {
		if l, err := make(); err == nil {
			list = append(list, l)
		} else {
			t.Log(err)
		}
	}
	r, err := New(time.Hour, list...)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, l := range r.Levels() {
		if !(l.Used >= 0 && l.Used < 1) {
			t.Errorf("level %s is at %g of a limit that it cannot have reached", l.Name, l.Used)
		}
		if (l.Name == "rss" || l.Name == "files" || l.Name == "address") && l.Used == 0 {
			t.Errorf("level %s is at 0", l.Name)
		}
	}
}

func TestNewSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	read := func() (float64, error) { return 1, nil }
	_, err := New(time.Second, Level{Name: "a", Limit: 1, Read: read}, Level{Name: "a", Limit: 1, Read: read}, Level{Name: "b", Read: read},
		Level{Name: "c", Limit: 1}, Level{Name: "d", Limit: 1, Read: func() (float64, error) { return 0, errors.New("no such thing") }},
		Pool("e", func() (int, int) { return 3, 0 }))
	for _, want := range []string{"level a: stands there twice", "level b: its limit is 0", "level c: a level has", "level d: no such thing", "level e: the pool has no size"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to say %q", err, want)
		}
	}
	if _, err := New(0); err == nil {
		t.Error("no time between two readings: accepted")
	}
}

// TestReaderKeepsWhatItReadLast: readings come from the background, and one that fails leaves the last one standing.
func TestReaderKeepsWhatItReadLast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var used atomic.Int64 // it is read in the background; below 0 for an error
		used.Store(1)
		read := func() (float64, error) {
			if n := used.Load(); n >= 0 {
				return float64(n), nil
			}
			return 9, errors.New("gone")
		}
		r, err := New(time.Second, Level{Name: "x", Limit: 4, Read: read}, Pool("p", func() (int, int) { return 3, 4 }))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		before := r.Levels()
		pass := func() {
			<-time.After(time.Second)
			synctest.Wait()
		}
		used.Store(2)
		pass()
		used.Store(-1)
		pass()
		if got := r.Signals().Levels; got[0].Used != 0.5 || got[1].Used != 0.75 || r.Failed() != 1 || before[0].Used != 0.25 {
			t.Errorf("levels %v, %d failed, before %v; want 0.5 and 0.75, 1, 0.25", got, r.Failed(), before)
		}
	})
}

func TestRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		count := 100.
		rate := Rate(func() (float64, error) { return count, nil })
		for _, c := range []struct{ add, want float64 }{{0, 0}, {10, 5}, {0, 0}, {-50, 0}} {
			count += c.add
			if got, err := rate(); err != nil || got != c.want {
				t.Errorf("after %g more: %g a second, %v; want %g", c.add, got, err, c.want)
			}
			<-time.After(2 * time.Second)
		}
	})
}
