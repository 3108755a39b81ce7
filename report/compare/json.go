package compare

import (
	"encoding/json"
	"io"

	"spillway/report"
)

// document is the form of the result for programs.
type document struct {
	Verdict          string         `json:"verdict"`
	Regressed        bool           `json:"regressed"`
	Comparable       bool           `json:"comparable"`
	Metrics          []string       `json:"metrics"`
	Threshold        float64        `json:"threshold"`
	Alpha            float64        `json:"alpha"`
	Confidence       float64        `json:"confidence"`
	Base             []origin       `json:"base"`
	Candidate        []origin       `json:"candidate"`
	Counts           map[string]int `json:"counts"`
	Comparisons      []Comparison   `json:"comparisons"`
	MissingCandidate []Place        `json:"missing_in_candidate"`
	MissingBase      []Place        `json:"missing_in_base"`
	Settings         []Setting      `json:"settings"`
	Canaries         []Canary       `json:"canaries"`
	Warnings         []string       `json:"warnings"`
	Void             []string       `json:"void"`
}

// origin says where one side's results are from.
type origin struct {
	Dir     string `json:"dir"`
	Profile string `json:"profile"`
	Ground  string `json:"ground"`
	Seed    uint64 `json:"seed"`
	Version string `json:"version"`
}

func origins(runs []*report.Run) (list []origin) {
	for _, run := range runs {
		m := &run.Manifest
		list = append(list, origin{run.Dir, m.Name, m.Ground, m.Seed, m.Versions.Module})
	}
	return list
}

// JSON writes the whole result for programs, the comparisons too that people are not shown.
func (r *Result) JSON(w io.Writer) error {
	d := document{
		Verdict: r.verdict(), Regressed: r.Regressed(), Comparable: r.Comparable(), Metrics: r.Options.Metrics, Threshold: r.Options.Threshold,
		Alpha: alpha, Confidence: confidence, Base: origins(r.Base), Candidate: origins(r.Candidate), Counts: map[string]int{},
		Comparisons: some(r.Comparisons), MissingCandidate: some(r.MissingCandidate), MissingBase: some(r.MissingBase), Settings: some(r.Settings),
		Canaries: some(r.Canaries), Warnings: some(r.Warnings), Void: some(r.Void),
	}
	for i := range r.Comparisons {
		d.Counts[string(r.Comparisons[i].Outcome)]++
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(d)
}

// some returns list, as an empty list where there is none: a program that reads null has one case more.
func some[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
