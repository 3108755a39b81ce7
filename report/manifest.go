package report

import (
	"encoding/json"
	"fmt"
	"time"
)

// SchemaVersion is the version of the layout of a result directory. It grows when a reader of the old layout would misread the new.
const SchemaVersion = 1

// The states of a run.
const (
	StateRunning  = "running" // also what a killed loadgen leaves behind
	StateComplete = "complete"
	StateCutShort = "cut short"
	StateFailed   = "failed"
)

// Manifest says under which circumstances the numbers beside it came about.
type Manifest struct {
	SchemaVersion   int          `json:"schema_version"`
	Name            string       `json:"name"` // of the profile, or "drive"
	Title           string       `json:"title,omitempty"`
	Ground          string       `json:"ground"`
	State           string       `json:"state"`
	Error           string       `json:"error,omitempty"` // of a run that failed
	Started         time.Time    `json:"started"`
	Ended           time.Time    `json:"ended,omitzero"`
	Argv            []string     `json:"argv"`
	Seed            uint64       `json:"seed"`
	Pacing          string       `json:"pacing"` // as asked for
	Versions        Versions     `json:"versions"`
	Machine         Machine      `json:"machine"`
	Server          Server       `json:"server"`
	Classes         []Class      `json:"classes"`
	Planned         int          `json:"points_planned"`
	Capacity        *Capacity    `json:"capacity,omitempty"`
	Points          []PointFacts `json:"points"` // in the order in which they ran
	ProfileText     string       `json:"profile_text"`
	ResolvedProfile string       `json:"resolved_profile"` // with every default, preset and --set
}

// Versions are the versions of what took part.
type Versions struct {
	Module string `json:"module"`
	Go     string `json:"go"`
	Kernel string `json:"kernel,omitempty"`
}

// Machine is the computer that measured.
type Machine struct {
	CPUModel string `json:"cpu_model,omitempty"`
	Cores    int    `json:"cores"`
	RAMBytes uint64 `json:"ram_bytes,omitempty"`
}

// Server is what was measured.
type Server struct {
	Kind       string   `json:"kind"`
	Version    string   `json:"version,omitempty"` // what it says of itself
	Target     string   `json:"target,omitempty"`  // of one that ran already
	Argv       []string `json:"argv,omitempty"`    // of one that loadgen started; the controller's part is in each point
	GOMAXPROCS int      `json:"gomaxprocs,omitempty"`
}

// Class is a kind of request and its objective.
type Class struct {
	Name  string  `json:"name"`
	SLOUS float64 `json:"slo_us,omitempty"`
}

// Capacity is the outcome of a search for the highest rate at which every class keeps its objective without any control.
type Capacity struct {
	RPS    float64 `json:"rps"`
	Low    float64 `json:"bracket_low_rps"`            // the highest rate that held
	High   float64 `json:"bracket_high_rps,omitempty"` // the lowest that did not; absent when none was found
	Probes []Probe `json:"probes"`
}

// Probe is one short measurement of a capacity search.
type Probe struct {
	RPS        float64 `json:"offered_rps"`
	Holds      bool    `json:"holds"`
	Why        string  `json:"why,omitempty"` // it does not hold
	GoodputRPS float64 `json:"goodput_rps"`
	P99US      float64 `json:"latency_p99_us,omitempty"`
}

// PointFacts are the circumstances of one point.
type PointFacts struct {
	Controller string            `json:"controller"`
	Settings   map[string]string `json:"settings,omitempty"`
	Load       string            `json:"load"`
	Repeat     int               `json:"repeat"`
	Seed       uint64            `json:"seed"`
	Started    time.Time         `json:"started,omitzero"` // of the window
	WindowS    float64           `json:"window_s"`         // as measured; shorter than asked for when cut short
	Preloaded  int64             `json:"preloaded_items"`  // stored and verified before, counted apart from the load
	RealTime   bool              `json:"realtime_priority"`
	SenderCPU  float64           `json:"sender_cpu_ratio"` // of one core, in the window
	Notes      map[string]string `json:"notes,omitempty"`  // by code of warning: the numbers behind it
	LastWords  string            `json:"server_stderr,omitempty"`
}

// parseManifest reads a manifest, the version first, so that another version is refused as such and not for some field of it.
func parseManifest(text []byte, name string) (*Manifest, error) {
	var version struct {
		SchemaVersion int `json:"schema_version"`
	}
	if err := json.Unmarshal(text, &version); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	switch v := version.SchemaVersion; {
	case v == 0:
		return nil, fmt.Errorf("%s: no schema_version; this is not a manifest of loadgen", name)
	case v != SchemaVersion:
		return nil, fmt.Errorf("%s: the results have schema version %d, this loadgen reads version %d; use the loadgen that wrote them",
			name, v, SchemaVersion)
	}
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &m, nil
}
