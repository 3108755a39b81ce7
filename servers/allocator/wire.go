// Package allocator shares one budget over locations: an HTTP service that hears from each location what it is asked for and tells it what it
// may use (package control/capacity decides), and the location's end of that conversation.
//
// A location posts its demand of the last cycle, and what it has in force, to /report, and is answered with its grants and how long they hold. The
// answer waits until there is something new to say, or a cycle begins; then the location reports again, at once. What from one location is given to another only once the first has confirmed that it uses less, or cannot be using more because its lease has ended;
// and only for as long as the first cannot return to its baseline. So what is in force at any instant sums to no more than the budget, whatever
// is lost on the way and in whatever order it arrives (docs/adr/0019, 0031).
package allocator

// Report is what a location tells the allocator. It has one under way at all times, and takes no answer to any but the last.
type Report struct {
	Edge   string             `json:"edge"`    // name of the location
	Seq    int64              `json:"seq"`     // grows from report to report; one that comes after a later one is refused
	Last   int64              `json:"last"`    // ID of the last Grants that were received; 0 for none
	Demand map[string]float64 `json:"demand"`  // requests per second by class, those turned away included
	Holds  map[string]float64 `json:"holds"`   // what is in force at the location, by class
	WaitMS int64              `json:"wait_ms"` // how long the answer may be kept back; 0 for one at once
}

// Grants is the answer to a Report.
type Grants struct {
	ID       int64              `json:"id"`
	Cycle    int64              `json:"cycle"`    // of the allocator that decided on them
	Rates    map[string]float64 `json:"rates"`    // requests per second by class
	Baseline map[string]float64 `json:"baseline"` // what is in force at the location when they have ended

	// LeaseMS is how long they hold, from when they are received on; BorrowedMS is how long what is above the baseline does, from when the report
	// was sent on. So neither end depends on how long anything was under way, to the detriment of others.
	LeaseMS    int64 `json:"lease_ms"`
	BorrowedMS int64 `json:"borrowed_ms"`
}

// State is what an allocator shows of itself.
type State struct {
	Cycle     int64           `json:"cycle"`
	Learning  bool            `json:"learning"` // it has been started a moment ago, and changes nothing yet
	Budget    float64         `json:"budget"`
	Bound     float64         `json:"bound"` // the most that may be in force everywhere now
	Locations []LocationState `json:"locations"`
}

// LocationState is what is known of one location.
type LocationState struct {
	Name      string             `json:"name"`
	Baseline  map[string]float64 `json:"baseline"`
	Demand    map[string]float64 `json:"demand"` // what the last cycle took for it
	Granted   map[string]float64 `json:"granted"`
	Bound     map[string]float64 `json:"bound"`      // the most that may be in force there
	Reports   uint64             `json:"reports"`    // so far
	SilentMS  int64              `json:"silent_ms"`  // since the last one; -1 before the first
	LeasedMS  int64              `json:"leased_ms"`  // until the end of the lease; 0 when it has none
	CountGone bool               `json:"count_gone"` // its baseline is in use elsewhere
}
