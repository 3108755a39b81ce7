//go:build linux

package servers

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"spillway/control"
	"spillway/internal/memproto"
)

// The classes of requests, in control.Request.Class, of a server that nobody tells better: what a client wants done.
const (
	classGet uint16 = iota
	classSet
	classDelete
	classOther // arithmetic, touch, flush_all and me
)

var verbClasses = []string{classGet: "get", classSet: "set", classDelete: "delete", classOther: "other"}

func classOf(v memproto.Verb) uint16 {
	switch {
	case v.Retrieval():
		return classGet
	case v.Storage():
		return classSet
	case v == memproto.Delete || v == memproto.MetaDelete:
		return classDelete
	}
	return classOther
}

// Classifier is implemented by a Backend that knows classes of requests which say more than the verb. Config.Classes stands before it.
type Classifier interface {
	// Classes returns their names, by number.
	Classes() []string
	// Class returns the number of the class of a command of whatever form. It must not wait; it is called from several goroutines at once.
	Class(cmd *memproto.Command) uint16
}

// ClassRule says of which class a request is by its key. Of several rules that a key matches the longest counts, of equal ones the first. A
// request for several keys goes by the first.
type ClassRule struct {
	Class   string
	Pattern string // PREFIX*SUFFIX, where the * stands for anything; without one it is a whole key
}

// Unclassed is the name of the class of requests whose keys match no rule. It is the last.
const Unclassed = "unclassed"

// className keeps names fit for statistics.
var className = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// check says what is wrong with r, nil if nothing is.
func (r *ClassRule) check() error {
	switch {
	case !className.MatchString(r.Class):
		return fmt.Errorf("class %q: a name has letters, digits, dots, dashes and underscores, a letter or digit first", r.Class)
	case r.Class == Unclassed:
		return fmt.Errorf("class %s: that is the name of requests that match no rule; choose another", r.Class)
	case r.Pattern == "" || strings.Count(r.Pattern, "*") > 1:
		return fmt.Errorf("class %s: the pattern %q is not PREFIX*SUFFIX", r.Class, r.Pattern)
	}
	return nil
}

// ClassNames returns the names of the classes of a server with rules, by Request.Class, in the order in which the rules first name them. Without
// rules they are own, those of its Backend, and without these the verbs.
func ClassNames(rules []ClassRule, own []string) (names []string) {
	switch {
	case len(rules) == 0 && len(own) > 0:
		return own
	case len(rules) == 0:
		return slices.Clone(verbClasses)
	}
	for i := range rules {
		if !slices.Contains(names, rules[i].Class) {
			names = append(names, rules[i].Class)
		}
	}
	return append(names, Unclassed)
}

// classes tells requests apart.
type classes struct {
	names   []string
	rules   []classRule // the longest first
	backend Classifier  // nil if the backend is none, or there are rules
}

// classRule is a rule as it is applied.
type classRule struct {
	prefix, suffix []byte
	whole          bool // it has no *
	class          uint16
}

func newClasses(rules []ClassRule, backend Backend) classes {
	var c classes
	var own []string
	if known, ok := backend.(Classifier); ok && len(rules) == 0 {
		c.backend, own = known, known.Classes()
	}
	c.names = ClassNames(rules, own)
	for i := range rules {
		prefix, suffix, split := strings.Cut(rules[i].Pattern, "*")
		c.rules = append(c.rules, classRule{
			prefix: []byte(prefix), suffix: []byte(suffix), whole: !split, class: uint16(slices.Index(c.names, rules[i].Class)),
		})
	}
	slices.SortStableFunc(c.rules, func(a, b classRule) int {
		return cmp.Compare(len(b.prefix)+len(b.suffix), len(a.prefix)+len(a.suffix))
	})
	return c
}

// of returns the number of the class of a request.
func (c *classes) of(cmd *memproto.Command) uint16 {
	switch {
	case c.backend != nil:
		return min(c.backend.Class(cmd), uint16(len(c.names)-1))
	case c.rules == nil:
		return classOf(cmd.Verb)
	}
	for i := range c.rules {
		if c.rules[i].matches(cmd.Key) {
			return c.rules[i].class
		}
	}
	return uint16(len(c.names) - 1)
}

func (r *classRule) matches(key []byte) bool {
	if r.whole {
		return bytes.Equal(key, r.prefix)
	}
	return len(key) >= len(r.prefix)+len(r.suffix) && bytes.HasPrefix(key, r.prefix) && bytes.HasSuffix(key, r.suffix)
}

// bytesOf returns the size of the value that a command brings, whether it has been read or is too large to be. That of a value which is
// asked for is not known yet.
func bytesOf(c *memproto.Command) int64 { return int64(c.Length) }

// classCounts are what became of the requests of one class.
type classCounts struct {
	arrived uint64
	shed    [control.NumReasons]uint64
}

// classStats yields arrivals and sheds by class.
func classStats(names []string, counts []classCounts, yield func(name string, value uint64) bool) bool {
	for class := range counts {
		c, name := &counts[class], names[class]
		if !yield("arrivals_"+name, c.arrived) {
			return false
		}
		for r := control.NoReason + 1; r < control.NumReasons; r++ {
			if !yield("shed_"+name+"_"+r.String(), c.shed[r]) {
				return false
			}
		}
	}
	return true
}
