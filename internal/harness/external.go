//go:build linux

package harness

import (
	"fmt"

	"spillway/profiles"
	"spillway/workloads"
)

// What memcached allows by default, and what an item costs it beside key and value.
const (
	defaultItem   = 1 << 20
	defaultMemory = 64 // MB
	itemOverhead  = 80
	slabWaste     = 1.25 // items of one slab class share its largest size
)

// memcachedFlags returns the flags with which a memcached holds what p reads, empty if its defaults do.
func memcachedFlags(p *profiles.Profile) string {
	items, bytes, largest := footprint(p)
	item, megabyte := int64(1), int64(defaultMemory)
	for item<<20 < largest+itemOverhead+250 {
		item *= 2
	}
	for float64(megabyte)*(1<<20) < float64(bytes+items*(itemOverhead+int64(longestKey)))*slabWaste {
		megabyte *= 2
	}
	if item<<20 <= defaultItem && megabyte <= defaultMemory {
		return ""
	}
	return fmt.Sprintf("-I %dm -m %d", item, megabyte)
}

// footprint returns how many items a server holds for p, the bytes of their values, and of them the largest; nothing where that is not known.
func footprint(p *profiles.Profile) (items, bytes, largest int64) {
	if p.Workload.Kind == kindReplay {
		t, err := p.Recorded()
		if err != nil {
			return 0, 0, 0
		}
		return t.Footprint()
	}
	classes, err := p.Workload.KVClasses()
	if err != nil {
		return 0, 0, 0
	}
	kv, err := workloads.NewKV(classes)
	if err != nil {
		return 0, 0, 0
	}
	items, bytes = kv.Footprint()
	return items, bytes, kv.Largest()
}

// longestKey is what a key takes where nothing is known of it.
const longestKey = 30
