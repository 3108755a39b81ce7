package profiles

import (
	"fmt"
	"strings"
)

// places are where the keys of a profile were written, by path. They let the harness, which alone knows what servers and controllers take,
// say of a mistake where it is.
type places map[string]*node

// placesOf returns the places of a tree: a key's where there is one, else the value's.
func placesOf(root *node) places {
	p := places{}
	p.add("", root)
	return p
}

func (p places) add(path string, n *node) {
	if p[path] == nil {
		p[path] = n
	}
	for i, v := range n.values {
		if n.kind != mapping {
			p.add(join(path, fmt.Sprint(i)), v)
			continue
		}
		at := join(path, n.keys[i].text)
		p[at] = n.keys[i]
		p.add(at, v)
	}
}

// keep takes from the places before an assignment those that it left as they were, which origin marks.
func (p places) keep(before places, origin string) {
	for path, n := range p {
		if old := before[path]; n.origin == origin && old != nil {
			p[path] = old
		}
	}
}

// Mistake returns an error about what was written at path, such as server.settings.slots, that begins with its place: file, line and column, or
// the flag that it came from. Where nothing was written there it is the place of the nearest thing above.
func (p *Profile) Mistake(path, format string, args ...any) error {
	for at := path; at != ""; at = at[:max(strings.LastIndexByte(at, '.'), 0)] {
		if n := p.places[at]; n != nil {
			return n.fail(p.file, format, args...)
		}
	}
	return &Error{File: p.file, Message: fmt.Sprintf(format, args...)}
}
