package workloads

import (
	"fmt"
	"strconv"
	"strings"
)

// Keyed is implemented by workloads by whose keys a server can tell the classes apart.
type Keyed interface {
	// Patterns returns for each class what all its keys look like: PREFIX*SUFFIX, where the * stands for anything. Of several patterns that a
	// key matches it is of the longest. The error says which classes ask for the same keys.
	Patterns() ([]string, error)
}

var (
	_ Keyed = (*KV)(nil)
	_ Keyed = (*Synthetic)(nil)
	_ Keyed = (*Graph)(nil)
	_ Keyed = (*MailboxLoad)(nil)
)

// alike is the error of two classes whose keys are not told apart.
func alike(a, b string) error {
	return fmt.Errorf("classes %s and %s ask for the same keys, so a server cannot tell them apart", a, b)
}

// distinct returns list unless an entry stands there twice. name returns the name of a class.
func distinct(list []string, name func(i int) string) ([]string, error) {
	at := map[string]int{}
	for i, pattern := range list {
		if j, taken := at[pattern]; taken {
			return nil, alike(name(j), name(i))
		}
		at[pattern] = i
	}
	return list, nil
}

// Patterns returns the prefixes of the classes' keys.
func (k *KV) Patterns() ([]string, error) {
	list := make([]string, len(k.classes))
	for i := range k.classes {
		c := &k.classes[i]
		list[i] = c.KeyPrefix + "*"
		for j := range k.classes {
			// Behind the prefix follow digits, which may be what makes another prefix longer.
			rest, longer := strings.CutPrefix(k.classes[j].KeyPrefix, c.KeyPrefix)
			if longer && rest != "" && strings.Trim(rest, "0123456789") == "" {
				return nil, alike(c.Name, k.classes[j].Name)
			}
		}
	}
	return distinct(list, func(i int) string { return k.classes[i].Name })
}

// Mark has the name of its class follow the steps in each key, as a comment, so that Patterns can say how to tell. The error names the class for
// which that makes keys too long.
func (s *Synthetic) Mark() error {
	marks := make([]string, len(s.classes))
	for i := range s.classes {
		c := &s.classes[i]
		marks[i] = "#" + c.Name
		if n := longestKey(c.Work) + len(marks[i]); n > maxKey {
			return fmt.Errorf("class %q: its %d steps may take %d bytes to spell with its name behind them, a key holds %d: use fewer steps or a shorter name",
				c.Name, len(c.Work), n, maxKey)
		}
	}
	s.marks = marks
	return nil
}

// Patterns returns how the keys of the classes end once Mark has been called.
func (s *Synthetic) Patterns() ([]string, error) {
	if s.marks == nil {
		return nil, fmt.Errorf("the keys of synthetic requests do not say of which class they are")
	}
	list := make([]string, len(s.marks))
	for i, mark := range s.marks {
		list[i] = "*" + mark
	}
	return distinct(list, func(i int) string { return s.classes[i].Name })
}

// Patterns returns what queries of the classes begin with and, where they say how far or how accurately, end in.
func (g *Graph) Patterns() ([]string, error) {
	list := make([]string, len(g.classes))
	for i := range g.classes {
		c := &g.classes[i]
		list[i] = string(c.letter()) + "/*"
		switch {
		case c.Query == "path":
			list[i] += "/" + strconv.Itoa(c.hops())
		case c.Accuracy > 0:
			list[i] += "/" + strconv.FormatFloat(c.Accuracy, 'g', -1, 64)
		}
	}
	return distinct(list, func(i int) string { return g.classes[i].Name })
}

// Patterns returns the prefixes of the mailboxes' names, and what requests for memory begin with.
func (l *MailboxLoad) Patterns() ([]string, error) {
	list := make([]string, len(l.classes))
	for i := range l.classes {
		c := &l.classes[i]
		list[i] = c.Prefix + "*"
		if c.Bytes != nil {
			list[i] = string(spelled) + "*"
			continue
		}
		for j := range l.classes {
			rest, longer := strings.CutPrefix(l.classes[j].Prefix, c.Prefix)
			if longer && rest != "" && l.classes[j].Bytes == nil && strings.Trim(rest, "0123456789") == "" {
				return nil, alike(c.Name, l.classes[j].Name)
			}
		}
	}
	return distinct(list, func(i int) string { return l.classes[i].Name })
}
