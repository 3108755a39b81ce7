package report

// Replay describes the log that a run replayed.
type Replay struct {
	Requests    int64   `json:"requests"`
	Seconds     float64 `json:"seconds"` // that the log takes as it was recorded
	RPS         float64 `json:"rps"`     // on the mean, as it was recorded
	Keys        int64   `json:"keys"`
	Stored      int64   `json:"stored"` // keys that are read before they are written
	StoredBytes int64   `json:"stored_bytes"`
	Digest      string  `json:"digest"` // of all requests and their instants
	Passed      int64   `json:"rows_passed_over,omitempty"`
}

// digest returns that of the log, nothing for a run without one.
func (r *Replay) digest() string {
	if r == nil {
		return ""
	}
	return r.Digest
}
