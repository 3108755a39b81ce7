//go:build linux

package memcached_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// absent are figures of memcached that this server has no counterpart for: other memory management, other logs, no second storage.
const absent = `libevent connection_structures response_obj_oom response_obj_count response_obj_bytes read_buf_count read_buf_bytes read_buf_bytes_free
	read_buf_oom reserved_fds slab_reassign_rescues slab_reassign_chunk_rescues slab_reassign_evictions_nomem slab_reassign_inline_reclaim
	slab_reassign_busy_items slab_reassign_busy_deletes slab_reassign_running slabs_moved lru_crawler_running lru_crawler_starts lru_maintainer_juggles
	malloc_fails log_worker_dropped log_worker_written log_watcher_skipped log_watcher_sent log_watchers unexpected_napi_ids round_robin_fallback
	evicted_active crawler_reclaimed crawler_items_checked lrutail_reflocked moves_to_cold moves_to_warm moves_within_lru direct_reclaims
	lru_bumps_dropped`

// TestStatsNames: figures have memcached's names, and what is not there is known.
func TestStatsNames(t *testing.T) {
	t.Parallel()
	pathTheirs, pathOurs := pair(t)
	names := func(s *stepper, arg string) (list []string) {
		for line := range strings.Lines(string(s.do("stats" + arg + "\r\n"))) {
			if words := strings.Fields(line); len(words) >= 2 && words[0] == "STAT" {
				list = append(list, words[1])
			}
		}
		slices.Sort(list)
		return slices.Compact(list)
	}
	theirs, ours := newStepper(t, pathTheirs), newStepper(t, pathOurs)
	var want []string
	for _, name := range names(theirs, "") {
		if !slices.Contains(strings.Fields(absent), name) {
			want = append(want, name)
		}
	}
	if diff := cmp.Diff(want, names(ours, "")); diff != "" {
		t.Errorf("stats (-memcached +ours)\n%s", diff)
	}
	for _, s := range []*stepper{theirs, ours} {
		s.do("set a 0 0 1\r\nx\r\n")
	}
	for _, arg := range []string{" settings", " items", " slabs"} {
		known := names(theirs, arg)
		for _, name := range names(ours, arg) {
			if !slices.Contains(known, name) {
				t.Errorf("stats%s has %q, which memcached has not", arg, name)
			}
		}
	}
}
