//go:build linux

package harness

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"spillway/internal/load"
	"spillway/profiles"
)

// TestConnectionsFit: a server of ours takes every connection of the load and ours beside them, or the profile that says otherwise is refused.
func TestConnectionsFit(t *testing.T) {
	t.Parallel()
	with := func(connections, settings string) *profiles.Profile {
		return profile(t, "  kind: kv", "  kind: kv\n  connections: "+connections, "{kind: memcached}", "{kind: memcached, settings: {"+settings+"}}")
	}
	for _, tt := range []struct {
		connections, settings string
		want                  []string
	}{
		{"1000", "", nil},
		{"1009", "", []string{"--max-conns", "1025"}},
		{"2000", "", []string{"--max-conns", "2016"}},
		{"2000", "max_conns: 2016", []string{"--max-conns", "2016"}},
	} {
		got, err := serverFlags(with(tt.connections, tt.settings))
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s connections, %s: flags %v, %v; want %v", tt.connections, tt.settings, got, err, tt.want)
		}
	}
	_, err := serverFlags(with("2000", "max_conns: 2015"))
	if !errors.Is(err, ErrUsage) || !strings.HasPrefix(err.Error(), "fake.yaml:2:") || !strings.Contains(err.Error(), "make it 2016") {
		t.Errorf("too few: error %v", err)
	}
}

// TestPreloadFits holds what would be stored against the server's memory.
func TestPreloadFits(t *testing.T) {
	t.Parallel()
	for keys, want := range map[string]string{
		"400000":       "", // of 100 B, within the 64 MiB of a server that nothing was said of
		"100000000000": "keys would be stored before each point",
		"1000000":      "the values of 1000010 keys take",
	} {
		err := refusePreload(profile(t, "slo: 10ms, keys: 10", "slo: 10ms, keys: "+keys, "slo: 20ms, keys: 10", "slo: 20ms, keys: 10"))
		if want == "" && err != nil || want != "" && (!errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s keys: error %v, want %q", keys, err, want)
		}
	}
	if err := refusePreload(profile(t, "keys: 10, value", "keys: 1000000, value", "{kind: memcached}", "{kind: memcached, settings: {memory: 1GiB}}")); err != nil {
		t.Errorf("in a gibibyte: %v", err)
	}
}

// Values that fit by their bytes alone can be too many: whoever wrote the profile hears of its setting, who started the server of its flags.
func TestRoomier(t *testing.T) {
	t.Parallel()
	const text = "name: p\nserver: {kind: %s}\nworkload: {kind: kv, classes: [{name: a, share: 1, keys: 500, value: 100kB}]}\n" +
		"load: {rates: [1k]}\ncontrollers: [{name: none}]\n"
	evicted := fmt.Errorf("key a: %w", load.ErrEvicted)
	for kind, want := range map[string]string{
		"memcached": "its memory is 64MiB, and the values alone take 50MB: give it more, such as --set server.settings.memory=128MiB",
		`external, settings: {target: "memcached://127.0.0.1:1"}`:  "raise its memory, such as with -m 1024",
		`external, settings: {target: "http://127.0.0.1:1/{key}"}`: "evicted it; raise its memory",
	} {
		p, err := profiles.Parse("p.yaml", fmt.Appendf(nil, text, kind))
		if err != nil {
			t.Fatal(err)
		}
		if err := roomier(p, evicted); !errors.Is(err, load.ErrEvicted) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %q", kind, err, want)
		}
		if other := errors.New("another"); roomier(p, other) != other || roomier(p, nil) != nil {
			t.Errorf("%s: another error is changed", kind)
		}
	}
}

// TestSeedsOfRepeats: the repeats of neighbouring seeds share no sequence, all are exact as floating-point numbers, and the first repeat is that
// of the seed itself.
func TestSeedsOfRepeats(t *testing.T) {
	t.Parallel()
	seen := map[uint64]bool{}
	for seed := range uint64(50) {
		if seedOf(seed, 1) != seed {
			t.Errorf("the first repeat of %d has the seed %d", seed, seedOf(seed, 1))
		}
		for repeat := 1; repeat <= 50; repeat++ {
			s := seedOf(seed, repeat)
			if seen[s] || uint64(float64(s)) != s {
				t.Fatalf("repeat %d of seed %d has the seed %d, which another has or floating-point numbers have not", repeat, seed, s)
			}
			seen[s] = true
		}
	}
}

// TestDeathIsExplained: what the kernel says of a server that was killed is in the note, and in the manifest's standard error it is not.
func TestDeathIsExplained(t *testing.T) {
	t.Parallel()
	f := &fake{profile: profile(t), latency: quick}
	for _, tt := range []struct{ ended, said, want string }{
		{"signal: killed", "", "signal: killed"}, {"exit status 2", "panic", "exit status 2: panic"}, {"", "out of memory", "out of memory"},
	} {
		r := f.result(100, 1e9)
		r.Died, r.Ended, r.LastWord = true, tt.ended, tt.said
		got := judge(&Point{Rate: 100, Repeat: 1}, &r).Facts
		if got.Notes[warnServerDied] != tt.want || got.LastWords != tt.said {
			t.Errorf("note %q, last words %q", got.Notes[warnServerDied], got.LastWords)
		}
	}
}
