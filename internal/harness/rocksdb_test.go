//go:build linux

package harness

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestRocksDBSettings: they become flags of the server, and a wrong one is refused with its place before anything is started.
func TestRocksDBSettings(t *testing.T) {
	t.Parallel()
	p := shippedProfile(t, "quickstart-rocksdb", "server.settings={preset: paper, mmap: false, workers: 3, dir: /data/store, large: 200kB, bloom: 0}")
	got, err := serverFlags(p)
	want := []string{"--bloom", "0", "--large", "200kB", "--mmap=false", "--preset", "paper", "--workers", "3"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("flags %v, %v; want %v", got, err, want)
	}
	for setting, want := range map[string]string{
		"workers: -1": `"-1" is not a whole number`, "workers: many": "many", "mmap: perhaps": "perhaps", "bloom: x": "x", "open_files: x": "x",
		"reply: some": "full or header", "compresion: lz4": `did you mean "compression"`, "max_item: 1B": "is not between",
	} {
		p := shippedProfile(t, "quickstart-rocksdb", "server.settings={"+setting+"}")
		err := refuse(p)
		if err == nil {
			_, err = serverFlags(p)
		}
		if !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", setting, err)
		}
	}
}

// TestRocksDBIsLoadedWith: what the workload reads becomes arguments of the server, unless the store is to begin empty.
func TestRocksDBIsLoadedWith(t *testing.T) {
	t.Parallel()
	for classes, want := range map[string][]string{
		"[{name: small, share: 0.8, key: skey-, keys: 100, value: 'uniform:5B..1000B'}, {name: large, share: 0.2, key_size: 12, keys: 5, value: 1MB}]": {
			"--load", "keys=100,prefix=skey-,value=uniform:5B..1000B", "--load", "keys=5,prefix=large-,size=12,value=1MB",
		},
		"[{name: get, share: 0.5, key: k, keys: 10, value: 9B}, {name: set, share: 0.5, key: k, keys: 20, value: 9B, op: set}]": {
			"--load", "keys=20,prefix=k,value=9B",
		},
		"[{name: get, share: 1, key: k, keys: 10, value: 9B, write_back: fill}, {name: fill, share: 0, key: k, keys: 10, value: 9B, op: set}]": nil,
		"[{name: get, share: 1, key: k, keys: 10, value: 9B, expire: 10s}]":                                                                    nil,
	} {
		got, items, err := loadable(shippedProfile(t, "quickstart-rocksdb", "workload.classes="+classes))
		if err != nil || !slices.Equal(got, want) || (items == 0) != (want == nil) {
			t.Errorf("%s: %v, %d items, %v", classes, got, items, err)
		}
	}
}

// TestRocksDBDirectoryOfItsOwn: data and options of the files decide which directory it is, and nothing else.
func TestRocksDBDirectoryOfItsOwn(t *testing.T) {
	t.Parallel()
	dir := func(replica int, set ...string) string {
		p := shippedProfile(t, "quickstart-rocksdb", set...)
		load, _, err := loadable(p)
		if err != nil {
			t.Fatal(err)
		}
		return (&host{profile: p}).storeDir(load, replica)
	}
	base := dir(0)
	for _, same := range []string{dir(0, "server.settings.workers=7"), dir(0, "seed=9"), dir(0, "workload.classes.0.share=0.5", "workload.classes.1.share=0.5")} {
		if same != base {
			t.Errorf("%s is not %s", same, base)
		}
	}
	for _, other := range []string{dir(1), dir(0, "server.settings.compression=lz4"), dir(0, "workload.classes.1.keys=201")} {
		if other == base {
			t.Errorf("%s is that of something else", other)
		}
	}
}
