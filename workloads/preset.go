package workloads

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"spillway/internal/dist"
)

// kvPreset is a workload of a paper.
type kvPreset struct {
	name    string
	classes func() []KVClass
}

var kvPresets = []kvPreset{
	{"bimodal-get", bimodalGet},
}

// Presets lists the names that Preset takes.
func Presets() []string {
	names := make([]string, len(kvPresets))
	for i, p := range kvPresets {
		names[i] = p.name
	}
	return names
}

// Preset returns the classes of the named key-value workload, for the caller to change and give to NewKV.
func Preset(name string) ([]KVClass, error) {
	i := slices.IndexFunc(kvPresets, func(p kvPreset) bool { return p.name == name })
	if i < 0 {
		return nil, fmt.Errorf("workload preset %q: unknown, there is %s", name, strings.Join(Presets(), ", "))
	}
	return kvPresets[i].classes(), nil
}

// bimodalGet is Svalinn's BIMOD_GET: reads alone, half of them of a megabyte. A large read is bound by memory bandwidth, a small one
// by the processor, so the two compete for different resources. Sizes and the limit of 1375 µs are those of its memcached client.
func bimodalGet() []KVClass {
	const slo = 1375 * time.Microsecond
	return []KVClass{
		{
			Name: "small", Share: 0.5, SLO: slo, Mix: Mix{Get: 1},
			Keys: 100_000, KeyPrefix: "skey-",
			ValueSize:  dist.Uniform{Unit: dist.Bytes, Low: 5, High: 1000},
			Popularity: "uniform",
		},
		{
			Name: "large", Share: 0.5, SLO: slo, Mix: Mix{Get: 1},
			Keys: 5_000, KeyPrefix: "lkey-",
			ValueSize:  dist.Uniform{Unit: dist.Bytes, Low: 800_000, High: 1_200_000},
			Popularity: "uniform",
		},
	}
}
