//go:build linux

package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	serverName    = "refserver"
	listeningLine = "refserver: listening on "

	startDeadline = 10 * time.Second // from exec to the listening line
	stopDeadline  = 5 * time.Second  // from SIGTERM to SIGKILL
	lastWords     = 4096             // bytes kept of a server's standard error
)

// findServer returns the path of refserver: beside this executable, else in PATH.
func findServer() (string, error) {
	if self, err := os.Executable(); err == nil {
		path := filepath.Join(filepath.Dir(self), serverName)
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path, nil
		}
	}
	path, err := exec.LookPath(serverName)
	if err != nil {
		return "", fmt.Errorf("%s is neither beside loadgen nor in PATH; `make build` builds both into bin/", serverName)
	}
	return path, nil
}

// process is a server that this process started.
type process struct {
	cmd    *exec.Cmd
	addr   string // host:port
	stderr tail
	done   chan struct{} // closed once it has ended
	err    error         // how it ended; valid after done
}

// startProcess starts a server and waits until it says that it listens.
func startProcess(ctx context.Context, path string, args, env []string) (*process, error) {
	p := &process{cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.cmd.Env = env
	p.cmd.Stderr = &p.stderr
	// In a process group of its own the server does not get the terminal's Ctrl-C, which is meant for us: the replies that are on
	// their way are still to be read. If we are killed it goes with us.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	first := &firstLine{line: make(chan string, 1)}
	p.cmd.Stdout = first
	// What the server left running may hold its outputs open; it is not worth waiting for.
	p.cmd.WaitDelay = time.Second
	started := make(chan error)
	go func() {
		// The kernel sends Pdeathsig when the thread that started the child ends, not the process, so this thread must live as long.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		p.err = p.cmd.Start()
		started <- p.err
		if p.err == nil {
			p.err = p.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting the server: %w", err)
	}
	return p, p.awaitListening(ctx, first.line)
}

// firstLine is a writer that hands on the first line written to it, once it is whole, and discards the rest.
type firstLine struct {
	line chan string
	text []byte
	done bool
}

// Write implements io.Writer. It never fails.
func (f *firstLine) Write(b []byte) (int, error) {
	if f.done {
		return len(b), nil
	}
	f.text = append(f.text, b...)
	if end := bytes.IndexByte(f.text, '\n'); end >= 0 || len(f.text) > lastWords {
		f.done = true
		if end < 0 {
			end = lastWords
		}
		f.line <- string(f.text[:end])
	}
	return len(b), nil
}

func (p *process) awaitListening(ctx context.Context, lines <-chan string) error {
	deadline := time.NewTimer(startDeadline)
	defer deadline.Stop()
	var err error
	select {
	case line := <-lines:
		addr, found := strings.CutPrefix(line, listeningLine)
		if found {
			p.addr = strings.TrimPrefix(strings.TrimSpace(addr), "tcp://")
			return nil
		}
		err = fmt.Errorf("the server said %q instead of where it listens; loadgen and refserver are of different versions, `make build` renews both", line)
	case <-p.done:
		return fmt.Errorf("the server ended at once (%w)%s", p.ended(), p.words())
	case <-deadline.C:
		err = fmt.Errorf("the server did not listen within %s%s", startDeadline, p.words())
	case <-ctx.Done():
		err = ctx.Err()
	}
	p.stop()
	return err
}

// ended returns how the process ended, never nil.
func (p *process) ended() error {
	if p.err == nil {
		return errors.New("exit status 0")
	}
	return p.err
}

// words returns what the server wrote to its standard error, for an error message.
func (p *process) words() string {
	if s := strings.TrimSpace(p.stderr.String()); s != "" {
		return ": " + s
	}
	return ""
}

// died reports whether the process has ended although nobody stopped it.
func (p *process) died() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// stop ends the process: SIGTERM, and SIGKILL when that does not help in time.
func (p *process) stop() {
	if p.died() {
		return
	}
	// A stopped process (SIGSTOP) takes SIGTERM only once it goes on.
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	timer := time.NewTimer(stopDeadline)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// tail is a writer that keeps the last bytes written to it.
type tail struct {
	mu struct {
		sync.Mutex
		text []byte
	}
}

// Write implements io.Writer. It never fails.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.text = append(t.mu.text, b...)
	if extra := len(t.mu.text) - lastWords; extra > 0 {
		t.mu.text = append(t.mu.text[:0], t.mu.text[extra:]...)
	}
	return len(b), nil
}

// String returns what is kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.mu.text)
}
