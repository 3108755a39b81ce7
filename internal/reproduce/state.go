package reproduce

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"spillway/internal/harness"
	"spillway/report"
)

// stateFile says what the reproduction in a directory is of.
const stateFile = "reproduce.json"

// state is its content.
type state struct {
	Papers  []string  `json:"papers"`
	Size    string    `json:"size,omitempty"`
	Seed    *uint64   `json:"seed,omitempty"`
	Version string    `json:"version"` // of loadgen
	State   string    `json:"state"`   // as of a run
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
	Argv    []string  `json:"argv,omitempty"`

	dir  string
	lock *os.File
	now  func() time.Time
}

// ErrUsage marks errors that the user's request is to blame for.
var ErrUsage = harness.ErrUsage

type usageError struct{ error }

func (usageError) Is(target error) bool { return target == ErrUsage }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// open makes the directory, or goes on with what is there.
func (c *Config) open() (*state, error) {
	s := &state{
		Papers: c.Papers, Size: c.Size, Seed: c.Seed, Version: c.Version, State: report.StateRunning, Started: c.Now().UTC(), Argv: c.Argv, dir: c.Out, now: c.Now,
	}
	if s.dir == "" {
		s.dir = harness.DefaultOut("reproduce", c.Now())
		if before := lastOf(filepath.Dir(s.dir), s); before != "" {
			s.dir = before
		}
	}
	before, err := readState(s.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if entries, err := os.ReadDir(s.dir); err == nil && len(entries) > 0 {
			return nil, usage("results folder %s: it is not empty and has no reproduction; choose another with --out", s.dir)
		}
	case err != nil:
		return nil, err
	default:
		if differ := before.differs(s); differ != "" {
			return nil, usage("results folder %s has another reproduction: %s; choose another with --out", s.dir, differ)
		}
		s.Started = before.Started
		if before.State == report.StateComplete {
			c.Watch.Note(fmt.Sprintf("%s is complete: what is there is not measured again", s.dir))
		} else {
			c.Watch.Note("going on in " + s.dir)
		}
	}
	if err := os.MkdirAll(s.dir, 0o777); err != nil {
		return nil, fmt.Errorf("results folder: %w; choose another with --out", err)
	}
	if s.lock, err = os.Open(s.dir); err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(s.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		s.lock.Close()
		return nil, fmt.Errorf("results folder %s: another loadgen is at it (%w)", s.dir, err)
	}
	return s, s.write()
}

func (s *state) close() { s.lock.Close() }

// end says how it ended.
func (s *state) end(how string) error {
	s.State, s.Ended = how, s.now().UTC()
	return s.write()
}

func (s *state) write() error {
	return report.WriteFile(filepath.Join(s.dir, stateFile), func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(s)
	})
}

func readState(dir string) (*state, error) {
	text, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		return nil, err
	}
	s := &state{dir: dir}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, stateFile), err)
	}
	return s, nil
}

// differs says what keeps o from going on with s. Other papers do not: each profile stands for itself.
func (s *state) differs(o *state) string {
	seed := func(s *state) string {
		if s.Seed == nil {
			return "those of the profiles"
		}
		return fmt.Sprint(*s.Seed)
	}
	size := func(s *state) string {
		if s.Size == "" {
			return "as shipped"
		}
		return "--" + s.Size
	}
	var list []string
	for _, d := range []struct{ what, was, is string }{
		{"the size", size(s), size(o)}, {"the seed", seed(s), seed(o)}, {"the version of loadgen", s.Version, o.Version},
	} {
		if d.was != d.is {
			list = append(list, fmt.Sprintf("%s was %s and is %s", d.what, d.was, d.is))
		}
	}
	return strings.Join(list, "; ")
}

// lastOf returns the newest reproduction below results that is the same and did not come to its end, so that the same command goes on without being
// told where.
func lastOf(results string, of *state) string {
	dirs, err := filepath.Glob(filepath.Join(results, "*-reproduce"))
	if err != nil {
		return ""
	}
	slices.Sort(dirs)
	for _, dir := range slices.Backward(dirs) {
		s, err := readState(dir)
		if err == nil && s.State != report.StateComplete && s.differs(of) == "" && slices.Equal(s.Papers, of.Papers) {
			return dir
		}
	}
	return ""
}
