//go:build linux

package counters

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"spillway/counters/perf"
	"spillway/counters/sysfs"
)

// unprivileged, in the environment, says that this process is the one of TestWithoutRights that has none.
const unprivileged = "SPILLWAY_TEST_UNPRIVILEGED"

// Without rights the kernel refuses to count for a whole processor, and what we say of it is the right and not the hardware that is missing.
func TestWithoutRights(t *testing.T) {
	if os.Getenv(unprivileged) != "" {
		_, err := perf.Open(perf.Host{}, []perf.Attr{{Type: perf.TypeSoftware, Config: unix.PERF_COUNT_SW_CPU_CLOCK}}, 64)
		if !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EPERM) {
			t.Fatalf("without rights: %v", err)
		}
		u := explain(Here(), "software on CPU 0", err)
		if !strings.Contains(u.Reason, "not permitted, kernel.perf_event_paranoid is ") || !strings.Contains(u.Remedy, "cap_perfmon") {
			t.Fatalf("%q; %q", u.Reason, u.Remedy)
		}
		return
	}
	paranoid, err := sysfs.Root("").Text("/proc/sys/kernel/perf_event_paranoid")
	if os.Geteuid() != 0 || err != nil || strings.HasPrefix(paranoid, "-") || paranoid == "0" {
		t.Skipf("needs root to give up its rights, and a kernel that asks for some; kernel.perf_event_paranoid is %q", paranoid)
	}
	cmd := exec.Command("/proc/self/exe", "-test.run", "^TestWithoutRights$", "-test.v")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), unprivileged+"=1")
	const nobody = 65534
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, os.ErrPermission) {
		t.Skipf("nobody may not run this test: %v", err)
	}
	if err != nil || !strings.Contains(string(out), "PASS: TestWithoutRights") {
		t.Errorf("%v\n%s", err, out)
	}
}
