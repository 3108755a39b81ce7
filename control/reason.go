package control

// Reason says why a request was refused. The list is closed; its names are on the wire (SERVER_ERROR overloaded NAME) and in results.
type Reason uint8

// The reasons. Each belongs to exactly one Shed: see Reason.Shed.
const (
	NoReason Reason = iota

	QueueFull  // the queue has reached its bound
	QueueDelay // waiting would take, or takes, too long
	Limit      // a concurrency limit is reached
	SLO        // the objective would be missed
	Priority   // below the admission level
	Fraction   // this share of requests is turned away
	Resource   // a resource is scarce
	Budget     // the budget of the class or tenant is used up

	CoDel     // sojourn-time AQM
	Lock      // a lock's queue is too long
	Memory    // the memory section is full
	Cancelled // the client went away, or the handler was told to stop

	Expired // the deadline passed in a queue

	NumReasons // how many there are, for arrays indexed by Reason
)

var reasonNames = [NumReasons]string{
	NoReason:   "none",
	QueueFull:  "queue_full",
	QueueDelay: "queue_delay",
	Limit:      "limit",
	SLO:        "slo",
	Priority:   "priority",
	Fraction:   "fraction",
	Resource:   "resource",
	Budget:     "budget",
	CoDel:      "codel",
	Lock:       "lock",
	Memory:     "memory",
	Cancelled:  "cancelled",
	Expired:    "expired",
}

// String returns the name of r as it stands on the wire.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return "unknown"
}

// ParseReason returns the reason called name; ok is false when there is none of that name. NoReason is not a name.
func ParseReason(name []byte) (r Reason, ok bool) {
	for r = NoReason + 1; r < NumReasons; r++ {
		if string(name) == reasonNames[r] {
			return r, true
		}
	}
	return NoReason, false
}

// Shed is the fate that a refusal amounts to.
type Shed uint8

// The three ways to be shed.
const (
	NotShed      Shed = iota
	ShedRejected      // turned away before it queued or ran
	ShedDropped       // removed after it had queued or begun
	ShedExpired       // its deadline passed in a queue
)

// Shed returns the fate that r belongs to.
func (r Reason) Shed() Shed {
	switch {
	case r == NoReason || r >= NumReasons:
		return NotShed
	case r == Expired:
		return ShedExpired
	case r >= CoDel:
		return ShedDropped
	default:
		return ShedRejected
	}
}
