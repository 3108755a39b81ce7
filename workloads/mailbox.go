package workloads

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"spillway/internal/dist"
	"spillway/machine"
)

// MailboxConfig says how large the mailboxes of a server are, and how long a request for one takes. DefaultMailboxes fills it.
type MailboxConfig struct {
	Size    dist.Dist     // bytes
	Largest int64         // no mailbox is larger: a heavy tail has no end, a disk has
	Seed    uint64        // of which mailbox is how large
	Latency time.Duration // of fetching one, whatever its size
	Rate    float64       // bytes a second at which it is fetched and handed over to its client; beside the latency it is what a request waits for
	Compute time.Duration // of a request, whatever the size
	PerByte float64       // nanoseconds of computing for each byte
}

// DefaultMailboxes are mailboxes of 0.6 MB in the mean, a tenth of them larger than 1.4 MB and the largest 64 MB, that clients take away at
// 5 MB a second. A request then holds 0.35 MB·s, so about 290 requests a second hold 100 MB. The computing is what it takes to have the
// pages of memory given, written and read once, as measured on a common server core. The sizes are assumed: the article gives none.
func DefaultMailboxes() MailboxConfig {
	size, err := dist.Parse("lognormal:p50=300kB,p90=1400kB", dist.Bytes)
	if err != nil {
		panic("workloads: " + err.Error())
	}
	return MailboxConfig{
		Size: size, Largest: 64_000_000, Seed: 1, Latency: 50 * time.Millisecond, Rate: 5e6,
		Compute: 50 * time.Microsecond, PerByte: 0.3,
	}
}

// Check says what is wrong with c, nil if nothing is.
func (c *MailboxConfig) Check() error {
	switch {
	case c.Size == nil:
		return fmt.Errorf("mailboxes need a size")
	case c.Largest < 1 || c.Largest > maxMailbox:
		return fmt.Errorf("the largest mailbox has %d bytes, must be between 1 and %d", c.Largest, int64(maxMailbox))
	case !(c.Rate > 0) || math.IsInf(c.Rate, 1):
		return fmt.Errorf("the rate at which mailboxes are fetched is %g, must be above 0", c.Rate)
	case c.Latency < 0 || c.Compute < 0 || !(c.PerByte >= 0):
		return fmt.Errorf("latency and computing of a mailbox must not be negative")
	}
	return nil
}

const (
	maxMailbox = 1 << 40
	// maxHold bounds how long a mailbox is held: one that is written in a key must not occupy a server for a year.
	maxHold = time.Hour
	// spelled begins a key that says itself what it asks for.
	spelled = '!'
)

// Mailbox is what a key names.
type Mailbox struct {
	Bytes int64         // of memory that a request for it holds while it works
	Hold  time.Duration // for how long it waits for the fetching and handing over
}

// Mailboxes knows every mailbox of a server by its name. It is not safe for concurrent use; several with the same configuration know the
// same mailboxes.
type Mailboxes struct {
	config MailboxConfig
	source rand.PCG
	draw   *rand.Rand
}

// NewMailboxes returns the mailboxes that c describes.
func NewMailboxes(c MailboxConfig) (*Mailboxes, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	m := &Mailboxes{config: c}
	m.draw = rand.New(&m.source)
	return m, nil
}

// Of returns the mailbox that a key names. Every key names one, and always the same. A key such as !150000000:4000ms says itself how large it is
// and for how long it is held; ok is false when it begins so and goes on differently.
func (m *Mailboxes) Of(key []byte) (box Mailbox, ok bool) {
	if len(key) > 0 && key[0] == spelled {
		return parseMailbox(key[1:])
	}
	hash := uint64(len(key))
	for _, b := range key {
		hash = dist.Mix(hash ^ uint64(b)<<56)
	}
	m.source.Seed(hash, m.config.Seed)
	return m.sized(int64(math.Round(min(m.config.Size.Sample(m.draw), float64(m.config.Largest))))), true
}

// sized returns a mailbox of a size.
func (m *Mailboxes) sized(bytes int64) Mailbox {
	bytes = max(bytes, 1)
	return Mailbox{Bytes: bytes, Hold: m.config.Latency + time.Duration(float64(bytes)/m.config.Rate*1e9)}
}

// Steps appends the work of a request for a mailbox.
func (m *Mailboxes) Steps(dst []machine.Step, b Mailbox) []machine.Step {
	return append(dst,
		machine.Step{Kind: machine.Memory, Bytes: b.Bytes},
		machine.Step{Kind: machine.Compute, Duration: m.config.Compute + time.Duration(float64(b.Bytes)*m.config.PerByte)},
		machine.Step{Kind: machine.Delay, Duration: b.Hold})
}

// appendMailbox spells a mailbox as a key.
func appendMailbox(dst []byte, b Mailbox) []byte {
	dst = strconv.AppendInt(append(dst, spelled), b.Bytes, 10)
	dst = strconv.AppendInt(append(dst, ':'), b.Hold.Milliseconds(), 10)
	return append(dst, "ms"...)
}

func parseMailbox(text []byte) (b Mailbox, ok bool) {
	size, hold, _ := bytes.Cut(text, []byte{':'})
	n, err1 := strconv.ParseInt(string(size), 10, 64)
	d, err2 := time.ParseDuration(string(hold))
	if err1 != nil || err2 != nil || n < 1 || n > maxMailbox || d < 0 || d > maxHold {
		return Mailbox{}, false
	}
	return Mailbox{Bytes: n, Hold: d}, true
}

