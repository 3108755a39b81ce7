package profiles

import (
	"fmt"
	"slices"
	"strings"
)

// The sizes of a profile beside the one that it has as it stands.
const (
	SizeQuick = "quick" // fewer loads and shorter windows: minutes become seconds, and less can be decided
	SizeFull  = "full"  // the published sweep, where one is known
)

// notSized are the keys that say what an experiment is, rather than how large.
var notSized = []string{"name", "title", "source", "on", "claims", "validate", "seed", SizeQuick, SizeFull}

// Sized returns p in a size: SizeQuick, SizeFull or, as "", as it stands. A profile that has no such key is the same in that size. What is
// returned has no sizes any more: its resolved form says what is run, and nothing that is not.
func (p *Profile) Sized(size string) (*Profile, error) {
	var keys map[string]Inline
	switch size {
	case "":
	case SizeQuick:
		keys = p.Quick
	case SizeFull:
		keys = p.Full
	default:
		return nil, fmt.Errorf("no size %q; there are %s and %s", size, SizeQuick, SizeFull)
	}
	plain := *p
	plain.Quick, plain.Full = nil, nil
	if len(keys) == 0 {
		return &plain, nil
	}
	where := p.place(size)
	var list []Assignment
	for _, key := range sortedKeys(keys) {
		list = append(list, Assignment{Key: key, Value: string(keys[key]), Origin: p.place(size+"."+key) + size + ": " + key})
	}
	return plain.set(list, where+size)
}

// place returns where path was written, as messages begin.
func (p *Profile) place(path string) string {
	return (&decoder{file: p.file, at: p.places}).place(path)
}

// sizes checks what the sizes of p set. Each must leave a profile that is accepted, so that --quick does not fail where the profile as it stands
// does not.
func (c *checker) sizes(p *Profile) {
	if c.elsewhere != "" {
		return // they were right as they were written, and what is set from outside comes after them
	}
	for _, size := range []struct {
		name string
		keys map[string]Inline
	}{{SizeQuick, p.Quick}, {SizeFull, p.Full}} {
		for _, key := range sortedKeys(size.keys) {
			if first, _, _ := strings.Cut(key, "."); slices.Contains(notSized, first) {
				c.fail(size.name+"."+key, "%s is what the experiment is; a size cannot change it", first)
			}
		}
		if c.err != nil {
			return
		}
		sized, err := p.Sized(size.name)
		if err != nil {
			c.err = err
			return
		}
		if !slices.Equal(p.labels(), sized.labels()) {
			c.fail(size.name, "in this size there are other controllers; change their settings, or make it a profile of its own")
		}
	}
}
