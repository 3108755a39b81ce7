//go:build linux

package counters

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"spillway/counters/sysfs"
)

// captured are the files that describe a machine to this package, as patterns of absolute paths. Nothing else is read.
var captured = []string{
	"/proc/cpuinfo", "/proc/filesystems", "/proc/mounts", "/proc/self/cgroup", "/proc/self/mountinfo", "/proc/stat", "/proc/schedstat",
	"/proc/self/task/*/schedstat", "/proc/pressure/*", "/proc/sys/kernel/osrelease", "/proc/sys/kernel/perf_event_paranoid", "/proc/sys/kernel/nmi_watchdog",
	"/sys/bus/event_source/devices/*/type", "/sys/bus/event_source/devices/*/cpumask", "/sys/bus/event_source/devices/*/cpus",
	"/sys/bus/event_source/devices/*/associated_cpus", "/sys/bus/event_source/devices/*/perf_event_mux_interval_ms",
	"/sys/bus/event_source/devices/*/format/*", "/sys/bus/event_source/devices/*/events/*",
	"/sys/devices/system/cpu/online", "/sys/devices/system/node/online", "/sys/devices/system/cpu/cpu*/topology/physical_package_id",
	"/sys/devices/system/cpu/cpu0/cache/index*/level", "/sys/devices/system/cpu/cpu0/cache/index*/type",
	"/sys/devices/system/cpu/cpu0/cache/index*/size", "/sys/devices/system/cpu/cpu0/cache/index*/shared_cpu_list",
	"/sys/class/powercap/*/name", "/sys/class/powercap/*/energy_uj", "/sys/class/powercap/*/max_energy_range_uj",
	"/sys/fs/resctrl/info/L3_MON/*", "/sys/fs/resctrl/mon_data/*/*", "/sys/fs/cgroup/cpu.stat", "/sys/fs/cgroup/*/cpu.stat",
}

// maxCaptured bounds what one file may add to a copy, and how many files there may be.
const (
	maxCapturedBytes = 64 << 10
	maxCapturedFiles = 20_000
)

var (
	// Identities of containers and machines are long runs of hexadecimal digits, with or without dashes.
	identity = regexp.MustCompile(`[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{8,}`)
	serial   = regexp.MustCompile(`(?mi)^(serial|hardware serial)\s*:.*\n?`)
)

// Capture copies the files that describe a machine below dir, so that it can stand in for the machine in tests. Names of the host, serial numbers and
// identities of containers are left out. It returns how many files were copied.
func Capture(root sysfs.Root, dir string) (files int, err error) {
	host, _ := os.Hostname()
	for _, pattern := range captured {
		paths, err := filepath.Glob(root.Path(pattern))
		if err != nil {
			return files, fmt.Errorf("%s: %w", pattern, err)
		}
		for _, full := range paths {
			p := strings.TrimPrefix(full, string(root))
			text, err := root.Text(p)
			if err != nil {
				continue // a folder, or not readable: on the copy it is not there either
			}
			if files++; files > maxCapturedFiles {
				return files, errors.New("more files than a machine has: the copy was given up")
			}
			if err := write(filepath.Join(dir, p), redact(p, text, host)); err != nil {
				return files, err
			}
		}
	}
	return files, nil
}

// redact takes out of a file what says whose machine it is, and what is not needed of it.
func redact(p, text, host string) string {
	switch p {
	case "/proc/cpuinfo":
		text, _, _ = strings.Cut(text, "\n\n") // one processor is enough
		text = serial.ReplaceAllString(text, "")
	case "/proc/mounts", "/proc/self/mountinfo":
		var kept []string
		for _, line := range strings.Split(text, "\n") {
			if strings.Contains(line, " cgroup") || strings.Contains(line, " resctrl ") {
				kept = append(kept, line)
			}
		}
		text = strings.Join(kept, "\n")
	case "/proc/self/cgroup":
		text = lastPart.ReplaceAllString(text, "$1/redacted")
	}
	if host != "" && host != "localhost" {
		text = regexp.MustCompile(`\b`+regexp.QuoteMeta(host)+`\b`).ReplaceAllString(text, "host")
	}
	text = identity.ReplaceAllString(text, "redacted")
	return text[:min(len(text), maxCapturedBytes)]
}

// lastPart finds the paths of control groups that have a name, which may be a user's or a container's.
var lastPart = regexp.MustCompile(`(?m)^([0-9]+:[^:\n]*:)/.+$`)

func write(name, text string) error {
	if err := os.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(text+"\n"), 0o644)
}
