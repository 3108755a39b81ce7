package report

import (
	"fmt"
	"strings"
)

// Sampling says what a computer was sampled with while its servers were measured: on the ground host.
type Sampling struct {
	PeriodUS float64            `json:"period_us"`
	Sources  []SamplingSource   `json:"sources,omitempty"`  // of memory traffic and of contention, the one that membw is of first
	Rejected []SamplingRejected `json:"rejected,omitempty"` // of those that were tried before it, and gauges that are not there
}

// SamplingSource is one source of memory traffic.
type SamplingSource struct {
	Name   string   `json:"name"`
	Kind   string   `json:"kind"`                       // counted, estimate or pressure
	Scope  string   `json:"scope"`                      // whose traffic it sees
	Ratio  Value    `json:"counter_to_stream,omitzero"` // of what it counted to what a stream of ours read, before the run
	Events []string `json:"events,omitempty"`
	Notes  []string `json:"notes,omitempty"`
}

// SamplingRejected is a source that could not be used.
type SamplingRejected struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
	Remedy string `json:"remedy,omitempty"`
}

// SamplerFacts say what sampling a point took, of one core.
type SamplerFacts struct {
	Samples        int64   `json:"samples"`
	Missed         int64   `json:"missed,omitempty"`  // periods that the sampler slept through
	Dropped        int64   `json:"dropped,omitempty"` // values beyond the bound on what is kept
	CPURatio       float64 `json:"cpu_ratio"`
	ServerCPURatio float64 `json:"server_cpu_ratio,omitempty"` // of the server's sampler of itself
	LongestUS      float64 `json:"longest_us"`                 // of one sample
	Flags          string  `json:"membw_flags,omitempty"`      // what any value of membw is marked with

	// Of the time of all processors during the window: what other processes than ours and the server's used, and what a hypervisor gave to others.
	OthersRatio Value `json:"others_ratio,omitzero"`
	StealRatio  Value `json:"steal_ratio,omitzero"`
}

// What a measurement may share its computer with before its times say as much of others as of the server. The kernel's own work for the loopback device
// is in what nobody's process used: some percent at full load.
const (
	mostOthers = 0.10
	mostSteal  = 0.01
)

// disturbed says what others did on the computer during a point, if it was enough to matter.
func (f *SamplerFacts) disturbed() string {
	if f == nil {
		return ""
	}
	if others, ok := f.OthersRatio.Get(); ok && others > mostOthers {
		return fmt.Sprintf("other processes used %.0f %% of the processors", 100*others)
	}
	if steal, ok := f.StealRatio.Get(); ok && steal > mostSteal {
		return fmt.Sprintf("a hypervisor gave %.1f %% of the processors to others", 100*steal)
	}
	return ""
}

// SamplingCost returns the largest shares of a core that sampling took at any point, here and in a server; false when nothing was sampled.
func (m *Manifest) SamplingCost() (here, server float64, sampled bool) {
	for i := range m.Points {
		if f := m.Points[i].Sampler; f != nil {
			here, server, sampled = max(here, f.CPURatio), max(server, f.ServerCPURatio), true
		}
	}
	return here, server, sampled
}

// sampling describes it among the circumstances.
func (m *Manifest) sampling(line func(name, format string, args ...any)) {
	s := m.Sampling
	if s == nil {
		return
	}
	here, server, _ := m.SamplingCost()
	var names []string
	for _, source := range s.Sources {
		text := source.Name + " (" + source.Kind
		if r, ok := source.Ratio.Get(); ok {
			text += fmt.Sprintf(", %.2f of what a stream of ours read", r)
		}
		names = append(names, text+")")
	}
	if len(names) == 0 {
		names = []string{"nothing but what the server accounts for"}
	}
	line("sampling", "every %s: %s; it took at most %.2f %% of a core, and %.2f %% in the server", Known(s.PeriodUS).micros(), strings.Join(names, ", "),
		100*here, 100*server)
}
