//go:build linux

package calibrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"spillway/counters"
	"spillway/profiles"
)

// CostConfig says whose operations to measure.
type CostConfig struct {
	Kind     string
	Quick    bool
	Progress func(what string)
	// Start starts a reference server with the arguments of refserver, on one core, and returns where it listens and what ends it.
	Start func(ctx context.Context, args []string) (addr string, stop func(), err error)
	// Machine is what is looked at; nil for this machine.
	Machine *counters.Machine
}

// costKind is how the operations of one kind of server are measured. What another kind needs is a row of costKinds.
type costKind struct {
	kind string
	args []string // of refserver, beside the kind and where it listens
	head string   // what the file says of itself
	ops  []costOp
	// load returns arguments with which the server itself stores n values of a size, under the keys that requests ask for; nil where they are
	// stored by requests.
	load func(size int64, n int) []string
}

// costOp is one operation.
type costOp struct {
	name  string
	sizes bool    // it is about values, whose size matters
	moved float64 // bytes across the bus for each byte of a value that no cache holds; it follows from what the server does
	// stores says that requests bring their values along, so that the keys need not be there before.
	stores bool
	// request appends a request for the i-th of n keys.
	request func(dst []byte, i int, value []byte) []byte
}

const (
	smallValue = 100
	largeValue = 1 << 20
)

var costKinds = []costKind{
	{
		kind: "memcached",
		args: []string{"--reply", "header", "--max-item", "2MiB", "--memory", "1GiB"},
		head: "What a memcached request costs. Replies are headers only: a value is read through, and not copied into a socket. moved_per_byte follows\n" +
			"from what the server does with a value; it is not counted.",
		ops: []costOp{
			{name: "get", sizes: true, moved: 1, request: func(dst []byte, i int, _ []byte) []byte { return fmt.Appendf(dst, "mg k%d v\r\n", i) }},
			{name: "set", sizes: true, moved: 2, stores: true, request: func(dst []byte, i int, v []byte) []byte {
				return append(append(fmt.Appendf(dst, "ms k%d %d\r\n", i, len(v)), v...), '\r', '\n')
			}},
			{name: "delete", request: func(dst []byte, i int, _ []byte) []byte { return fmt.Appendf(dst, "md k%d\r\n", i) }},
		},
	},
	{
		kind: "rocksdb",
		args: []string{"--scratch", "--preset", "paper", "--reply", "header", "--max-item", "2MiB"},
		head: "What a RocksDB request costs, with the options of Svalinn's experiment and the files of the store in the system's page cache. Replies are\n" +
			"headers only: a value is read through, and not copied into a socket. Reads are of compacted files; what writes cost includes flushing them.\n" +
			"moved_per_byte follows from what the server does with a value; it is not counted.",
		load: func(size int64, n int) []string {
			return []string{"--load", fmt.Sprintf("keys=%d,prefix=k,size=9,value=%dB", n, size)}
		},
		ops: []costOp{
			{name: "get", sizes: true, moved: 1, request: func(dst []byte, i int, _ []byte) []byte { return fmt.Appendf(dst, "mg k%08d v\r\n", i) }},
			{name: "set", sizes: true, moved: 3, stores: true, request: func(dst []byte, i int, v []byte) []byte {
				return append(append(fmt.Appendf(dst, "ms k%08d %d\r\n", i, len(v)), v...), '\r', '\n')
			}},
			{name: "delete", request: func(dst []byte, i int, _ []byte) []byte { return fmt.Appendf(dst, "md k%08d\r\n", i) }},
		},
	},
	{
		kind: "synthetic",
		head: "What a synthetic request costs beside the work that it spells: reading it from its socket, the front end, writing the reply. server.settings.costs\n" +
			"of a synthetic server takes it; a modelled machine then computes so much more for each request.",
		ops: []costOp{{name: "get", request: func(dst []byte, _ int, _ []byte) []byte { return append(dst, "mg c0 v\r\n"...) }}},
	},
}

// CostKinds returns the kinds of servers whose operations can be measured.
func CostKinds() (list []string) {
	for _, k := range costKinds {
		list = append(list, k.kind)
	}
	return append(list, kindFrame)
}

// ErrKind says that there is no such kind.
var ErrKind = errors.New("costs cannot be measured")

// CostPoint is what one operation was measured to cost at one size.
type CostPoint struct {
	Operation string        `json:"operation"`
	Size      int64         `json:"value_bytes"`
	Rows      int           `json:"rows,omitempty"` // of the data frame, where the operation is on one
	Cold      bool          `json:"cold"`           // over more values, or longer columns, than the last-level cache holds
	Best      time.Duration `json:"best_ns"`
	Median    time.Duration `json:"median_ns"`
	Spread    float64       `json:"spread"`
	Requests  int           `json:"requests"`
}

// CostTable is what was measured of one kind of server.
type CostTable struct {
	Kind       string          `json:"kind"`
	Points     []CostPoint     `json:"points"`
	Table      *profiles.Costs `json:"table"`
	Noise      Noise           `json:"noise"`
	Unfinished bool            `json:"unfinished,omitempty"`
}

