//go:build linux

package memcached

import (
	"iter"
	"strconv"

	"spillway/internal/cache"
)

// What a Backend counts, in memcached's meaning, in the counters of its cache.
const (
	cmdGet = iota
	cmdSet
	cmdTouch
	cmdMeta
	getHits
	getMisses
	deleteHits
	deleteMisses
	incrHits
	incrMisses
	decrHits
	decrMisses
	casHits
	casMisses
	casBadval
	touchHits
	touchMisses
	storeTooLarge
	storeNoMemory
	numCounters
)

var _ = [cache.CountExpired - numCounters]struct{}{} // those from CountExpired on are the cache's own

func hitsOf(down bool) int {
	if down {
		return decrHits
	}
	return incrHits
}

func missesOf(down bool) int {
	if down {
		return decrMisses
	}
	return incrMisses
}

// Stats yields the store's figures in memcached's names.
func (b *Backend) Stats(yield func(name string, value uint64) bool) {
	s := b.cache.Stats()
	c := &s.Counters
	growing := uint64(0)
	if s.Growing {
		growing = 1
	}
	for _, row := range []struct {
		name  string
		value uint64
	}{
		{"cmd_get", c[cmdGet]}, {"cmd_set", c[cmdSet]}, {"cmd_flush", b.flushes.Load()}, {"cmd_touch", c[cmdTouch]}, {"cmd_meta", c[cmdMeta]},
		{"get_hits", c[getHits]}, {"get_misses", c[getMisses]}, {"get_expired", c[cache.CountExpired]}, {"get_flushed", c[cache.CountFlushed]},
		{"delete_misses", c[deleteMisses]}, {"delete_hits", c[deleteHits]},
		{"incr_misses", c[incrMisses]}, {"incr_hits", c[incrHits]}, {"decr_misses", c[decrMisses]}, {"decr_hits", c[decrHits]},
		{"cas_misses", c[casMisses]}, {"cas_hits", c[casHits]}, {"cas_badval", c[casBadval]},
		{"touch_hits", c[touchHits]}, {"touch_misses", c[touchMisses]},
		{"store_too_large", c[storeTooLarge]}, {"store_no_memory", c[storeNoMemory]},
		{"limit_maxbytes", uint64(b.config.Memory)},
		{"hash_power_level", uint64(s.Power)}, {"hash_bytes", uint64(s.Table)}, {"hash_is_expanding", growing},
		{"bytes", uint64(s.Bytes)}, {"curr_items", uint64(s.Items)}, {"total_items", uint64(s.Total)}, {"slab_global_page_pool", uint64(s.Pool)},
		{"expired_unfetched", s.ExpiredUnfetched}, {"evicted_unfetched", s.EvictedUnfetched},
		{"evictions", s.Evictions}, {"reclaimed", s.Reclaimed},
	} {
		if !yield(row.name, row.value) {
			return
		}
	}
}

// Detail yields what the commands stats items, stats slabs and stats settings show of the store.
func (b *Backend) Detail(topic string) (rows iter.Seq2[string, string], known bool) {
	switch topic {
	case "items":
		return b.items, true
	case "slabs":
		return b.slabs, true
	case "settings":
		return b.settings, true
	}
	return nil, false
}

// Reset sets the counts that only grow back to 0.
func (b *Backend) Reset() {
	b.cache.ResetCounters()
	b.flushes.Store(0)
}

func (b *Backend) items(yield func(name, value string) bool) {
	for _, c := range b.cache.Classes(b.now.Load()) {
		if c.Items == 0 {
			continue
		}
		prefix := "items:" + strconv.Itoa(c.Number) + ":"
		for _, row := range []struct {
			name  string
			value int64
		}{
			{"number", c.Items}, {"age", c.Age}, {"mem_requested", c.Bytes}, {"evicted", int64(c.Evictions)},
			{"evicted_nonzero", int64(c.EvictedNonzero)}, {"evicted_time", c.EvictedAge}, {"outofmemory", int64(c.NoMemory)},
			{"reclaimed", int64(c.Reclaimed)}, {"expired_unfetched", int64(c.ExpiredUnfetched)}, {"evicted_unfetched", int64(c.EvictedUnfetched)},
		} {
			if !yield(prefix+row.name, strconv.FormatInt(row.value, 10)) {
				return
			}
		}
	}
}

func (b *Backend) slabs(yield func(name, value string) bool) {
	active, total := 0, int64(0)
	for _, c := range b.cache.Classes(b.now.Load()) {
		if c.Pages == 0 {
			continue
		}
		active++
		total += c.Pages * int64(cache.PageBytes)
		chunks := c.Pages * int64(c.PerPage)
		prefix := strconv.Itoa(c.Number) + ":"
		for _, row := range []struct {
			name  string
			value int64
		}{
			{"chunk_size", int64(c.Chunk)}, {"chunks_per_page", int64(c.PerPage)}, {"total_pages", c.Pages}, {"total_chunks", chunks},
			{"used_chunks", c.Used}, {"free_chunks", chunks - c.Used}, {"free_chunks_end", 0},
		} {
			if !yield(prefix+row.name, strconv.FormatInt(row.value, 10)) {
				return
			}
		}
	}
	if yield("active_slabs", strconv.Itoa(active)) {
		yield("total_malloced", strconv.FormatInt(total, 10))
	}
}

func (b *Backend) settings(yield func(name, value string) bool) {
	evictions := "on"
	if b.config.NoEvict {
		evictions = "off"
	}
	for _, row := range [][2]string{
		{"maxbytes", strconv.FormatInt(b.config.Memory, 10)}, {"evictions", evictions}, {"item_size_max", strconv.Itoa(b.config.MaxItem)},
		{"slab_chunk_max", strconv.Itoa(cache.PageBytes)}, {"cas_enabled", "yes"}, {"flush_enabled", "yes"},
	} {
		if !yield(row[0], row[1]) {
			return
		}
	}
}
