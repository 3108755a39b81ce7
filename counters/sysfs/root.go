// Package sysfs reads what the kernel says of the machine below /sys and /proc: processors, caches, the PMUs of perf and how their events are
// encoded. Nothing is assumed that the kernel writes down: the bits of a field, the CPUs to count on, units and scales are all parsed.
//
// Everything is read below a Root, so that a folder can stand in for a machine that is not at hand.
package sysfs

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxFile bounds what is read of one file. The largest that is, /proc/cpuinfo, has about 1.5 KB a processor.
const maxFile = 4 << 20

// Root is what stands before /sys and /proc: "" is this machine, a folder is a copy of another one.
type Root string

// Path returns where the file at the absolute path p is.
func (r Root) Path(p string) string { return string(r) + p }

// Text returns the content of the file at the absolute path p without white space around it.
func (r Root) Text(p string) (string, error) {
	f, err := os.Open(r.Path(p))
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return "", fmt.Errorf("%s: %w", p, err)
	}
	return strings.TrimSpace(string(b)), nil
}

// Exists reports whether there is something at the absolute path p.
func (r Root) Exists(p string) bool {
	_, err := os.Stat(r.Path(p))
	return err == nil
}

// Names returns the names in a folder in natural order (imc_2 before imc_10), none if it cannot be read.
func (r Root) Names(dir string) []string {
	entries, err := os.ReadDir(r.Path(filepath.Clean(dir)))
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.SortFunc(names, Natural)
	return names
}

// Natural compares names so that runs of digits count as numbers.
func Natural(a, b string) int {
	for a != "" && b != "" {
		da, db := digits(a), digits(b)
		if da == 0 || db == 0 {
			if a[0] != b[0] {
				return int(a[0]) - int(b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		na, nb := strings.TrimLeft(a[:da], "0"), strings.TrimLeft(b[:db], "0")
		if len(na) != len(nb) {
			return len(na) - len(nb)
		}
		if c := strings.Compare(na, nb); c != 0 {
			return c
		}
		a, b = a[da:], b[db:]
	}
	return len(a) - len(b)
}

// digits returns how many digits s begins with.
func digits(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }

// Numbered reports whether name fits a pattern in which every # stands for a run of digits.
func Numbered(pattern, name string) bool {
	for pattern != "" {
		if pattern[0] != '#' {
			if name == "" || name[0] != pattern[0] {
				return false
			}
			pattern, name = pattern[1:], name[1:]
			continue
		}
		n := digits(name)
		if n == 0 {
			return false
		}
		pattern, name = pattern[1:], name[n:]
	}
	return name == ""
}
