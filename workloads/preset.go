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
	{"bimodal-var", bimodalVar},
	{"usr", usr},
	{"etc", etc},
	{"var", variable},
	{"cache-aside", cacheAside},
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

// svalinnSLO is the limit of Svalinn's memcached client.
const svalinnSLO = 1375 * time.Microsecond

// smallKeys and largeKeys are the keys and sizes of Svalinn's experiments on memcached and RocksDB.
func smallKeys(name string, share float64, mix Mix) KVClass {
	return KVClass{
		Name: name, Share: share, SLO: svalinnSLO, Mix: mix,
		Keys: 100_000, KeyPrefix: "skey-",
		ValueSize:  dist.Uniform{Unit: dist.Bytes, Low: 5, High: 1000},
		Popularity: "uniform",
	}
}

func largeKeys(share float64) KVClass {
	return KVClass{
		Name: "large", Share: share, SLO: svalinnSLO, Mix: Mix{Get: 1},
		Keys: 5_000, KeyPrefix: "lkey-",
		ValueSize:  dist.Uniform{Unit: dist.Bytes, Low: 800_000, High: 1_200_000},
		Popularity: "uniform",
	}
}

// bimodalGet is Svalinn's BIMOD_GET: reads alone, half of them of a megabyte. A large read is bound by memory bandwidth, a small one
// by the processor, so the two compete for different resources.
func bimodalGet() []KVClass {
	return []KVClass{smallKeys("small", 0.5, Mix{Get: 1}), largeKeys(0.5)}
}

// bimodalVar is Svalinn's BIMOD_VAR: writes of small values as in Facebook's VAR pool, and among the few reads as many of a megabyte as
// of small values.
func bimodalVar() []KVClass {
	return []KVClass{smallKeys("set", 0.82, Mix{Set: 1}), smallKeys("small", 0.09, Mix{Get: 1}), largeKeys(0.09)}
}

// variable is bimodalVar without the large values: the shares of Facebook's VAR pool, 82 % writes, over the same small keys.
func variable() []KVClass {
	return []KVClass{smallKeys("set", 0.82, Mix{Set: 1}), smallKeys("get", 0.18, Mix{Get: 1})}
}

// usr is Facebook's USR pool as the memcached experiments of Shenango and Caladan have it: a million keys of 20 B with values of 2 B,
// two writes among a thousand requests.
func usr() []KVClass {
	class := KVClass{
		SLO: time.Millisecond, Keys: 1_000_000, KeyPrefix: "usr-", KeySize: 20,
		ValueSize: dist.Constant{Unit: dist.Bytes, Value: 2}, Popularity: "uniform",
	}
	get, set := class, class
	get.Name, get.Share, get.Mix = "get", 0.998, Mix{Get: 1}
	set.Name, set.Share, set.Mix = "set", 0.002, Mix{Set: 1}
	return []KVClass{get, set}
}

// etcValues are the sizes of values in Facebook's ETC pool: those of 0 to 14 bytes by their measured shares, all others by a generalised
// Pareto.
const etcValues = "mix:0.00536@0B;0.00047@1B;0.1782@2B;0.09239@3B;0.00018@4B;0.0274@5B;0.00065@6B;0.00606@7B;0.00023@8B;0.00837@9B;" +
	"0.00837@10B;0.08989@11B;0.00092@12B;0.00326@13B;0.0198@14B;0.55845@gpareto:0B,214.476B,0.348238"

// etc is Facebook's ETC pool: many reads, few writes, thirty to one; sizes by the model that Atikoglu and others fitted ("Workload
// Analysis of a Large-Scale Key-Value Store", SIGMETRICS 2012). The model says nothing of popularity in a form that can be drawn from,
// nor of the number of keys: Zipf over a hundred thousand keys is our choice.
func etc() []KVClass {
	values, err := dist.Parse(etcValues, dist.Bytes)
	if err != nil {
		panic("workloads: the sizes of etc: " + err.Error()) // they are written above
	}
	class := KVClass{
		SLO: time.Millisecond, Keys: 100_000, KeyPrefix: "e",
		KeySizes:  dist.GEV{Unit: dist.Bytes, Location: 30.7984, Scale: 8.20449, Shape: 0.078688},
		ValueSize: values, Popularity: "zipf:0.99",
	}
	get, set := class, class
	get.Name, get.Share, get.Mix = "get", 0.968, Mix{Get: 1}
	set.Name, set.Share, set.Mix = "set", 0.032, Mix{Set: 1}
	return []KVClass{get, set}
}

// cacheAside is a cache that stands beside a database, as most caches do: the client looks into it first and writes back what it had to
// fetch elsewhere. The cache starts empty and is filled by its misses.
func cacheAside() []KVClass {
	class := KVClass{
		SLO: time.Millisecond, Keys: 100_000, KeyPrefix: "aside-",
		ValueSize: dist.Uniform{Unit: dist.Bytes, Low: 50, High: 1000}, Popularity: "zipf:0.99",
	}
	get, fill := class, class
	get.Name, get.Share, get.Mix, get.WriteBack = "get", 1, Mix{Get: 1}, "fill"
	fill.Name, fill.Share, fill.Mix = "fill", 0, Mix{Set: 1}
	return []KVClass{get, fill}
}
