//go:build linux && cgo && !norocksdb

package rocksdb

import (
	"bytes"
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/linxGnu/grocksdb"

	"spillway/internal/dist"
	"spillway/workloads"
)

// loader fills a store.
type loader struct {
	store *store
	kv    *workloads.KV
	estimator
	batch  *grocksdb.WriteBatch
	large  map[string]int64 // of the batch
	filled int              // bytes of the batch
	record []byte
	stored Loaded
}

// batchBytes is what is written at once.
const batchBytes = 1 << 20

// Load sees to it that the store has all items of a dataset, reads each of them back, and returns when they are on the disk, compacted. A store
// that was loaded with them is used as it is; one that clients have written to since, or whose loading was broken off, gets back what
// is missing or changed. Anything else that it was loaded with is refused. It must return before the Backend serves.
func (b *Backend) Load(ctx context.Context, set Dataset, progress func(Progress)) (Loaded, error) {
	kv, err := set.workload()
	if err != nil {
		return Loaded{}, err
	}
	items, total := kv.Footprint()
	l := &loader{store: b.store, kv: kv, estimator: estimator{began: time.Now(), total: total, tell: progress}}
	done, err := l.load(ctx, set, b.config.layout(), items)
	if err != nil {
		return done, fmt.Errorf("loading: %w", explain(err))
	}
	if err := b.warm(set); err != nil {
		return done, fmt.Errorf("reading small values into the block cache: %w", explain(err))
	}
	b.properties.read(b.store)
	return done, nil
}

const (
	warmFor  = 2 * time.Second
	warmFull = 0.9 // of the block cache
)

// warm reads small values, so that the block cache has them when the first client asks: what is measured is otherwise how it fills. It ends when
// the cache is full, or soon.
func (b *Backend) warm(set Dataset) error {
	if b.quick != b.store.memory {
		return nil // there is no cache to be read into
	}
	var small Dataset
	for _, k := range set {
		if sizes, err := dist.Parse(k.Value, dist.Bytes); err == nil && sizes.Mean() < leastLarge {
			small = append(small, k)
		}
	}
	if len(small) == 0 {
		return nil
	}
	kv, err := small.workload()
	if err != nil {
		return err
	}
	n, end := 0, time.Now().Add(warmFor)
	for op := range kv.Preload() {
		if n++; n%1000 == 0 && (time.Now().After(end) || float64(b.store.cache.GetUsage()) > warmFull*float64(b.config.BlockCache)) {
			return nil
		}
		it, _, err := b.store.find(b.store.reading(op.Key), op.Key)
		if err != nil {
			return err
		}
		b.store.release(&it)
	}
	return nil
}

func (l *loader) load(ctx context.Context, set Dataset, layout layout, items int64) (Loaded, error) {
	s := l.store
	m := s.mark.manifest
	repair := m != nil
	if repair || s.hasItems() {
		if err := m.refuse(s.dir, set, layout); err != nil {
			return Loaded{}, err
		}
		if m.State == stateLoaded {
			return Loaded{Items: m.Items, Bytes: m.Bytes, Reused: true}, nil
		}
	} else if err := roomFor(s.dir, l.total, items); err != nil {
		return Loaded{}, err
	}
	m = &manifest{Dataset: set, Layout: layout, State: stateLoading}
	if err := m.write(s.dir); err != nil {
		return Loaded{}, err
	}
	l.batch = grocksdb.NewWriteBatch()
	defer l.batch.Destroy()
	l.large = map[string]int64{}
	if err := l.fill(ctx, repair); err != nil {
		return l.stored, err
	}
	if !repair || l.stored.Repaired > 0 {
		if err := l.settle(); err != nil {
			return l.stored, err
		}
	}
	if err := l.verify(ctx); err != nil {
		return l.stored, err
	}
	m.State, m.Items, m.Bytes = stateLoaded, l.stored.Items, l.stored.Bytes
	if err := m.write(s.dir); err != nil {
		return l.stored, err
	}
	s.mark.manifest = m
	s.clean.Store(true)
	return l.stored, nil
}

// hasItems reports whether there is anything in the store but its own keys.
func (s *store) hasItems() bool {
	it := s.db.NewIterator(s.pass)
	defer it.Close()
	it.Seek(firstUserKey)
	return it.Valid()
}

