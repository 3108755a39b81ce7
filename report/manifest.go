package report

import (
	"encoding/json"
	"fmt"
	"time"
)

// SchemaVersion is the version of the layout of a result directory. It grows when a reader of the old layout would misread the new.
//
// Version 2 has variants of a profile in one run, whose rows differ in column profile only: a reader of version 1 would pool them. It also
// has what the profile claims, its phases, controllers and objectives in the manifest. A result of version 1 has none of these, and reads
// as one without.
const SchemaVersion = 2

// oldestSchema is the first version that can still be read.
const oldestSchema = 1

// The states of a run.
const (
	StateRunning  = "running" // also what a killed loadgen leaves behind
	StateComplete = "complete"
	StateCutShort = "cut short"
	StateFailed   = "failed"
)

// Manifest says under which circumstances the numbers beside it came about.
type Manifest struct {
	SchemaVersion   int              `json:"schema_version"`
	Name            string           `json:"name"` // of the profile, or "drive"
	Title           string           `json:"title,omitempty"`
	Ground          string           `json:"ground"`
	State           string           `json:"state"`
	Error           string           `json:"error,omitempty"` // of a run that failed
	Started         time.Time        `json:"started"`
	Ended           time.Time        `json:"ended,omitzero"`
	Resumed         []time.Time      `json:"resumed,omitempty"` // when somebody went on with it
	Argv            []string         `json:"argv"`
	Seed            uint64           `json:"seed"`
	Pacing          string           `json:"pacing"` // as asked for
	PacingTest      []Pacing         `json:"pacing_self_test,omitempty"`
	Sampling        *Sampling        `json:"sampling,omitempty"` // on the ground host
	Versions        Versions         `json:"versions"`
	Machine         Machine          `json:"machine"`
	ModelledMachine *ModelledMachine `json:"modelled_machine,omitempty"` // what the server ran on, on the grounds sim and model
	TimeScale       int              `json:"time_scale,omitempty"`       // wall-clock time that a unit of modelled time took, on the ground model
	Jobs            int              `json:"jobs,omitempty"`             // points at the same time, on the ground sim
	Server          Server           `json:"server"`
	Classes         []Class          `json:"classes"`
	Paper           *Paper           `json:"paper,omitempty"`
	Controllers     []ControllerInfo `json:"controllers,omitempty"` // all of the profile that were to be measured, in its order
	Variants        []Variant        `json:"variants,omitempty"`    // in the order of the profile
	Phases          []Phase          `json:"phases,omitempty"`      // of the window, in time
	Claims          []Claim          `json:"claims,omitempty"`
	Validation      *Validation      `json:"validation,omitempty"` // of a run that holds a prediction against a measurement
	Allocation      *Allocation      `json:"allocation,omitempty"` // of a budget that is shared; nil of anything else
	Replay          *Replay          `json:"replay,omitempty"`     // of a log that is replayed; nil of anything else
	Planned         int              `json:"points_planned"`
	Capacity        *Capacity        `json:"capacity,omitempty"`
	Points          []PointFacts     `json:"points"` // in the order in which they ran
	ProfileText     string           `json:"profile_text"`
	ResolvedProfile string           `json:"resolved_profile"` // with every default, preset and --set
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

// ModelledMachine is the description of a machine that takes the place of the computer.
type ModelledMachine struct {
	Name    string   `json:"name,omitempty"` // of its file; empty when it is described in the profile
	Figures []Figure `json:"figures"`
}

// Figure is a number of a description and how somebody came to it: measured, published, derived or assumed.
type Figure struct {
	Name       string `json:"name"`
	Value      string `json:"value"`
	Provenance string `json:"provenance"`
	Spread     Value  `json:"spread,omitzero"` // by which share of it a measured one varied while it was measured
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
	Name       string      `json:"name"`
	SLOUS      float64     `json:"slo_us,omitempty"`     // the limit of one request: in time or late
	Objectives []Objective `json:"objectives,omitempty"` // judged in slo.csv
	Priority   uint8       `json:"priority,omitempty"`   // to the business
}

// Capacity is what factors of load are shares of. On the ground host it is the outcome of a search for the highest rate at which every class
// keeps its objective without any control; on a modelled machine it is the rate at which the first of its resources is full.
type Capacity struct {
	RPS        float64  `json:"rps"`
	Analytic   bool     `json:"analytic,omitempty"`         // it follows from the model, nothing was probed
	Bottleneck string   `json:"bottleneck,omitempty"`       // the resource that is full first: cores, bus, or a lock with its name
	AtLeast    bool     `json:"at_least,omitempty"`         // it is not known: no rate close above RPS failed by the server's own fault
	Low        float64  `json:"bracket_low_rps,omitempty"`  // the highest rate that held
	High       float64  `json:"bracket_high_rps,omitempty"` // the lowest that the server failed; absent when none was found
	Uncertain  bool     `json:"uncertain,omitempty"`        // it held in a short probe, and nothing was seen to hold for as long as a point takes
	Remarks    []string `json:"remarks,omitempty"`          // on the search
	Probes     []Probe  `json:"probes,omitempty"`
}

// Probe is one short measurement of a capacity search.
type Probe struct {
	RPS        float64 `json:"offered_rps"`
	Holds      bool    `json:"holds"`
	Unknown    bool    `json:"unknown,omitempty"` // it failed by the generator's own fault, so nothing is known of the rate
	Why        string  `json:"why,omitempty"`     // it does not hold, or is not known
	GoodputRPS float64 `json:"goodput_rps"`
	P99US      float64 `json:"latency_p99_us,omitempty"`
}

// Pacing is how late requests left on this computer in a short test before the run, without a server.
type Pacing struct {
	Pace     string  `json:"pace"`
	RPS      float64 `json:"offered_rps"`
	LagP50US float64 `json:"send_lag_p50_us"`
	LagP99US float64 `json:"send_lag_p99_us"`
	LagMaxUS float64 `json:"send_lag_max_us"`
}

// Responses are response times of a class when every request that was not answered counts as infinitely slow, and those from send to reply.
// A percentile that is not there is infinite: fewer requests than that were answered.
type Responses struct {
	Class         string  `json:"class"`
	AnsweredRatio float64 `json:"answered_ratio"` // of all that were due
	P50US         float64 `json:"adjusted_p50_us,omitempty"`
	P90US         float64 `json:"adjusted_p90_us,omitempty"`
	P99US         float64 `json:"adjusted_p99_us,omitempty"`
	P999US        float64 `json:"adjusted_p999_us,omitempty"`
	FromSendP50US float64 `json:"from_send_p50_us,omitempty"` // of answered requests
	FromSendP99US float64 `json:"from_send_p99_us,omitempty"`
}

// PointFacts are the circumstances of one point.
type PointFacts struct {
	Variant    string            `json:"variant,omitempty"` // of the profile
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
	Senders    int               `json:"senders,omitempty"`
	ClosedLoop bool              `json:"closed_loop,omitempty"`
	Sequence   string            `json:"sequence,omitempty"`  // how many requests, and a hash of what was asked when and by whom
	Responses  []Responses       `json:"responses,omitempty"` // one a class, then all
	Notes      map[string]string `json:"notes,omitempty"`     // by code of warning: the numbers behind it
	LastWords  string            `json:"server_stderr,omitempty"`
	WallS      float64           `json:"wall_s,omitempty"`             // what a modelled point took on the wall clock
	Events     int64             `json:"events,omitempty"`             // of a simulation
	Requests   int64             `json:"requests_simulated,omitempty"` // those of the warm-up included
	Sampler    *SamplerFacts     `json:"sampler,omitempty"`
	Allocation *AllocationFacts  `json:"allocation,omitempty"`
	Canary     *CanaryFacts      `json:"canary,omitempty"` // on the ground host

	// Shed says for each class, and for all together, why its requests were shed: counts by reason. A client that sent a request not at all, which
	// has no reason, counts as "refused".
	Shed map[string]map[string]int64 `json:"shed_by_reason,omitempty"`

	TimedOutDial     int64 `json:"timed_out_dial,omitempty"`  // of the whole run: waiting for a connection
	TimedOutWrite    int64 `json:"timed_out_write,omitempty"` // for the kernel to take the request
	TimedOutReply    int64 `json:"timed_out_reply,omitempty"`
	ConnectionsAdded int64 `json:"connections_added,omitempty"`

	// SmallestScale is the time scale that a point on the ground model would have needed when its own was too small; 0 otherwise, or when
	// no scale would do.
	SmallestScale int `json:"smallest_time_scale,omitempty"`
}

// CanaryFacts say how long fixed work took on this computer before a point, without a server, and after it.
type CanaryFacts struct {
	Before CanaryTimes `json:"before"`
	After  CanaryTimes `json:"after"`
}

// CanaryTimes are the times of the two pieces of fixed work: one that needs a core alone, and one that reads memory.
type CanaryTimes struct {
	ComputeUS float64 `json:"compute_us"`
	StreamUS  float64 `json:"stream_us"`
}

// parseManifest reads a manifest, the version first, so that another version is refused as such and not for some field of it.
func parseManifest(text []byte, name string) (*Manifest, error) {
	var version struct {
		SchemaVersion int `json:"schema_version"`
	}
	if err := json.Unmarshal(text, &version); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", name, err)
	}
	switch v := version.SchemaVersion; {
	case v == 0:
		return nil, fmt.Errorf("%s: no schema_version; this is not a manifest of loadgen", name)
	case v < oldestSchema || v > SchemaVersion:
		return nil, fmt.Errorf("%s: the results have schema version %d, this loadgen reads versions %d to %d; use the loadgen that wrote them",
			name, v, oldestSchema, SchemaVersion)
	}
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", name, err)
	}
	return &m, nil
}
