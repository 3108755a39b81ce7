//go:build linux

package harness

import (
	"os"
	"runtime"
	"strings"

	"github.com/prometheus/procfs"

	"spillway/report"
)

func goVersion() string { return runtime.Version() }

// kernelVersion returns the release of the running kernel, empty when it cannot be read.
func kernelVersion() string {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(release))
}

// machineFacts describes this computer, without its name: results are passed on to others.
func machineFacts() report.Machine {
	m := report.Machine{Cores: runtime.NumCPU()}
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return m
	}
	if cpus, err := fs.CPUInfo(); err == nil && len(cpus) > 0 {
		m.CPUModel = cpus[0].ModelName
	}
	if mem, err := fs.Meminfo(); err == nil && mem.MemTotalBytes != nil {
		m.RAMBytes = *mem.MemTotalBytes
	}
	return m
}