// roomFor says when a disk is too small for what is to be loaded. While files are compacted there are two of each.
func roomFor(dir string, total, items int64) error {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(dir, &disk); err != nil {
		return nil // then it will be seen when it is full
	}
	const perItem = 64 // bytes of key, header and index
	need, free := 2*(total+items*perItem), int64(disk.Bavail)*disk.Bsize
	if free < need {
		return fmt.Errorf("directory %s has %s free and this takes about %s while it is loaded: free some of the disk, load less, or choose another directory",
			dir, dist.FormatSize(free), dist.FormatSize(need))
	}
	return nil
}

// fill stores all items, when repairing those that are not as they should be.
func (l *loader) fill(ctx context.Context, repair bool) error {
	done := int64(0)
	for op := range l.kv.Preload() {
		good := false
		if repair {
			var err error
			if good, err = l.matches(op); err != nil {
				return err
			}
		}
		if !good {
			l.add(op)
			if repair {
				l.stored.Repaired++
			}
		}
		l.stored.Items++
		l.stored.Bytes += int64(len(op.Value))
		if done += int64(len(op.Value)); l.filled < batchBytes {
			continue
		}
		if err := l.write(); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%w; what is stored already is kept, and the same command goes on with it", err)
		}
		l.at(time.Now(), PhaseStore, done)
	}
	return l.write()
}

// add puts an item into the batch.
func (l *loader) add(op *workloads.Op) {
	l.record = append(appendHeader(l.record[:0], header{version: l.store.version.Add(1)}), op.Value...)
	l.batch.Put(op.Key, l.record)
	if size := int64(len(op.Value)); size >= leastLarge {
		note(l.batch, op.Key, size)
		l.large[string(op.Key)] = size
	} else if l.store.large.size(op.Key) > 0 {
		note(l.batch, op.Key, 0)
		l.large[string(op.Key)] = 0
	}
	l.filled += len(op.Key) + len(l.record)
}

// write writes the batch.
func (l *loader) write() error {
	if err := l.store.db.Write(l.store.bulk, l.batch); err != nil {
		return err
	}
	for key, size := range l.large {
		l.store.large.set([]byte(key), size)
	}
	clear(l.large)
	l.batch.Clear()
	l.filled = 0
	return nil
}

// settle writes to the disk what is in memory and compacts all files, as they stay for reading.
func (l *loader) settle() error {
	began := time.Now()
	spent := began.Sub(l.began)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() { // RocksDB does not say how far a compaction is: it is about as fast as what went before
		defer close(ended)
		ticker := time.NewTicker(tellEvery)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case now := <-ticker.C:
				expected := max(spent.Seconds()*work[PhaseCompact]/work[PhaseStore], 0.001)
				l.at(now, PhaseCompact, int64(min(now.Sub(began).Seconds()/expected, 0.95)*float64(l.total)))
			}
		}
	}()
	err := l.store.compact()
	close(stop)
	<-ended
	return err
}

func (s *store) compact() error {
	if err := s.flush(); err != nil {
		return err
	}
	options := grocksdb.NewCompactRangeOptions()
	defer options.Destroy()
	options.SetBottommostLevelCompaction(grocksdb.KForceOptimized)
	s.db.CompactRangeOpt(grocksdb.Range{}, options)
	// It returns no error of its own.
	if n := s.db.GetProperty(propertyPrefix + "background-errors"); n != "0" && n != "" {
		return fmt.Errorf("compacting: RocksDB counts %s errors in directory %s; a full disk is the usual one", n, s.dir)
	}
	return nil
}

// verify reads every item back.
func (l *loader) verify(ctx context.Context) error {
	done, told := int64(0), int64(0)
	for op := range l.kv.Preload() {
		good, err := l.matches(op)
		if err != nil {
			return err
		}
		if !good {
			return fmt.Errorf("key %s: what was stored is not what is read back; the disk or the memory of this computer is not to be trusted", op.Key)
		}
		if done += int64(len(op.Value)); done-told >= batchBytes {
			told = done
			if err := ctx.Err(); err != nil {
				return err
			}
			l.at(time.Now(), PhaseVerify, done)
		}
	}
	l.at(time.Now(), PhaseVerify, l.total)
	return nil
}

// matches reports whether an item is in the store as it should be.
func (l *loader) matches(op *workloads.Op) (bool, error) {
	it, found, err := l.store.find(l.store.pass, op.Key)
	if !found {
		return false, err
	}
	defer l.store.release(&it)
	return it.flags == 0 && it.expires == 0 && bytes.Equal(it.value, op.Value), nil
}
