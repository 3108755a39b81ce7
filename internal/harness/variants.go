//go:build linux

package harness

import (
	"context"
	"errors"

	"spillway/profiles"
	"spillway/report"
)

// variants measures the points of several variants of a profile, each with a runner of its own.
type variants []Runner

// Run implements Runner.
func (v variants) Run(ctx context.Context, p Point) (Result, error) { return v[p.variant].Run(ctx, p) }

// Close implements Runner.
func (v variants) Close() (err error) {
	for _, r := range v {
		err = errors.Join(err, r.Close())
	}
	return err
}

// prepare makes the runners of e, one for each variant of its profile, and what is known of the models of modelled grounds.
func (e *experiment) prepare() error {
	var list variants
	for _, run := range e.config.Profile.Runs() {
		r, err := e.runnerOf(run)
		if err != nil {
			return errors.Join(err, list.Close())
		}
		list = append(list, r)
	}
	e.runner = list
	if len(list) == 1 {
		e.runner = list[0] // which may be able to search its capacity
	}
	return nil
}

func (e *experiment) runnerOf(run *profiles.Profile) (Runner, error) {
	if isAllocation(run) {
		if run.On == groundSim {
			return &fluid{run}, nil
		}
		return newEdges(run)
	}
	if run.On == groundHost {
		return newHost(&e.config, run)
	}
	m, err := newModelled(run)
	if err != nil {
		return nil, err
	}
	e.models = append(e.models, m)
	if run.On == groundSim {
		return &simulation{m}, nil
	}
	return newModel(&e.config, m)
}

// ofVariants describes the variants for the manifest.
func (e *experiment) ofVariants() (list []report.Variant) {
	p := e.config.Profile
	for i := range p.Variants {
		v := report.Variant{Name: p.Variants[i].Name, Set: map[string]string{}}
		for key, value := range p.Variants[i].Set {
			v.Set[key] = string(value)
		}
		if i < len(e.models) {
			v.ModelledMachine = e.models[i].facts()
			if c := e.models[i].capacity; c.Bottleneck != "" {
				v.Capacity = &c
			}
		}
		list = append(list, v)
	}
	return list
}
