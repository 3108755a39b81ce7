// Package control is the core of overload control: what a request is to a controller, what a controller may answer, and the Gate
// that applies the answers to a queue and a number of slots.
//
// Everything here is a state machine. `now` comes in as an argument; what to do next goes out as actions appended to the caller's
// slice. There is no goroutine, no lock, no clock and no input or output, so the same code runs in a server under real time
// and in the simulator under virtual time. Package guard puts a blocking face on it for goroutines.
//
// Nothing in this package is safe for concurrent use: the owner of a Gate serialises the calls to it and to its controller.
package control

import (
	"iter"
	"time"

	"spillway/clock"
)

// Request is what a controller may know of a request.
type Request struct {
	ID       uint64        // unique among the requests in flight at one Gate; chosen by the driver
	Client   uint32        // the sender: one connection, or one client of several connections
	Class    uint16        // query type, an index into the driver's classes
	Priority uint16        // the smaller the more important; see PriorityOf
	Tag      uint32        // what Decision.Tag said at arrival; comes back in every event of this request
	Bytes    int64         // size of what is asked for, where known; 0 when not
	Arrived  clock.Instant // set by Gate.Arrive
	Deadline clock.Instant // when queueing any longer is pointless; 0 for none
	Budget   time.Duration // the waiting this request may be asked to bear, Waited included; 0 for no budget
	Waited   time.Duration // every wait so far: queues, locks, sections

	// QueueDelay is the server's queueing delay when the request arrived: the age of the oldest waiter in Gate or run queue, 0 while a
	// core is idle. The driver sets it; one that knows of nothing but its Gate, to Gate.QueueDelay.
	QueueDelay time.Duration
}

// Levels is how many priorities there are to each level of business priority: those of users.
const Levels = 128

// PriorityOf returns the priority of a user's requests of a class: business is the priority of the class, 0 the most important, user any
// number that stands for the user or, where users are not known, the request. It is spread evenly over Levels.
func PriorityOf(business uint8, user uint64) uint16 {
	// Fibonacci hashing: neighbouring numbers, as clients have, must not become neighbouring priorities.
	return uint16(business)*Levels + uint16(user*0x9e3779b97f4a7c15>>57)
}

// Stage says where a request stands when a controller is asked about it.
type Stage uint8

// The two places at which a controller is asked.
const (
	AtArrival Stage = iota // it has just been read from its connection
	AtDequeue              // it is next in the queue and a slot is free
)

// Verdict is the essence of a decision.
type Verdict uint8

// The verdicts. Wait leaves a request where it is: at the head of the Gate's queue (it is asked again after the next event or tick), or
// parked in a Section (a Resume action will name it). At arrival a Gate takes it for Admit, since every admitted request goes through
// the queue.
const (
	Admit Verdict = iota
	Wait
	Reject
)

// Decision is a controller's answer.
type Decision struct {
	Verdict Verdict
	Reason  Reason // why, when Verdict is Reject
	Tag     uint32 // kept with the request when non-zero, and given back in its events
	Express bool   // at arrival: it goes past all that are not Express, such as a health check past what is held back
}

// EventKind names what happened to a request.
type EventKind uint8

// The events of a request, in the order in which they can happen. An admitted request has Queued, then either Started and Finished or
// Refused; one that is turned away at arrival has Refused alone.
const (
	Queued EventKind = iota
	Started
	Finished
	Refused
)

// Event tells a controller what became of a request.
type Event struct {
	Kind    EventKind
	Stage   Stage         // of Refused: AtArrival if it was never queued, AtDequeue if it was
	Reason  Reason        // of Refused
	Failed  bool          // of Finished: the handler reported an error
	Service time.Duration // of Finished: service start to finish
	Request Request
}

// Level is how full one named resource is, as a share of its limit.
type Level struct {
	Name string
	Used float64
}

