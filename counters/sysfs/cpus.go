package sysfs

import (
	"fmt"
	"strconv"
	"strings"
)

// maxCPU is the largest number that a list of CPUs may have; the kernel supports 8192 processors today.
const maxCPU = 1<<16 - 1

// ParseCPUs reads a list of CPUs as the kernel writes it, such as "0-3,8" or "0,24". White space around it is ignored, and nothing at all is
// an empty list.
func ParseCPUs(text string) ([]int, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, nil
	}
	var cpus []int
	seen := map[int]bool{}
	for _, part := range strings.Split(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := cpuNumber(from)
		if err != nil {
			return nil, fmt.Errorf("list of CPUs %q: %w", text, err)
		}
		last := first
		if isRange {
			if last, err = cpuNumber(to); err != nil {
				return nil, fmt.Errorf("list of CPUs %q: %w", text, err)
			}
		}
		if last < first {
			return nil, fmt.Errorf("list of CPUs %q: %s runs backwards", text, part)
		}
		for c := first; c <= last; c++ {
			if !seen[c] {
				seen[c] = true
				cpus = append(cpus, c)
			}
		}
	}
	return cpus, nil
}

func cpuNumber(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number", s)
	}
	if n > maxCPU {
		return 0, fmt.Errorf("%s is above %d", s, maxCPU)
	}
	return int(n), nil
}

// CPUs returns the processors that are online.
func (r Root) CPUs() []int {
	text, err := r.Text("/sys/devices/system/cpu/online")
	if err != nil {
		return nil
	}
	cpus, err := ParseCPUs(text)
	if err != nil {
		return nil
	}
	return cpus
}

// Package returns the socket that a processor is in, 0 where the kernel does not say.
func (r Root) Package(cpu int) int {
	text, err := r.Text(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/topology/physical_package_id", cpu))
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 { // -1 on machines without the notion
		return 0
	}
	return n
}

// Cache is the last-level cache that one processor sees.
type Cache struct {
	Level int
	Bytes int64
	CPUs  []int // that share it
}

// LLC returns the last-level cache of the first processor online; false where the kernel does not describe it.
func (r Root) LLC() (c Cache, ok bool) {
	cpu := 0
	if cpus := r.CPUs(); len(cpus) > 0 {
		cpu = cpus[0]
	}
	dir := fmt.Sprintf("/sys/devices/system/cpu/cpu%d/cache", cpu)
	for _, name := range r.Names(dir) {
		if !Numbered("index#", name) {
			continue
		}
		kind, _ := r.Text(dir + "/" + name + "/type")
		level, _ := r.Text(dir + "/" + name + "/level")
		size, _ := r.Text(dir + "/" + name + "/size")
		n, err := strconv.Atoi(level)
		bytes := parseSize(size)
		if err != nil || kind == "Instruction" || bytes == 0 || n <= c.Level {
			continue
		}
		shared, _ := r.Text(dir + "/" + name + "/shared_cpu_list")
		cpus, _ := ParseCPUs(shared)
		c, ok = Cache{Level: n, Bytes: bytes, CPUs: cpus}, true
	}
	return c, ok
}

// parseSize reads the size of a cache, such as "32768K"; 0 is not known.
func parseSize(s string) int64 {
	const units = "KMG"
	shift := 0
	if s != "" {
		if i := strings.IndexByte(units, s[len(s)-1]); i >= 0 {
			shift = 10 * (i + 1)
			s = s[:len(s)-1]
		}
	}
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return 0
	}
	return int64(n) << shift
}

// CPU says what kind of processor this is.
type CPU struct {
	Vendor        string // as in /proc/cpuinfo; "arm" where that has the number of an implementer instead
	Name          string
	Family, Model int
	Hypervisor    bool // the processor says that this is a virtual machine
	PerfMonV2     bool // AMD's newer interface to counters, Zen 4 and later
}

// CPU describes the first processor. Fields that the kernel does not give are zero.
func (r Root) CPU() CPU {
	text, err := r.Text("/proc/cpuinfo")
	if err != nil {
		return CPU{}
	}
	return parseCPU(text)
}

func parseCPU(text string) (c CPU) {
	first, _, _ := strings.Cut(text, "\n\n") // the first processor
	for _, line := range strings.Split(first, "\n") {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "vendor_id":
			c.Vendor = value
		case "CPU implementer":
			c.Vendor = "arm"
		case "model name":
			c.Name = value
		case "cpu family":
			c.Family, _ = strconv.Atoi(value)
		case "model":
			c.Model, _ = strconv.Atoi(value)
		case "flags":
			for _, f := range strings.Fields(value) {
				c.Hypervisor = c.Hypervisor || f == "hypervisor"
				c.PerfMonV2 = c.PerfMonV2 || f == "perfmon_v2"
			}
		}
	}
	return c
}

// BogoMIPS returns what the kernel prints of the first processor's delay loop, 0 where it does not.
func (r Root) BogoMIPS() float64 {
	text, _ := r.Text("/proc/cpuinfo")
	for _, line := range strings.Split(text, "\n") {
		if key, value, _ := strings.Cut(line, ":"); strings.EqualFold(strings.TrimSpace(key), "bogomips") {
			v, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return v
		}
	}
	return 0
}
