package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"spillway/internal/harness"
	"spillway/report"
)

// terminal is a pseudo-terminal and what a user would see on it.
type terminal struct {
	t             testing.TB
	master, slave *os.File

	mu      sync.Mutex
	changed *sync.Cond
	screen  screen
	raw     bytes.Buffer
	gone    bool // nobody writes any more
}

func newTerminal(t testing.TB, columns int) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	// Fd makes the file blocking, which a read in a goroutine of its own may be.
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: uint16(columns)}); err != nil {
		t.Fatal(err)
	}
	term := &terminal{t: t, master: master, slave: slave, screen: screen{width: columns, lines: []string{""}}}
	term.changed = sync.NewCond(&term.mu)
	go term.read()
	t.Cleanup(func() { master.Close(); slave.Close() })
	return term
}

func (m *terminal) read() {
	buf := make([]byte, 4096)
	for {
		n, err := m.master.Read(buf)
		m.mu.Lock()
		m.raw.Write(buf[:n])
		m.screen.write(buf[:n])
		m.gone = err != nil
		m.changed.Broadcast()
		m.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// await returns once what is on the screen matches.
func (m *terminal) await(pattern string) string {
	m.t.Helper()
	re := regexp.MustCompile(pattern)
	var late bool
	timer := time.AfterFunc(30*time.Second, func() {
		m.mu.Lock()
		late = true
		m.changed.Broadcast()
		m.mu.Unlock()
	})
	defer timer.Stop()
	m.mu.Lock()
	defer m.mu.Unlock()
	for !re.MatchString(m.screen.String()) {
		if late || m.gone {
			m.t.Fatalf("the screen never showed %q; it ends as\n%s\nraw: %q", pattern, m.screen.String(), m.raw.Bytes()[max(0, m.raw.Len()-500):])
		}
		m.changed.Wait()
	}
	return m.screen.String()
}

// end closes our side of the terminal, waits until all that was written to it has been read, and returns the screen and the bytes.
func (m *terminal) end() (shown, raw string) {
	m.slave.Close()
	m.mu.Lock()
	defer m.mu.Unlock()
	for !m.gone {
		m.changed.Wait()
	}
	return m.screen.String(), m.raw.String()
}

// screen does what a terminal does with the few sequences that a progress bar needs, and remembers those it does not know.
type screen struct {
	width    int
	lines    []string
	row, col int
	wrapped  []string // lines that did not fit
	strange  []string
	escape   []byte
}

func (s *screen) String() string { return strings.Join(s.lines, "\n") }

func (s *screen) write(text []byte) {
	for _, r := range string(text) {
		switch {
		case len(s.escape) > 0:
			s.escape = append(s.escape, string(r)...)
			if len(s.escape) > 2 && r >= '@' {
				s.sequence(string(s.escape[2:]))
				s.escape = nil
			}
		case r == '\x1b':
			s.escape = []byte{'\x1b'}
		case r == '\r':
			s.col = 0
		case r == '\n':
			s.down()
		default:
			if s.col == s.width {
				s.wrapped = append(s.wrapped, s.lines[s.row])
				s.down()
				s.col = 0
			}
			line := []rune(s.lines[s.row])
			for len(line) <= s.col {
				line = append(line, ' ')
			}
			line[s.col] = r
			s.lines[s.row] = string(line)
			s.col++
		}
	}
}

func (s *screen) down() {
	if s.row++; s.row == len(s.lines) {
		s.lines = append(s.lines, "")
	}
}

func (s *screen) sequence(text string) {
	n, _ := strconv.Atoi(text[:len(text)-1]) // none is 0, which stands for 1
	switch {
	case strings.HasSuffix(text, "A"):
		s.row = max(s.row-max(n, 1), 0)
	case text == "J":
		s.lines = append(s.lines[:s.row:s.row], string([]rune(s.lines[s.row])[:min(s.col, len([]rune(s.lines[s.row])))]))
	default:
		s.strange = append(s.strange, text)
	}
}

// TestBar draws a run on terminals of several widths.
func TestBar(t *testing.T) {
	t.Setenv("TERM", "xterm")
	for columns, want := range map[int][]string{
		120: {`^\[=+>-+\] point 3 of 24, codel at 1\.5x, repeat 1: window, 41\.2k/s in time, 1m40s left$`, `^\[-+\] capacity search: probe at 1000/s$`},
		80:  {`^\[=*>-+\] 3/24 codel at 1\.5x, repeat 1: window, 41\.2k/s, 1m40s left$`, `^\[-+\] capacity search: probe at 1000/s$`},
		40:  {`^\[=*>-+\] 3/24, 41\.2k/s, 1m40s left$`, `^\[-+\] capacity search$`},
		20:  {`^\[=*>?-*\] 3/24$`, `^\[-+\] probing$`},
	} {
		t.Run(strconv.Itoa(columns), func(t *testing.T) {
			term := newTerminal(t, columns)
			p := (&telling{}).open(term.slave)
			observe := p.only("quickstart")
			observe(harness.Event{Kind: harness.Noted, Note: "before"})
			observe(harness.Event{What: "capacity search", Phase: "probe at 1000/s", Done: 4})
			term.await(`(?m)` + want[1])
			observe(harness.Event{Kind: harness.Noted, Note: "capacity 2000"})
			e := harness.Event{What: "codel at 1.5x, repeat 1", Phase: "window", Done: 2, Total: 24, Left: 100 * time.Second}
			observe(e)
			e.Kind, e.Goodput = harness.Live, report.Known(41234)
			observe(e)
			term.await(`(?m)` + want[0])
			if columns == 120 { // between the last point and the end the bar stays
				observe(harness.Event{Kind: harness.Finished, What: "vegas at 1x, repeat 2", Done: 24, Total: 24, Goodput: report.Known(950)})
				term.await(`(?m)^\[=+>-+\] point 24 of 24, vegas at 1x, repeat 2: done, 950/s in time$`)
			}
			observe(harness.Event{Kind: harness.Noted, Note: "the last word"})
			p.close()
			fmt.Fprintln(term.slave, "done")
			shown, raw := term.end()
			if want := "before\ncapacity 2000\nthe last word\ndone\n"; shown != want {
				t.Errorf("the screen ends as\n%s\nwant\n%s\nraw: %q", shown, want, raw)
			}
			if len(term.screen.wrapped) > 0 || len(term.screen.strange) > 0 {
				t.Errorf("lines that did not fit: %q; sequences that a terminal might not take: %q", term.screen.wrapped, term.screen.strange)
			}
		})
	}
}

// TestInterruptedOnATerminal presses Ctrl-C while a bar is drawn: what a user finds then is a terminal as it was before, with the reason, and
// standard output has the table and nothing else.
func TestInterruptedOnATerminal(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		columns   int
		env, seen string
	}{
		{130, "TERM=xterm", `(?m)^\[-+\] point 1 of 1, none at 200, repeat 1: window, \d+/s in time`},
		{40, "TERM=xterm", `(?m)^\[-+\] 1/1, \d+/s`},
		{40, "TERM=xterm NO_COLOR=1", `(?m)^\[-+\] 1/1, \d+/s`},
		{80, "TERM=dumb", `(?m)^point 1 of 1, none at 200, repeat 1: window`},
	} {
		t.Run(fmt.Sprint(tt.columns, " ", tt.env), func(t *testing.T) {
			t.Parallel()
			dir := binaries(t)
			work := t.TempDir()
			profile := filepath.Join(work, "long.yaml")
			if err := os.WriteFile(profile, []byte(longProfile), 0o666); err != nil {
				t.Fatal(err)
			}
			term := newTerminal(t, tt.columns)
			before, err := unix.IoctlGetTermios(int(term.slave.Fd()), unix.TCGETS)
			if err != nil {
				t.Fatal(err)
			}
			var stdout bytes.Buffer
			cmd := exec.Command(filepath.Join(dir, "loadgen"), "run", profile, "--out", filepath.Join(work, "out"))
			if tt.env == "TERM=dumb" {
				cmd.Args = append(cmd.Args, "--verbose")
			}
			cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = work, term.slave, &stdout, term.slave
			cmd.Env = append([]string{"PATH=" + dir + ":" + os.Getenv("PATH"), "HOME=" + work}, strings.Fields(tt.env)...)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0} // so that Ctrl-C reaches it as it does in a shell
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			term.await(tt.seen)
			if _, err := term.master.Write([]byte{3}); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != exitFailed {
				t.Errorf("exit code %d, want %d", code, exitFailed)
			}
			after, err := unix.IoctlGetTermios(int(term.slave.Fd()), unix.TCGETS)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("the settings of the terminal have changed: %s", diff)
			}
			shown, raw := term.end()
			if strings.Contains(shown, "[-") || !strings.HasSuffix(shown, "\n") || !strings.Contains(strings.ReplaceAll(shown, "\n", ""), "loadgen: interrupted") {
				t.Errorf("the screen ends as\n%s\nraw: %q", shown, raw)
			}
			for _, line := range term.screen.wrapped {
				if strings.HasPrefix(line, "[") {
					t.Errorf("a bar that did not fit: %q", line)
				}
			}
			if len(term.screen.strange) > 0 || tt.env == "TERM=dumb" && strings.Contains(raw, "\x1b") {
				t.Errorf("sequences that this terminal does not take: %q in %q", term.screen.strange, raw)
			}
			if out := stdout.String(); !strings.Contains(out, "goodput/s") || strings.ContainsAny(out, "\r\x1b") || strings.Contains(out, "point 1") {
				t.Errorf("standard output:\n%q", out)
			}
		})
	}
}

const longProfile = `name: long
server: {kind: memcached}
workload:
  kind: kv
  connections: 2
  classes: [{name: r, share: 1, slo: 500ms, keys: 1, value: 10B}]
load: {rates: [200]}
controllers: [{name: none}]
warmup: 0s
window: 60s
repeats: 1
`
