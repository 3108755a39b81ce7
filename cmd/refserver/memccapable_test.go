package main

import (
	"context"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMemccapable has libmemcached's own conformance suite judge the server, also under controllers that hand out credits: whoever asks for
// none must not notice.
func TestMemccapable(t *testing.T) {
	t.Parallel()
	path, err := exec.LookPath("memccapable")
	if err != nil {
		t.Skipf("not judged by memccapable: %v (apt-get install libmemcached-tools)", err)
	}
	for _, controller := range []string{"none", "protego", "svalinn"} {
		t.Run(controller, func(t *testing.T) {
			t.Parallel()
			cmd, addrs, _ := launch(t, "memcached", "-p", "0", "-t", "2", "--control", controller, "--slo", "10s")
			host, port, err := net.SplitHostPort(addrs[0])
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			out, err := exec.CommandContext(ctx, path, "-a", "-h", host, "-p", port).CombinedOutput()
			passed := strings.Count(string(out), "[pass]")
			if err != nil || passed < 27 || strings.Contains(string(out), "[FAIL]") || !strings.Contains(string(out), "All tests passed") {
				t.Errorf("%v, %d tests passed\n%s", err, passed, out)
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}