// Costs measures what the operations of one kind of server cost it in time of a core: a server on one core, sixteen connections with one request under
// way on each, one operation at a time. The table is nil when ctx ends before all operations have been measured: half a table is none.
func Costs(ctx context.Context, c CostConfig) (*CostTable, error) {
	if !slices.Contains(CostKinds(), c.Kind) {
		return nil, fmt.Errorf("%w of the kind %q; they can of %s", ErrKind, c.Kind, strings.Join(CostKinds(), ", "))
	}
	if c.Machine == nil {
		c.Machine = counters.Here()
	}
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	watch := newWatchman(Here())
	t := &CostTable{Kind: c.Kind}
	measure := c.measureStore
	if c.Kind == kindFrame {
		measure = c.measureFrames
	}
	if err := measure(ctx, t, watch); err != nil {
		return nil, err
	}
	spread := 0.0
	for _, p := range t.Points {
		spread = max(spread, p.Spread)
	}
	t.Noise = watch.noise(0)
	if spread > noisySpread {
		t.Noise.Findings = append(t.Noise.Findings, fmt.Sprintf("what a request costs differs by up to %.0f %% from run to run", 100*spread))
		t.Noise.Quiet = false
	}
	return t, nil
}

// measureStore measures the operations of a kind of server by the size of the value that they are about.
func (c *CostConfig) measureStore(ctx context.Context, t *CostTable, watch *watchman) error {
	k := &costKinds[slices.IndexFunc(costKinds, func(k costKind) bool { return k.kind == c.Kind })]
	for i := range k.ops {
		if err := c.measure(ctx, k, &k.ops[i], t); err != nil {
			return err
		}
		watch.look()
	}
	t.Table = Fit(k.ops, t.Points)
	return nil
}

// sizesOf lists the sizes of values at which an operation is measured.
func (c *CostConfig) sizesOf(op *costOp) []int64 {
	switch {
	case !op.sizes:
		return []int64{0}
	case c.Quick:
		return []int64{smallValue, 64 << 10, largeValue}
	default:
		return []int64{smallValue, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, largeValue}
	}
}

// Bounds on what is stored in a server for one point.
const (
	mostKeys   = 100_000
	mostStored = 512 << 20
)

// keys returns over how many values of a size a point goes: of cold ones more than the last-level cache holds several times over, of others a
// quarter of it.
func (c *CostConfig) keys(size int64, cold bool) int {
	room := c.llc() / 4
	if cold {
		room = min(4*c.llc(), mostStored)
	}
	return int(min(max(room/max(size, 1), 1), mostKeys))
}

// llc returns the size of the last-level cache, and a usual one where the machine does not tell.
func (c *CostConfig) llc() int64 {
	if found, ok := c.Machine.Root.LLC(); ok {
		return found.Bytes
	}
	return 32 << 20
}

// cores returns how many there are to share it.
func (c *CostConfig) cores() int {
	list, err := allowed()
	if err != nil {
		return runtime.NumCPU()
	}
	return len(list)
}

func (c *CostConfig) measure(ctx context.Context, k *costKind, op *costOp, t *CostTable) error {
	args := append([]string{k.kind, "--listen", "127.0.0.1:0"}, k.args...)
	for _, size := range c.sizesOf(op) {
		for _, cold := range []bool{false, true} {
			if cold && !op.sizes {
				continue
			}
			n := c.keys(size, cold)
			if cold && int64(n)*size < 2*int64(c.keys(1<<10, false))<<10 {
				continue // so many small values that would fill the cache are more than anybody asks for
			}
			where := "in the cache"
			if cold {
				where = "not in the cache"
			}
			if !op.sizes {
				where = "without a value"
			}
			c.Progress(fmt.Sprintf("%s %s, %s", k.kind, op.name, describeSize(size, where)))
			p, err := c.point(ctx, args, k, op, size, n)
			if err != nil {
				return fmt.Errorf("%s %s of %d B: %w", k.kind, op.name, size, err)
			}
			p.Cold = cold
			t.Points = append(t.Points, p)
		}
	}
	return nil
}

func describeSize(size int64, where string) string {
	if size == 0 {
		return where
	}
	return fmt.Sprintf("%s %s", profiles.Size(size), where)
}

// point measures one operation at one size, on a server of its own: what others left in a store changes what it costs.
func (c *CostConfig) point(ctx context.Context, args []string, k *costKind, op *costOp, size int64, keys int) (CostPoint, error) {
	p := CostPoint{}
	loads := k.load != nil && op.sizes && !op.stores
	if loads {
		args = append(slices.Clone(args), k.load(size, keys)...)
	}
	addr, stop, err := c.Start(ctx, args)
	if err != nil {
		return p, err
	}
	defer stop()
	client, err := dialCosts(ctx, addr)
	if err != nil {
		return p, err
	}
	defer client.close()
	value := bytes.Repeat([]byte("v"), int(size))
	if op.sizes && !op.stores && !loads {
		if err := client.fill(ctx, k, keys, value); err != nil {
			return p, err
		}
	}
	p, err = c.repeat(ctx, client, op, keys, value)
	p.Size = size
	return p, err
}

// repeat measures one operation several times, on keys in turn.
func (c *CostConfig) repeat(ctx context.Context, client *costClient, op *costOp, keys int, value []byte) (CostPoint, error) {
	p := CostPoint{Operation: op.name}
	runs, span := 5, 200*time.Millisecond
	if c.Quick {
		runs, span = 3, 60*time.Millisecond
	}
	var costs []float64
	at := 0
	for range runs {
		cost, n, err := client.cost(ctx, op, span, keys, &at, value)
		if err != nil {
			return p, err
		}
		costs = append(costs, 1/cost)
		p.Requests += n
	}
	most, median, spread := best(costs)
	p.Best, p.Median, p.Spread = nanos(1/most), nanos(1/median), spread
	return p, nil
}

func nanos(seconds float64) time.Duration { return time.Duration(math.Round(seconds * 1e9)) }
