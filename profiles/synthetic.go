package profiles

import (
	"fmt"
	"slices"

	"spillway/internal/dist"
	"spillway/machine"
	"spillway/workloads"
)

const kindSynthetic = "synthetic"

// maxNames is how many locks, and how many sections, the work of a profile may name: numbers are what travels to a server.
const maxNames = machine.MaxIndex + 1

// SyntheticWork is a synthetic workload with its names turned into the numbers that steps carry.
type SyntheticWork struct {
	Classes         []workloads.SyntheticClass
	Locks, Sections []string // by number, in the order in which they first stand in the profile, but MemorySection is number 0
}

// Synthetic returns the classes of a synthetic workload in the form that workloads.NewSynthetic takes.
func (w *Workload) Synthetic() (SyntheticWork, error) {
	if w.Kind != kindSynthetic {
		return SyntheticWork{}, fmt.Errorf("the workload is of kind %s, not synthetic", w.Kind)
	}
	var s SyntheticWork
	for i := range w.Classes {
		c := &w.Classes[i]
		work, err := s.steps(nil, c.Work)
		if err != nil {
			return SyntheticWork{}, fmt.Errorf("class %s: %w", c.Name, err)
		}
		s.Classes = append(s.Classes, workloads.SyntheticClass{Name: c.Name, Share: c.Share, SLO: c.SLO.Limit, Work: work})
	}
	return s, nil
}

// MemorySection is the name of the section that is bound by memory bandwidth, the one that a controller's semaphore stands before.
const MemorySection = "memory"

// EntersMemory reports whether any work is done in the memory section.
func (s *SyntheticWork) EntersMemory() bool {
	for i := range s.Classes {
		if slices.ContainsFunc(s.Classes[i].Work, func(w workloads.SyntheticStep) bool { return w.Kind == machine.Enter && w.Index == 0 }) {
			return true
		}
	}
	return false
}

// steps appends what list says. A section becomes a step that enters it and one that leaves it, around its own.
func (s *SyntheticWork) steps(out []workloads.SyntheticStep, list []Step) ([]workloads.SyntheticStep, error) {
	for i := range list {
		step := &list[i]
		if step.Section != "" {
			if len(s.Sections) == 0 {
				s.Sections = []string{MemorySection} // wherever it stands, or not at all: servers know it by its number
			}
			section := number(&s.Sections, step.Section)
			out = append(out, workloads.SyntheticStep{Kind: machine.Enter, Index: section})
			var err error
			if out, err = s.steps(out, step.Steps); err != nil {
				return nil, err
			}
			out = append(out, workloads.SyntheticStep{Kind: machine.Leave, Index: section})
			continue
		}
		kind, text, unit := step.amount()
		amount, err := dist.Parse(text, unit)
		if err != nil {
			return nil, err
		}
		next := workloads.SyntheticStep{Kind: kind, Amount: amount, Rate: float64(step.At)}
		if kind == machine.Lock {
			next.Index = number(&s.Locks, step.Lock)
		}
		out = append(out, next)
	}
	return out, nil
}

// amount returns what a step that is no section does, how much of it, and in which unit that is written.
func (s *Step) amount() (kind machine.StepKind, text string, unit dist.Unit) {
	switch {
	case s.Compute != "":
		return machine.Compute, s.Compute, dist.Nanoseconds
	case s.Stream != "":
		return machine.Stream, s.Stream, dist.Bytes
	case s.Lock != "":
		return machine.Lock, s.For, dist.Nanoseconds
	case s.Wait != "":
		return machine.Delay, s.Wait, dist.Nanoseconds
	default:
		return machine.Memory, s.Memory, dist.Bytes
	}
}

// number returns the number of name in names, which it is added to when it is new.
func number(names *[]string, name string) uint16 {
	i := slices.Index(*names, name)
	if i < 0 {
		i = len(*names)
		*names = append(*names, name)
	}
	return uint16(i)
}

func (c *checker) step(s *Step, path string) {
	kinds := 0
	for _, given := range []string{s.Compute, s.Stream, s.Section, s.Lock, s.Wait, s.Memory} {
		if given != "" {
			kinds++
		}
	}
	if kinds != 1 {
		c.fail(path, "a step of work is exactly one of compute, stream, section, lock, wait and memory")
	}
	if (s.Lock != "") != (s.For != "") {
		c.fail(path, "a lock step is {lock: NAME, for: DURATION}")
	}
	if (s.Section != "") != (s.Steps != nil) {
		c.fail(path, "a section step is {section: NAME, steps: [...]}")
	}
	if s.At != 0 && s.Stream == "" {
		c.fail(path+".at", "at belongs to a stream step")
	}
	if s.Lock != "" {
		c.name(path+".lock", s.Lock)
	}
	if s.Section != "" {
		c.name(path+".section", s.Section)
	}
	for _, d := range []struct {
		key, text string
		unit      dist.Unit
	}{
		{"compute", s.Compute, dist.Nanoseconds}, {"for", s.For, dist.Nanoseconds}, {"wait", s.Wait, dist.Nanoseconds},
		{"stream", s.Stream, dist.Bytes}, {"memory", s.Memory, dist.Bytes},
	} {
		if d.text == "" {
			continue
		}
		if _, err := dist.Parse(d.text, d.unit); err != nil {
			c.fail(path+"."+d.key, "%v", err)
		}
	}
	for i := range s.Steps {
		c.step(&s.Steps[i], fmt.Sprintf("%s.steps.%d", path, i))
	}
}

// synthetic lets the workload itself judge what the checks of single steps did not: that a request can be spelled out for a server, and
// that names have numbers. Sections that contain themselves would wait for themselves.
func (c *checker) synthetic(w *Workload) {
	s, err := w.Synthetic()
	if err == nil {
		_, err = workloads.NewSynthetic(s.Classes)
	}
	if err != nil {
		c.fail("workload.classes", "%v", err)
	}
	if n := max(len(s.Locks), len(s.Sections)); n > maxNames {
		c.fail("workload.classes", "there are %d names of locks or sections, at most %d of each are possible", n, maxNames)
	}
	for i := range w.Classes {
		c.nesting(w.Classes[i].Work, fmt.Sprintf("workload.classes.%d.work", i), nil)
	}
}

func (c *checker) nesting(list []Step, path string, around []string) {
	for i := range list {
		s := &list[i]
		at := fmt.Sprintf("%s.%d", path, i)
		if s.Section == "" {
			continue
		}
		if slices.Contains(around, s.Section) {
			c.fail(at, "section %s stands within itself", s.Section)
		}
		c.nesting(s.Steps, at+".steps", append(slices.Clone(around), s.Section))
	}
}
