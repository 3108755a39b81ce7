package load

import "errors"

// Retry has a request that was shed, or refused by its client's own control, sent once more, at once, to the next of several servers. Its latency and
// its fate are those of the whole, from the instant at which it was due.
type Retry struct {
	// Budget is how many retries each request of a client earns it, from 0 to 1, so that retries are at most this share of what is asked however many are
	// refused: they cannot amplify an overload. A client saves ten of them at most.
	Budget float64
	First  bool // every client's primary server is the first; otherwise they are spread evenly
}

// maxSaved is how many retries a client can save up: enough for a burst of refusals, little beside what it sends.
const maxSaved = 10

// Check says what is wrong with r among so many servers; nil if nothing is.
func (r *Retry) Check(servers int) error {
	switch {
	case servers < 2:
		return errors.New("a retry needs another server to go to; give at least two")
	case !(r.Budget >= 0 && r.Budget <= 1): // written so that it catches NaN
		return errors.New("the retry budget is a share of the requests between 0 and 1")
	}
	return nil
}

// Primary returns which of several servers a client asks first. r may be nil: nobody retries, and clients are spread.
func (r *Retry) Primary(client uint64, servers uint32) uint8 {
	if servers == 1 || r != nil && r.First {
		return 0
	}
	return uint8(client % uint64(servers))
}

// Savings are the retries that clients have saved up.
type Savings struct {
	budget float64
	of     []float64 // by client
}

// Savings returns those of so many clients, who have none yet; nil if r is nil.
func (r *Retry) Savings(clients int) *Savings {
	if r == nil {
		return nil
	}
	return &Savings{budget: r.Budget, of: make([]float64, clients)}
}

// Earn gives a client what a request is worth. It does nothing where nobody retries.
func (s *Savings) Earn(client uint32) {
	if s != nil {
		s.of[client] = min(s.of[client]+s.budget, maxSaved)
	}
}

// Has reports whether a client has saved up a retry. Nobody has where nobody retries.
func (s *Savings) Has(client uint32) bool {
	const nearlyWhole = 1 - 1e-9 // a tenth, ten times
	return s != nil && s.of[client] >= nearlyWhole
}

// Spend takes a retry from a client that has one.
func (s *Savings) Spend(client uint32) { s.of[client]-- }
