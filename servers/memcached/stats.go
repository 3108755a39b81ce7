//go:build linux

package memcached

// Stats yields the store's figures in memcached's names.
func (b *Backend) Stats(yield func(name string, value uint64) bool) {
	c, items := b.store.Counts()
	for _, row := range []struct {
		name  string
		value uint64
	}{
		{"cmd_get", c.CmdGet}, {"cmd_set", c.CmdSet}, {"cmd_touch", c.CmdTouch},
		{"get_hits", c.GetHits}, {"get_misses", c.GetMisses}, {"get_expired", c.GetExpired},
		{"delete_misses", c.DeleteMisses}, {"delete_hits", c.DeleteHits},
		{"cas_misses", c.CASMisses}, {"cas_hits", c.CASHits}, {"cas_badval", c.CASBadval},
		{"touch_hits", c.TouchHits}, {"touch_misses", c.TouchMisses}, {"store_too_large", c.StoreLarge},
		{"limit_maxbytes", uint64(b.store.limit)},
		{"bytes", uint64(b.store.used.Load())}, {"curr_items", uint64(items)}, {"total_items", c.TotalItems},
		{"evictions", c.Evictions}, {"reclaimed", c.Reclaimed},
	} {
		if !yield(row.name, row.value) {
			return
		}
	}
}

// Counts returns the sums over all shards and the number of items. Shards are read one after the other while the others go on.
func (s *Store) Counts() (sum Counts, items int) {
	for i := range s.shard {
		m := &s.shard[i].mu
		m.Lock()
		c := m.counts
		items += len(m.items)
		m.Unlock()
		sum.add(c)
	}
	return sum, items
}

func (c *Counts) add(o Counts) {
	c.CmdGet += o.CmdGet
	c.CmdSet += o.CmdSet
	c.CmdTouch += o.CmdTouch
	c.GetHits += o.GetHits
	c.GetMisses += o.GetMisses
	c.GetExpired += o.GetExpired
	c.DeleteHits += o.DeleteHits
	c.DeleteMisses += o.DeleteMisses
	c.TouchHits += o.TouchHits
	c.TouchMisses += o.TouchMisses
	c.CASHits += o.CASHits
	c.CASMisses += o.CASMisses
	c.CASBadval += o.CASBadval
	c.TotalItems += o.TotalItems
	c.Evictions += o.Evictions
	c.Reclaimed += o.Reclaimed
	c.StoreLarge += o.StoreLarge
}
