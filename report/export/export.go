// Package export writes results in the formats of other programs: the benchmark format of Go for benchstat, interval logs of HdrHistogram, and a
// history for tools that look for changes over many commits.
package export

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"

	"spillway/report"
)

// name keeps of a text what a part of a benchmark's name and of a tag may have: neither space, comma, slash nor equals sign, nothing that cannot be
// seen. An empty one is a hyphen.
func name(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '_'
	}, strings.ToValidUTF8(s, "_"))
	const longest = 80
	return cmp.Or(string([]rune(s)[:min(len([]rune(s)), longest)]), "-")
}

// names gives each text a name that no other has, the same as long as they come in the same order.
type names struct {
	of    map[string]string
	taken map[string]bool
}

func (n *names) name(kind, s string) string {
	if n.of == nil {
		n.of, n.taken = map[string]string{}, map[string]bool{}
	}
	key := kind + "\x00" + s
	if had, ok := n.of[key]; ok {
		return had
	}
	free := name(s)
	for i := 2; n.taken[kind+"\x00"+free]; i++ {
		free = fmt.Sprintf("%s_%d", name(s), i)
	}
	n.of[key], n.taken[kind+"\x00"+free] = free, true
	return free
}

// profile returns the name of the profile of a run, without a variant.
func profile(run *report.Run) string { return cmp.Or(run.Manifest.Name, "unnamed") }

// single reports whether a run has one class only: the row of all classes then says the same again.
func single(run *report.Run) bool {
	classes := map[string]bool{}
	for i := range run.Rows {
		classes[run.Rows[i].Class] = true
	}
	return len(classes) == 2 && classes[report.AllClasses]
}
