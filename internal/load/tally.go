package load

import (
	"fmt"
	"time"

	"spillway/clock"
	"spillway/control"
	"spillway/internal/hist"
	"spillway/internal/reqlog"
	"spillway/workloads"
)

// BucketSpan is the grain of the time series that a Tally keeps unless it is told another.
const BucketSpan = 100 * time.Millisecond

// AllName is the name of the pooled class.
const AllName = "all"

// Class is a kind of request with an objective of its own.
type Class struct {
	Name string
	SLO  time.Duration // limit on latency from the intended instant; 0 for none

	// Priority is the business priority, 0 the most important: that of a request is control.PriorityOf(Priority, its sequence number).
	Priority uint8
}

// Bucket is one span of the window. A request belongs to the bucket in which it was due, so the buckets sum to the counts.
type Bucket struct {
	OK        int64
	Shed      int64         // refused, rejected, dropped, expired
	Completed int64         // ok and late
	Latency   time.Duration // sum over completed requests
}

// ClassTally is what became of the requests of one class that were due in the window.
type ClassTally struct {
	Class
	Fates   [reqlog.NumFates]int64
	Reasons [control.NumReasons]int64 // of shed requests

	Latency *hist.Hist // the response time: intended to reply, of completed requests
	Trip    *hist.Hist // sent to reply, of completed requests: without the sender's own lateness
	SendLag *hist.Hist // intended to sent, of sent requests
	Queue   *hist.Hist // the server's queueing delay, of completed requests for which it was told
	Service *hist.Hist // the server's service time, likewise

	Reads, Hits       int64 // keys that completed reads asked for; those that were found
	BytesOut, BytesIn int64 // of sent requests; of their replies
	Buckets           []Bucket

	span time.Duration // of a bucket
}

// Tally collects the requests of one window. It is not safe for concurrent use: keep one a thread and merge.
type Tally struct {
	Classes  []ClassTally
	From, To clock.Instant // the window is [From, To)
	Span     time.Duration // of a bucket

	// Busy is the time that requests spent between sent and done within the window, summed over all requests given to Add, those of
	// the warm-up included. Divided by the window it is the mean number in flight, to be held against a count of them (Little's law).
	Busy time.Duration
}

// NewTally returns an empty tally of the window [from, to) with buckets of BucketSpan.
func NewTally(classes []Class, from, to clock.Instant) *Tally {
	return NewTallyIn(BucketSpan, classes, from, to)
}

// NewTallyIn returns an empty tally of the window [from, to) with buckets of the given span.
func NewTallyIn(span time.Duration, classes []Class, from, to clock.Instant) *Tally {
	t := &Tally{Classes: make([]ClassTally, len(classes)), From: from, To: max(from, to), Span: span}
	buckets := t.buckets()
	for i, c := range classes {
		t.Classes[i] = newClassTally(c, buckets, span)
	}
	return t
}

func newClassTally(c Class, buckets int, span time.Duration) ClassTally {
	return ClassTally{
		Class: c, Latency: hist.New(), Trip: hist.New(), SendLag: hist.New(), Queue: hist.New(), Service: hist.New(),
		Buckets: make([]Bucket, buckets), span: span,
	}
}

// Add takes one settled record. Records due outside the window only count towards Busy.
func (t *Tally) Add(r *reqlog.Record) {
	if r.Fate.Sent() {
		if overlap := min(r.Done, t.To).Sub(max(r.Sent, t.From)); overlap > 0 {
			t.Busy += overlap
		}
	}
	if r.Intended < t.From || r.Intended >= t.To {
		return
	}
	t.Classes[r.Class].add(r, int(r.Intended.Sub(t.From)/t.Span))
}

func (c *ClassTally) add(r *reqlog.Record, bucket int) {
	c.Fates[r.Fate]++
	b := &c.Buckets[bucket]
	if r.Fate.Sent() {
		c.SendLag.Record(r.SendLag())
		c.BytesOut += int64(r.BytesOut)
		c.BytesIn += int64(r.BytesIn)
	}
	switch r.Fate {
	case reqlog.OK, reqlog.Late:
		c.complete(r, b)
	case reqlog.Refused, reqlog.Rejected, reqlog.Dropped, reqlog.Expired:
		c.Reasons[r.Reason]++
		b.Shed++
	}
}

