//go:build linux && cgo && !norocksdb

package rocksdb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// testSet is small, and has values that are large.
func testSet() Dataset {
	return Dataset{
		{Prefix: "s-", Count: 2000, Value: "uniform:5B..1000B"},
		{Prefix: "l-", Count: 20, Size: 8, Value: "uniform:100kB..200kB"},
	}
}

// loadInto opens the store of c and loads it.
func loadInto(t *testing.T, c Config, set Dataset) (Loaded, error) {
	t.Helper()
	b := openBackend(t, c)
	done, err := b.Load(t.Context(), set, nil)
	if cerr := b.Close(); cerr != nil {
		t.Error(cerr)
	}
	return done, err
}

// TestLoad: a store has what it was loaded with, byte by byte; it is used again as it is, and after it was written to it is put in order.
func TestLoad(t *testing.T) {
	t.Parallel()
	config, set := testConfig(t), testSet()
	d := newDirect(t, config)
	var phases []string
	done, err := d.Load(t.Context(), set, func(p Progress) {
		if len(phases) == 0 || phases[len(phases)-1] != p.Phase {
			phases = append(phases, p.Phase)
		}
		if p.Done < 0 || p.Done > p.Total || p.Left > time.Hour {
			t.Errorf("%+v", p)
		}
	})
	if err != nil || done.Items != 2020 || done.Reused || done.Repaired != 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	if got := strings.Join(phases, " "); !strings.HasPrefix(got, PhaseStore) || !strings.HasSuffix(got, PhaseVerify) {
		t.Errorf("phases were %s", got)
	}
	if n := d.store.large.len(); n != 20 {
		t.Errorf("%d values are known to be large", n)
	}
	kv, err := set.workload()
	if err != nil {
		t.Fatal(err)
	}
	for op := range kv.Preload() {
		if string(op.Key) == "s-0000000000000007" || string(op.Key) == "l-000007" {
			d.want("get "+string(op.Key)+"\r\n", valueReply(string(op.Key), string(op.Value)))
		}
	}
	if again, err := d.Load(t.Context(), set, nil); err != nil || !again.Reused || again.Items != 2020 || again.Bytes != done.Bytes {
		t.Errorf("%+v, %v", again, err)
	}
	d.want("get s-0000000000000007 extra\r\ndelete l-000007\r\nset s-0000000000000001 0 0 1\r\nx\r\nset extra 0 0 1\r\nx\r\n",
		d.do("get s-0000000000000007\r\n")+"DELETED\r\nSTORED\r\nSTORED\r\n")
	if again, err := d.Load(t.Context(), set, nil); err != nil || again.Reused || again.Repaired != 2 || again.Items != 2020 {
		t.Errorf("%+v, %v", again, err)
	}
	if again, err := d.Load(t.Context(), set, nil); err != nil || !again.Reused {
		t.Errorf("%+v, %v", again, err)
	}
	d.want("get extra\r\n", valueReply("extra", "x"))
}

// TestLoadIsRefused: a directory that has something else keeps it.
func TestLoadIsRefused(t *testing.T) {
	t.Parallel()
	config, set := testConfig(t), testSet()
	if done, err := loadInto(t, config, set); err != nil || done.Items != 2020 {
		t.Fatalf("%+v, %v", done, err)
	}
	if done, err := loadInto(t, config, set); err != nil || !done.Reused {
		t.Errorf("%+v, %v", done, err)
	}
	more := testSet()
	more[1].Count++
	if _, err := loadInto(t, config, more); err == nil || !strings.Contains(err.Error(), "was loaded with other data") {
		t.Errorf("other data: %v", err)
	}
	other := config
	other.Compression = "lz4"
	if _, err := loadInto(t, other, set); err == nil || !strings.Contains(err.Error(), "was loaded with other options") {
		t.Errorf("other options: %v", err)
	}
	other = config
	other.BlockCache, other.MmapReads, other.WAL = 0, true, WALOff // which are not about what is in the files
	if done, err := loadInto(t, other, set); err != nil || !done.Reused {
		t.Errorf("%+v, %v", done, err)
	}

	written := testConfig(t)
	d := newDirect(t, written)
	d.want("set mine 0 0 1\r\nx\r\n", "STORED\r\n")
	if _, err := d.Load(t.Context(), set, nil); err == nil || !strings.Contains(err.Error(), "written by clients") {
		t.Errorf("a store of clients: %v", err)
	}
	d.want("get mine\r\n", valueReply("mine", "x"))

	if err := os.WriteFile(filepath.Join(config.Dir, ManifestName), []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(config); err == nil || !strings.Contains(err.Error(), ManifestName) {
		t.Errorf("a manifest that is none: %v", err)
	}
}

// TestLoadGoesOn: one that was broken off goes on where it was.
func TestLoadGoesOn(t *testing.T) {
	t.Parallel()
	config, set := testConfig(t), testSet()
	b := openBackend(t, config)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Load(ctx, set, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("broken off: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	done, err := loadInto(t, config, set)
	if err != nil || done.Reused || done.Items != 2020 || done.Repaired == 0 || done.Repaired >= 2020 {
		t.Errorf("%+v, %v", done, err)
	}
}

func TestParseDataset(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"paper": "[keys=100000,prefix=skey-,value=uniform:5B..1000B keys=5000,prefix=lkey-,value=uniform:800kB..1200kB]",
		"small": "[keys=100000,prefix=skey-,value=uniform:5B..1000B keys=200,prefix=lkey-,value=uniform:800kB..1200kB]",
		"keys=5,prefix=a,size=9,value=lognormal:p50=1kB,p90=9kB":   "[keys=5,prefix=a,size=9,value=lognormal:p50=1kB,p90=9kB]",
		"prefix=a,keys=5,sizes=gev:30.8B,8.2B,0.08,value=exp:100B": "[keys=5,prefix=a,sizes=gev:30.8B,8.2B,0.08,value=exp:100B]",
	} {
		set, err := ParseDataset([]string{text})
		if got := fmt.Sprint(set); err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, wrong := range []string{
		"", "big", "keys=5", "keys=5,prefix=a", "keys=5,prefix=a,value=", "keys=0,prefix=a,value=1B", "keys=x,prefix=a,value=1B",
		"keys=5,prefix=a,value=1s", "keys=5,prefix=a b,value=1B", "keys=5,value=1B", "keys=5,prefix=a,size=1,value=1B", "keys=5,prefix=a,colour=red,value=1B",
		"keys=99999999999999999999,prefix=a,value=1B",
	} {
		if set, err := ParseDataset([]string{wrong}); err == nil {
			t.Errorf("%q: %v", wrong, set)
		}
	}
	if _, err := ParseDataset([]string{"small", "keys=5,prefix=skey-,value=1B"}); err == nil {
		t.Error("keys of two sizes")
	}
}
