//go:build linux

package levels

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Group is the control group of a process, as far as memory goes.
type Group struct {
	Path    string // its folder; in version 1 that of the controller memory
	Unified bool   // it is of version 2
	CPUPath string // of version 1: the folder of the controller cpu; may be empty
}

// OwnGroup finds the control group of this process. proc and root are where procfs and the control groups are mounted: /proc and
// /sys/fs/cgroup.
func OwnGroup(proc, root string) (Group, error) {
	text, err := os.ReadFile(filepath.Join(proc, "self/cgroup"))
	if err != nil {
		return Group{}, fmt.Errorf("control groups: %w", err)
	}
	var g Group
	unified := ""
	for line := range strings.Lines(string(text)) {
		// hierarchy:controllers:path; version 2 is the hierarchy 0 without controllers.
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, path, ok := strings.Cut(rest, ":")
		if !ok {
			continue
		}
		if controllers == "" {
			unified = path
		}
		for c := range strings.SplitSeq(controllers, ",") {
			switch c {
			case "memory":
				g.Path = folder(filepath.Join(root, "memory"), path)
			case "cpu":
				g.CPUPath = folder(filepath.Join(root, controllers), path)
				if _, err := os.Stat(g.CPUPath); err != nil {
					g.CPUPath = folder(filepath.Join(root, "cpu"), path)
				}
			}
		}
	}
	switch {
	case g.Path != "":
	case unified != "":
		g = Group{Path: folder(root, unified), Unified: true}
	default:
		return Group{}, errors.New("control groups: this process is in none that accounts for memory")
	}
	if _, err := os.Stat(g.file("memory.current", "memory.usage_in_bytes")); err != nil {
		return Group{}, fmt.Errorf("control groups: the memory of this process is not accounted for: %w", plain(err))
	}
	return g, nil
}

// folder returns where a group is. In a container the path is often that which the host sees, and the mount shows the group itself.
func folder(mount, path string) string {
	full := filepath.Join(mount, path)
	if _, err := os.Stat(full); err != nil {
		return mount
	}
	return full
}

// file returns the path of one of the files of a group, by its name in version 2 and in version 1.
func (g *Group) file(v2, v1 string) string {
	if g.Unified {
		return filepath.Join(g.Path, v2)
	}
	return filepath.Join(g.Path, v1)
}

// Used returns the memory in use in bytes, less that of files which can be forgotten.
func (g *Group) Used() (int64, error) {
	n, err := readBytes(g.file("memory.current", "memory.usage_in_bytes"))
	if err != nil {
		return 0, err
	}
	stat, err := os.ReadFile(filepath.Join(g.Path, "memory.stat"))
	if err != nil {
		return 0, plain(err)
	}
	name := "total_inactive_file"
	if g.Unified {
		name = "inactive_file"
	}
	fields, err := lineOf(stat, name)
	if err != nil || len(fields) != 1 {
		return 0, fmt.Errorf("memory.stat: no %s", name)
	}
	forgettable, err := strconv.ParseInt(fields[0], 10, 64)
	return max(n-forgettable, 0), err
}

// unlimited is what version 1 calls no limit: the largest number of whole pages. Nobody has half as much.
const unlimited = math.MaxInt64 / 2

// Limit returns how many bytes of memory the group may use.
func (g *Group) Limit() (int64, error) {
	n, err := readBytes(g.file("memory.max", "memory.limit_in_bytes"))
	if err == nil && n >= unlimited || errors.Is(err, errUnlimited) || errors.Is(err, fs.ErrNotExist) {
		return 0, errors.New("the control group of this process has no memory limit; give one")
	}
	return n, err
}

// CPUs returns the quota of processors of the group.
func (g *Group) CPUs() (float64, error) {
	if g.Unified {
		text, err := os.ReadFile(filepath.Join(g.Path, "cpu.max"))
		if err != nil {
			return 0, plain(err)
		}
		return parseQuota(strings.Fields(string(text)))
	}
	quota, err := os.ReadFile(filepath.Join(g.CPUPath, "cpu.cfs_quota_us"))
	if err != nil {
		return 0, plain(err)
	}
	period, err := os.ReadFile(filepath.Join(g.CPUPath, "cpu.cfs_period_us"))
	if err != nil {
		return 0, plain(err)
	}
	return parseQuota([]string{strings.TrimSpace(string(quota)), strings.TrimSpace(string(period))})
}

var errUnlimited = errors.New("there is no limit")

// parseQuota reads a quota and the period that it is for, both in microseconds.
func parseQuota(fields []string) (cpus float64, err error) {
	if len(fields) != 2 {
		return 0, fmt.Errorf("processor quota %q: want a quota and a period", fields)
	}
	if fields[0] == "max" || fields[0] == "-1" {
		return 0, errUnlimited
	}
	quota, err1 := strconv.ParseFloat(fields[0], 64)
	period, err2 := strconv.ParseFloat(fields[1], 64)
	if err := errors.Join(err1, err2); err != nil || !(quota > 0) || !(period > 0) {
		return 0, fmt.Errorf("processor quota %q: want two numbers above 0", fields)
	}
	return quota / period, nil
}

// readBytes reads a file that holds a number of bytes, or max.
func readBytes(path string) (int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, plain(err)
	}
	word := strings.TrimSpace(string(text))
	if word == "max" {
		return 0, errUnlimited
	}
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %q is not a number of bytes", filepath.Base(path), word)
	}
	return n, nil
}

// plain shortens an error about a file to its name: which folder it is in differs between computers.
func plain(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return fmt.Errorf("%s: %w", filepath.Base(pe.Path), pe.Err)
	}
	return err
}

// lineOf returns the words behind the first one of the line that begins with it.
func lineOf(text []byte, first string) ([]string, error) {
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] == first {
			return fields[1:], nil
		}
	}
	return nil, fmt.Errorf("there is no line %q", first)
}