// MailboxClass is one kind of request for mailboxes.
type MailboxClass struct {
	Name       string
	Share      float64       // of all requests; the shares of all classes sum to 1
	SLO        time.Duration // latency limit, 0 for none; it has no influence on what is asked
	Prefix     string        // of the mailboxes' names; empty for Name and a dash
	Boxes      uint64        // how many there are
	Popularity string        // one of dist.RankForms; empty for uniform

	// Bytes and Hold make a class that takes no mailbox but so much memory for so long, such as what another program on the same host does. Both
	// are nil for mailboxes.
	Bytes, Hold dist.Dist
}

// MailboxLoad is a workload of requests for mailboxes: gets, whose keys are the mailboxes' names. It is not safe for concurrent use.
type MailboxLoad struct {
	upTo
	boxes   *Mailboxes
	classes []MailboxClass
	ranks   []dist.Ranks
	key     []byte
	steps   []machine.Step
}

var (
	_ Workload = (*MailboxLoad)(nil)
	_ Varying  = (*MailboxLoad)(nil)
)

// NewMailboxLoad returns the workload over classes. The error names the class and what is wrong with it.
func NewMailboxLoad(c MailboxConfig, classes []MailboxClass) (*MailboxLoad, error) {
	boxes, err := NewMailboxes(c)
	if err != nil {
		return nil, err
	}
	if len(classes) == 0 {
		return nil, fmt.Errorf("a workload of mailboxes needs at least one class")
	}
	l := &MailboxLoad{boxes: boxes, classes: append([]MailboxClass(nil), classes...)}
	sum, shares := 0.0, make([]float64, len(classes))
	for i := range l.classes {
		k := &l.classes[i]
		if k.Prefix == "" {
			k.Prefix = k.Name + "-"
		}
		ranks, err := k.check()
		if err != nil {
			return nil, fmt.Errorf("class %q: %w", k.Name, err)
		}
		l.ranks = append(l.ranks, ranks)
		sum += k.Share
		shares[i] = k.Share
	}
	if math.Abs(sum-1) > 1e-6 {
		return nil, fmt.Errorf("the shares of the classes sum to %g, not 1", sum)
	}
	l.set(shares)
	return l, nil
}

// check says what is wrong with a class, and returns how it draws its mailboxes.
func (c *MailboxClass) check() (dist.Ranks, error) {
	switch {
	case !(c.Share >= 0):
		return nil, fmt.Errorf("share must not be negative")
	case (c.Bytes == nil) != (c.Hold == nil):
		return nil, fmt.Errorf("memory is held for a time: both are needed, or neither")
	case c.Bytes != nil && c.Boxes > 0:
		return nil, fmt.Errorf("either has mailboxes or takes memory by itself")
	case c.Bytes != nil:
		return dist.ParseRanks("", 1)
	case c.Boxes < 1:
		return nil, fmt.Errorf("has no mailboxes")
	case c.Prefix[0] == spelled || len(c.Prefix)+len(strconv.FormatUint(c.Boxes, 10)) > maxKey:
		return nil, fmt.Errorf("prefix %q: must not begin with %c, and leave room for a number in a key of %d bytes", c.Prefix, spelled, maxKey)
	}
	for _, b := range []byte(c.Prefix) {
		if b <= ' ' || b == 0x7f {
			return nil, fmt.Errorf("prefix %q: must not hold spaces or control characters", c.Prefix)
		}
	}
	return dist.ParseRanks(c.Popularity, c.Boxes)
}

// Vary has the shares of the classes change with time.
func (l *MailboxLoad) Vary(s *Shares) error { return l.vary(s) }

// Next draws a class and a mailbox of it.
func (l *MailboxLoad) Next(rng *rand.Rand, op *Op) {
	class := l.pick(rng.Float64())
	c := &l.classes[class]
	*op = Op{Kind: Get, Class: uint16(class)}
	var box Mailbox
	if c.Bytes != nil {
		box.Bytes = max(int64(min(c.Bytes.Sample(rng), maxMailbox)), 1)
		// Whole milliseconds, as a key has them.
		box.Hold = time.Duration(min(c.Hold.Sample(rng), float64(maxHold))).Truncate(time.Millisecond)
		l.key = appendMailbox(l.key[:0], box)
		op.Ref = uint64(box.Bytes)
	} else {
		op.Ref = l.ranks[class].Sample(rng)
		l.key = strconv.AppendUint(append(l.key[:0], c.Prefix...), op.Ref, 10)
		box, _ = l.boxes.Of(l.key)
	}
	l.steps = l.boxes.Steps(l.steps[:0], box)
	op.Key, op.Steps = l.key, l.steps
}

// meanMailboxes is how many mailboxes of a class stand for all of them. It takes some milliseconds.
const meanMailboxes = 20_000

// Mean returns the mean work of each class, with its share, for the machine's optimum. Memory is no part of it: it is held, not used up.
func (l *MailboxLoad) Mean(b machine.Bus) (demands []machine.Demand, shares []float64) {
	for i, c := range l.classes {
		var d machine.Demand
		// The computing grows with the bytes in a straight line, so the mean size has the mean work.
		d.Mean(l.boxes.Steps(nil, Mailbox{Bytes: int64(l.meanBytes(i))})[1], b)
		demands, shares = append(demands, d), append(shares, c.Share)
	}
	return demands, shares
}

// meanBytes returns the mean size of what a class asks for, if it asks for all alike.
func (l *MailboxLoad) meanBytes(class int) float64 {
	c := &l.classes[class]
	if c.Bytes != nil {
		return c.Bytes.Mean()
	}
	n, sum := min(c.Boxes, meanMailboxes), 0.0
	for i := range n {
		l.key = strconv.AppendUint(append(l.key[:0], c.Prefix...), c.Boxes/n*i, 10)
		box, _ := l.boxes.Of(l.key)
		sum += float64(box.Bytes)
	}
	return sum / float64(n)
}