// Signals is what sensors saw; the driver reads them and passes them by value with each tick.
type Signals struct {
	QueueDelay time.Duration // age of the oldest waiter in Gate or run queue; 0 while a core is idle
	Saturated  bool          // every core is busy
	MemBytes   uint64        // bytes moved over the memory bus since the run began
	MemAt      clock.Instant // when MemBytes was read; two ticks with the same MemAt have seen one sample
	Joules     float64       // energy used since the run began
	Levels     []Level       // named resources; owned by the driver, valid during the call
}

// ShortestInterval is the least time between two ticks that a controller's settings may ask for. Below it a second of virtual time takes
// a simulator hours, and nothing that a driver measures is that fresh.
const ShortestInterval = time.Microsecond

// Controller decides which requests are served. It is not safe for concurrent use; its owner serialises.
type Controller interface {
	// Decide answers for one request at one stage. At AtDequeue the verdict Wait keeps the request at the head of the queue.
	// Resources are best set aside at Observe(Started), not here: a decision may still be overruled.
	Decide(now clock.Instant, s Stage, r *Request) Decision
	// Observe is told what became of a request.
	Observe(now clock.Instant, e Event)
	// Tick does periodic work and returns when it wants to be called next, clock.Never if never again. It must bear being called
	// earlier than that: a Chain ticks all its members when one of them is due. Drivers tick once before the first request.
	Tick(now clock.Instant, s Signals) (next clock.Instant)
}

// Orderer is implemented by controllers that say in which order those who wait are taken out of the Gate's queue. Under any other it is
// first in, first out.
type Orderer interface {
	// Order is asked whenever somebody may leave the queue. Those whom Decide called Express go first whatever it says.
	Order(now clock.Instant) Order
}

// Order is how a Gate takes from its queue.
type Order struct {
	Newest bool          // the request that came last is next; otherwise the one that came first
	MaxAge time.Duration // who has waited for longer expires; 0 for no limit but the request's deadline
}

// Mode says what entering a full Section does.
type Mode uint8

// The modes of a Section.
const (
	Try              Mode = iota // refuse at once
	WaitMode                     // wait for one's turn
	WaitWithinBudget             // wait as long as the request's budget allows
)

// Section is a stretch of service that few requests may be in at once: a lock, memory-bound work.
type Section interface {
	// Enter asks to go in. Wait means that a Resume action will name the request later.
	Enter(now clock.Instant, r *Request, m Mode) Decision
	// Leave gives the place back and appends Resume actions for those whose turn it is.
	Leave(now clock.Instant, r *Request, out []Action) []Action
}

// Issuer is implemented by controllers that tell clients something with every reply: the credits that they hold, or the least important
// priority that is still admitted. What the number means is between the controller and its Throttle at the client.
type Issuer interface {
	// Demand records how many requests client would like to send beside those already sent. The first call for a client registers it.
	Demand(now clock.Instant, client uint32, n int)
	// Credits returns the number that client is to be told now, on the reply being written.
	Credits(now clock.Instant, client uint32) int
	// Wake appends Credit actions for silent clients that should be told of credits. The Gate calls it whenever something has happened.
	Wake(now clock.Instant, out []Action) []Action
	// Forget takes note that client has gone, with what it held. What it has sent and is still under way ends by events, as ever.
	Forget(now clock.Instant, client uint32)
}

// Meter is implemented by controllers and sections with something to plot, such as "credits" or "limit".
type Meter interface {
	Meters() iter.Seq2[string, float64]
}

// ActionKind names what a driver has to do.
type ActionKind uint8

// The actions.
const (
	Start  ActionKind = iota // serve Request now; report back with Gate.Finish
	Queue                    // Request waits at Place; nothing to do unless it is to be withdrawn
	Refuse                   // answer Request with Reason
	Resume                   // Request may go on in its Section
	Credit                   // tell client Request.Client of Credits, if it has asked; see Polls
)

// Action is what a driver has to do next. Gates and Sections append actions to the caller's slice.
type Action struct {
	Kind    ActionKind
	Reason  Reason
	Credits int32
	Place   Place
	Request Request
}

// Place names a position in a Gate's queue, so that a waiting request can be withdrawn without a search.
type Place uint64