func (c *ClassTally) complete(r *reqlog.Record, b *Bucket) {
	latency := r.Latency()
	c.Latency.Record(latency)
	c.Trip.Record(r.Done.Sub(r.Sent))
	if r.Queued >= 0 {
		c.Queue.Record(r.Queued)
	}
	if r.Service >= 0 {
		c.Service.Record(r.Service)
	}
	if kind := workloads.Kind(r.Kind); kind == workloads.Get || kind == workloads.MultiGet {
		c.Reads += int64(r.Keys)
		c.Hits += int64(r.Hits)
	}
	if r.Fate == reqlog.OK {
		b.OK++
	}
	b.Completed++
	b.Latency += latency
}

// Cut ends the window at an earlier instant, before any record due later was added: what a run that is cut short does.
func (t *Tally) Cut(at clock.Instant) {
	t.To = min(t.To, max(at, t.From))
	buckets := t.buckets()
	for i := range t.Classes {
		c := &t.Classes[i]
		c.Buckets = c.Buckets[:min(buckets, len(c.Buckets))]
	}
}

// buckets returns how many spans cover the window; the last may be cut.
func (t *Tally) buckets() int { return int((t.Window() + t.Span - 1) / t.Span) }

// Window returns the length of the window, the divisor of every rate.
func (t *Tally) Window() time.Duration { return t.To.Sub(t.From) }

// Merge adds all of o, a tally of the same classes and window by another thread.
func (t *Tally) Merge(o *Tally) error {
	if len(t.Classes) != len(o.Classes) || t.From != o.From || t.To != o.To || t.Span != o.Span {
		return fmt.Errorf("load: tallies of different windows or classes cannot be merged: [%v, %v) with %d classes, [%v, %v) with %d",
			t.From, t.To, len(t.Classes), o.From, o.To, len(o.Classes))
	}
	for i := range t.Classes {
		t.Classes[i].merge(&o.Classes[i])
	}
	t.Busy += o.Busy
	return nil
}

// All returns the classes pooled: sums of counts, merged histograms. Its SLO is 0, since classes may differ.
func (t *Tally) All() ClassTally {
	buckets := 0
	if len(t.Classes) > 0 {
		buckets = len(t.Classes[0].Buckets)
	}
	all := newClassTally(Class{Name: AllName}, buckets, t.Span)
	for i := range t.Classes {
		all.merge(&t.Classes[i])
	}
	return all
}

func (c *ClassTally) merge(o *ClassTally) {
	for i, n := range o.Fates {
		c.Fates[i] += n
	}
	for i, n := range o.Reasons {
		c.Reasons[i] += n
	}
	c.Latency.Merge(o.Latency)
	c.Trip.Merge(o.Trip)
	c.SendLag.Merge(o.SendLag)
	c.Queue.Merge(o.Queue)
	c.Service.Merge(o.Service)
	c.Reads += o.Reads
	c.Hits += o.Hits
	c.BytesOut += o.BytesOut
	c.BytesIn += o.BytesIn
	for i, b := range o.Buckets {
		to := &c.Buckets[i]
		to.OK += b.OK
		to.Shed += b.Shed
		to.Completed += b.Completed
		to.Latency += b.Latency
	}
}

// Arrivals returns how many requests were due in the window: the sum of the fates.
func (c *ClassTally) Arrivals() int64 { return c.sum(func(reqlog.Fate) bool { return true }) }

// Sent returns how many of them reached the wire.
func (c *ClassTally) Sent() int64 { return c.sum(reqlog.Fate.Sent) }

// Completed returns how many were answered, in time or late.
func (c *ClassTally) Completed() int64 { return c.sum(reqlog.Fate.Completed) }

// Shed returns how many were refused by the client's own control, or rejected, dropped or expired by the server.
func (c *ClassTally) Shed() int64 { return c.Fates[reqlog.Refused] + c.ServerShed() }

// ServerShed returns how many were rejected, dropped or expired by the server.
func (c *ClassTally) ServerShed() int64 {
	return c.Fates[reqlog.Rejected] + c.Fates[reqlog.Dropped] + c.Fates[reqlog.Expired]
}

func (c *ClassTally) sum(which func(reqlog.Fate) bool) (n int64) {
	for f := reqlog.Pending; f < reqlog.NumFates; f++ {
		if which(f) {
			n += c.Fates[f]
		}
	}
	return n
}
