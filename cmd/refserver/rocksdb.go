package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"spillway/internal/dist"
	"spillway/machine"
	"spillway/servers"
	"spillway/servers/rocksdb"
)

// rocksdbFlags is the command line of refserver rocksdb.
type rocksdbFlags struct {
	front   frontFlags
	machine machineFlags
	store   rocksdb.Config

	preset   string
	load     []string
	loadOnly bool
	scratch  bool
	reply    string
	costs    string
	sizes    map[string]*string // flags that are sizes, by name
	mapped   bool
}

func newRocksDBFlags() *rocksdbFlags {
	return &rocksdbFlags{store: rocksdb.Default(), sizes: map[string]*string{}}
}

func rocksdbCommand() *cobra.Command { return newRocksDBFlags().command() }

// command returns the command that f's flags are of.
func (f *rocksdbFlags) command() *cobra.Command {
	c := &cobra.Command{
		Use:   "rocksdb",
		Short: "A durable key-value store, RocksDB, that speaks memcached's text and meta commands",
		Long: `A durable key-value store, RocksDB, that speaks memcached's text and meta commands: get, gets, set, add, replace, cas, delete, mg, ms, md.

A get of scan:COUNT:FROM answers with up to COUNT items in the order of their keys, from the first that is not before FROM: for each
a line "KEY FLAGS BYTES", the value and a line end. keys:COUNT:FROM answers with the lines alone. A * behind FROM keeps to keys that
begin with it.

--load fills a new directory before it serves: small and paper are the data of Svalinn's experiments, with 200 and 5000 large values
beside 100 000 small ones; keys=COUNT,prefix=TEXT,value=SIZE is anything else. A directory that was loaded so before is used
again, one that was loaded otherwise is refused. Reads of large values (--large) go through the controller's memory section.

It prints one line a listener on standard output once it accepts connections, and serves until SIGTERM or SIGINT.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return serveRocksDB(c, f) },
	}
	f.front.add(c)
	flags := c.Flags()
	flags.StringVar(&f.store.Dir, "dir", "", "directory of the store")
	flags.BoolVar(&f.store.Create, "create", false, "make an empty store where there is none")
	flags.BoolVar(&f.scratch, "scratch", false, "instead of --dir: a new store in a temporary directory, which is removed in the end")
	flags.StringArrayVar(&f.load, "load", nil, "make a store with data, or use it again: small, paper, or keys=COUNT,prefix=TEXT[,size=LENGTH],value=SIZE; may be repeated")
	flags.BoolVar(&f.loadOnly, "load-only", false, "load, and do not serve")
	flags.IntVar(&f.store.Workers, "workers", 0, "store calls under way at once, beside reads that memory answers; 0 for one a core")
	f.size(flags, "max-item", 8<<20, "largest value, 1 KiB to 128 MiB")
	f.size(flags, "large", 100_000, "reads of values of this size and more go through the memory section; 16 KiB to 128 MiB, 0 for none")
	flags.StringVar(&f.reply, "reply", "full", "full, or header: read values through but do not send them")
	f.options(flags)
	f.machine.add(c)
	flags.StringVar(&f.costs, "costs", "rocksdb", "what requests cost on a modelled machine: a file, or a shipped table")
	return c
}

// size adds a flag that is a size.
func (f *rocksdbFlags) size(flags *pflag.FlagSet, name string, value int64, usage string) {
	text := new(string)
	f.sizes[name] = text
	flags.StringVar(text, name, dist.FormatSize(value), usage)
}

// options adds the flags that are RocksDB's own options. Their defaults are those of the preset default.
func (f *rocksdbFlags) options(flags *pflag.FlagSet) {
	o := &f.store.Options
	flags.StringVar(&f.preset, "preset", "default", "RocksDB's options, which the following flags change: "+strings.Join(rocksdb.Presets(), ", ")+
		" (of Svalinn's experiment: mapped files, no log, no compaction but after loading)")
	flags.StringVar(&o.WAL, "wal", o.WAL, "log of writes: on (they outlive the process), sync (they outlive the computer, each waits for the disk), off (those since the last flush do not)")
	flags.StringVar(&o.Compression, "compression", o.Compression, "of table files: none, snappy, lz4, zstd")
	flags.StringVar(&o.Compaction, "compaction", o.Compaction, "of table files: level, universal, or off, which is after loading only")
	f.size(flags, "block-cache", o.BlockCache, "cache of blocks, 0 for none; mapped files do without")
	f.size(flags, "block-size", o.BlockSize, "of blocks in table files, 512 B to 64 MiB")
	flags.Float64Var(&o.Bloom, "bloom", o.Bloom, "bits a key of the filter that spares reads of keys which are not there; 0 for none")
	f.size(flags, "write-buffer", o.WriteBuffer, "what is kept in memory before it is flushed, 64 KiB to 16 GiB")
	flags.IntVar(&o.OpenFiles, "open-files", o.OpenFiles, "table files kept open; -1 for all")
	flags.BoolVar(&f.mapped, "mmap", false, "map table files into memory, for reading and writing")
	flags.BoolVar(&o.DirectIO, "direct-io", o.DirectIO, "read and write table files past the system's page cache")
	flags.BoolVar(&o.Checksums, "checksums", o.Checksums, "verify the checksum of a block whenever it is read")
}

// config returns the configurations of front end and store. All errors are mistakes of usage.
func (f *rocksdbFlags) config(flags *pflag.FlagSet) (front servers.Config, store rocksdb.Config, set rocksdb.Dataset, err error) {
	store = f.store
	if front, err = f.front.config(); err != nil {
		return front, store, nil, err
	}
	given := store.Options
	if store.Options, err = rocksdb.Preset(f.preset); err != nil {
		return front, store, nil, err
	}
	o := &store.Options
	for name, take := range map[string]func(){
		"wal":         func() { o.WAL = given.WAL },
		"compression": func() { o.Compression = given.Compression },
		"compaction":  func() { o.Compaction = given.Compaction },
		"bloom":       func() { o.Bloom = given.Bloom },
		"open-files":  func() { o.OpenFiles = given.OpenFiles },
		"mmap":        func() { o.MmapReads, o.MmapWrites = f.mapped, f.mapped },
		"direct-io":   func() { o.DirectIO = given.DirectIO },
		"checksums":   func() { o.Checksums = given.Checksums },
	} {
		if flags.Changed(name) {
			take()
		}
	}
	for name, to := range map[string]*int64{
		"max-item": &store.MaxItem, "large": &store.Large, "block-cache": &o.BlockCache, "block-size": &o.BlockSize, "write-buffer": &o.WriteBuffer,
	} {
		preset := name != "max-item" && name != "large"
		if preset && !flags.Changed(name) {
			continue
		}
		if *to, err = dist.ParseMemcachedSize(*f.sizes[name], 1); err != nil {
			return front, store, nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	switch f.reply {
	case "full":
	case "header":
		store.HeaderOnly = true
	default:
		return front, store, nil, fmt.Errorf("reply %q: must be full or header", f.reply)
	}
	if store.Workers == 0 {
		store.Workers = runtime.GOMAXPROCS(0)
	}
	if set, err = rocksdb.ParseDataset(f.load); err != nil {
		return front, store, nil, err
	}
	if f.loadOnly && set == nil {
		return front, store, nil, errors.New("--load-only: say what, with --load")
	}
	if f.scratch && (store.Dir != "" || f.loadOnly) {
		return front, store, nil, errors.New("--scratch: its directory is a temporary one; leave out --dir and --load-only")
	}
	if f.scratch {
		store.Dir = os.TempDir() // until there is one
	}
	store.Create = store.Create || f.scratch || set != nil
	front.MaxItem = store.ItemLimit()
	if front.Slots == 0 && !f.machine.modelled() {
		front.Slots = rocksdb.Slots(front.Loops, store.Workers)
	}
	return front, store, set, store.Check()
}

func serveRocksDB(c *cobra.Command, f *rocksdbFlags) error {
	if err := rocksdb.Available(); err != nil {
		return err
	}
	front, store, set, err := f.config(c.Flags())
	if err != nil {
		return usageError{err}
	}
	front.Log = c.ErrOrStderr()
	var backend *rocksdb.Backend
	front.Model, err = f.machine.model(c.Flags().Changed, func(spec machine.Spec) (servers.Coster, error) {
		return loadCosts(f.costs, spec, func(key []byte) int { return backend.ValueSize(key) })
	})
	if err == nil {
		err = front.Check()
	}
	if err != nil {
		return usageError{err}
	}
	if !f.machine.modelled() {
		f.front.parallelism = store.Workers
	}
	stack, err := f.front.newController(&front)
	if err != nil {
		return usageError{err}
	}
	if err := raiseFiles(front.MaxConns); err != nil {
		return err
	}
	if !f.machine.modelled() {
		// Each worker has a processor of Go's scheduler beside those of the loops. Otherwise a loop that goes to sleep would take its own along
		// for as long as the scheduler takes to notice. And as long as some have nothing to do, the scheduler takes none away from a
		// call of the store that lasts: it would have to give one back soon after.
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + store.Workers + spareProcs)
	}
	if f.scratch {
		if store.Dir, err = os.MkdirTemp("", "refserver-rocksdb-"); err != nil {
			return fmt.Errorf("a temporary directory for the store: %w", err)
		}
		defer func() { _ = os.RemoveAll(store.Dir) }() // it is a temporary one
	}
	if backend, err = rocksdb.Open(store); err != nil {
		return err
	}
	if set != nil {
		if err := load(c, backend, set, store.Dir); err != nil {
			return errors.Join(err, backend.Close())
		}
	}
	if f.loadOnly {
		return backend.Close()
	}
	return serve(c, backend, stack, front)
}

// spareProcs are processors of Go's scheduler that are always idle.
const spareProcs = 2

// load fills the store and says how far it is.
func load(c *cobra.Command, backend *rocksdb.Backend, set rocksdb.Dataset, dir string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	began := time.Now()
	done, err := backend.Load(ctx, set, teller(c.ErrOrStderr()))
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%d items, %s of values", done.Items, dist.FormatSize(done.Bytes))
	switch {
	case done.Reused:
		what += ", loaded before"
	case done.Repaired > 0 && done.Repaired < done.Items:
		what += fmt.Sprintf(", %d of them loaded anew, verified, in %s", done.Repaired, time.Since(began).Round(10*time.Millisecond))
	default:
		what += fmt.Sprintf(", loaded, compacted and verified in %s", time.Since(began).Round(10*time.Millisecond))
	}
	_, err = fmt.Fprintf(c.ErrOrStderr(), "refserver: %s: %s\n", dir, what)
	return err
}

// tellEvery is how often loading says how far it is.
const tellEvery = time.Second

// teller returns what writes a line about a Load now and then.
func teller(w io.Writer) func(rocksdb.Progress) {
	next := time.Now().Add(tellEvery)
	return func(p rocksdb.Progress) {
		now := time.Now()
		if now.Before(next) {
			return
		}
		next = now.Add(tellEvery)
		left := ""
		if p.Left >= 0 {
			left = fmt.Sprintf(", about %s left", p.Left.Round(time.Second))
		}
		_, _ = fmt.Fprintf(w, "refserver: %s, %d %%%s\n", p.Phase, 100*p.Done/max(p.Total, 1), left)
	}
}
