package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// ellipsis stands in docs/cli.md for text that differs from run to run; on a line of its own, for any number of lines.
const ellipsis = "…"

var outFlag = regexp.MustCompile(`--out ([a-z-]+)`)

// TestDocumentation executes the blocks of docs/cli.md in one shell and folder, in order, and holds each command's output against what
// follows it there.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	sh := newShell(t, dir, "PATH="+binaries(t)+":"+os.Getenv("PATH"), "HOME="+dir, "TERM=dumb")
	n := 0
	for _, example := range examples(string(text)) {
		n++
		got := sh.run(example.command)
		for try := 1; try < noisyTries && strings.Contains(got, "points are not valid"); try++ {
			t.Logf("$ %s\nis not valid at try %d: this machine is busy", example.command, try)
			if out := outFlag.FindStringSubmatch(example.command); out != nil {
				sh.run("rm -r " + out[1])
			}
			got = sh.run(example.command)
		}
		if !example.pattern().MatchString(got) {
			t.Errorf("cli.md:%d: $ %s\nsays\n%s\nin the document stands\n%s", example.line, example.command, got, example.output)
		}
	}
	if n < 10 {
		t.Errorf("only %d commands were found in the document", n)
	}
}

type example struct {
	line            int
	command, output string
}

// examples returns the commands in fences marked `console`, each with the lines up to the next one.
func examples(text string) (list []example) {
	inside := false
	for i, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			inside = line == "```console"
		case !inside:
		case strings.HasPrefix(line, "$ "):
			list = append(list, example{line: i + 1, command: line[2:]})
		case len(list) > 0:
			list[len(list)-1].output += line + "\n"
		}
	}
	return list
}

// pattern turns the documented output into an expression that the whole output must match.
func (e *example) pattern() *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for _, line := range strings.SplitAfter(e.output, "\n") {
		if line == ellipsis+"\n" {
			b.WriteString(`(?:[^\n]*\n)*?`)
			continue
		}
		for i, part := range strings.Split(line, ellipsis) {
			if i > 0 {
				b.WriteString(`[^\n]*`)
			}
			b.WriteString(regexp.QuoteMeta(part))
		}
	}
	b.WriteString(`\z`)
	return regexp.MustCompile(b.String())
}

// shell is one shell that executes commands one after another, so that variables, folders and background jobs last.
type shell struct {
	t   *testing.T
	in  *bufio.Writer
	out *bufio.Reader
}

func newShell(t *testing.T, dir string, env ...string) *shell {
	t.Helper()
	cmd := exec.Command("sh")
	cmd.Dir, cmd.Env = dir, env
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &shell{t: t, in: bufio.NewWriter(in), out: bufio.NewReader(out)}
	t.Cleanup(func() {
		// What the document started in the background ends with it.
		s.run("jobs -p > pids; for p in $(cat pids); do kill $p; done; wait")
		in.Close()
		_ = cmd.Wait()
	})
	return s
}

// run executes one command and returns what it printed on either output, without spaces at the ends of lines.
func (s *shell) run(command string) string {
	const end = "--- end of output ---"
	s.in.WriteString(command + "\necho '" + end + "'\n")
	if err := s.in.Flush(); err != nil {
		s.t.Fatal(err)
	}
	if background, _ := regexp.MatchString(`cache\.sock.*&$`, command); background {
		defer s.await("cache.sock")
	}
	var b bytes.Buffer
	for {
		line, err := s.out.ReadString('\n')
		if err != nil {
			s.t.Fatalf("the shell ended at %q: %v\n%s", command, err, b.String())
		}
		if strings.TrimSpace(line) == end {
			return b.String()
		}
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
}

// await returns once the server that the document started listens.
func (s *shell) await(socket string) {
	dir := strings.TrimSpace(s.run("pwd"))
	if err := awaitSocket(filepath.Join(dir, socket)); err != nil {
		s.t.Fatal(err)
	}
}
