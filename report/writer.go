package report

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"spillway/internal/hist"
)

// The files of a result directory.
const (
	manifestFile   = "manifest.json"
	pointsFile     = "points.csv"
	traceFile      = "trace.csv"
	histogramsFile = "histograms.hlog"
	reportFile     = "report.md"
)

// Writer writes a result directory while a run goes on. After every point manifest.json and points.csv are whole and up to date;
// trace.csv and histograms.hlog, which grow large, are written beside their place and appear when the Writer is closed.
//
// The first failure of a write is an error, but the rest is still attempted: on a full disk as much as possible should remain.
type Writer struct {
	dir      string
	Manifest Manifest // may be changed between calls; every call writes it
	rows     []Row
	order    map[string]int // of rows, by where the point stands in the profile
	trace    *stream
	hlog     *stream
	log      *hist.LogWriter // into hlog
}

// NewWriter makes the directory and proves that it can be written to. It refuses one that exists and holds anything. order lists the
// labels of points (see PointLabel) in the order in which their rows shall stand.
func NewWriter(dir string, m Manifest, order []string) (*Writer, error) {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return nil, fmt.Errorf("results folder %s: %w", dir, ErrNotEmpty)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("results folder: %w; choose another with --out", err)
	}
	w := &Writer{dir: dir, Manifest: m, order: map[string]int{}}
	w.Manifest.SchemaVersion = SchemaVersion
	for i, label := range order {
		w.order[label] = i
	}
	if err := w.writeManifest(); err != nil {
		return nil, err
	}
	var err error
	if w.trace, err = newStream(filepath.Join(dir, traceFile)); err != nil {
		return nil, err
	}
	if w.hlog, err = newStream(filepath.Join(dir, histogramsFile)); err != nil {
		w.trace.abandon()
		return nil, err
	}
	if err := w.begin(); err != nil {
		return nil, err
	}
	return w, nil
}

// ErrNotEmpty says that a results folder exists already and is not empty.
var ErrNotEmpty = errors.New("exists and is not empty; choose another with --out, or remove it")

// begin writes what stands at the head of the streamed files.
func (w *Writer) begin() error {
	head := csv.NewWriter(w.trace.w)
	if err := head.Write(traceHeader); err != nil {
		return w.trace.fail(err)
	}
	head.Flush()
	if err := head.Error(); err != nil {
		return w.trace.fail(err)
	}
	var err error
	w.log, err = hist.NewLogWriter(w.hlog.w, w.Manifest.Started)
	return w.hlog.fail(err)
}

// Point is what is written of one measured point.
type Point struct {
	Rows      []Row        // one a class, then the row of all
	Latencies []*hist.Hist // of the rows, in the same order
	Start     time.Time    // of the window
	Window    time.Duration
	Samples   []Sample
	Facts     PointFacts
}

// PointLabel names a point: controller, load and repeat.
func PointLabel(controller, load string, repeat int) string {
	return fmt.Sprintf("%s/%s/%d", controller, load, repeat)
}

// Add writes one point.
func (w *Writer) Add(p *Point) error {
	w.rows = append(w.rows, p.Rows...)
	slices.SortStableFunc(w.rows, func(a, b Row) int { return w.place(&a) - w.place(&b) })
	w.Manifest.Points = append(w.Manifest.Points, p.Facts)
	errs := []error{w.writePoints(), w.writeManifest()}
	if len(p.Rows) > 0 {
		errs = append(errs, w.trace.fail(writeSamples(w.trace.w, &p.Rows[0], p.Samples)))
	}
	for i, h := range p.Latencies {
		if h.Count() > 0 {
			errs = append(errs, w.hlog.fail(w.log.Write(p.Rows[i].Tag(), p.Start.Sub(w.Manifest.Started), p.Window, h)))
		}
	}
	return errors.Join(errs...)
}

func (w *Writer) place(r *Row) int { return w.order[PointLabel(r.Controller, r.Load(), r.Repeat)] }

// Rows returns what was written so far, in the order of points.csv.
func (w *Writer) Rows() []Row { return w.rows }

// Dir returns the directory.
func (w *Writer) Dir() string { return w.dir }

// Update writes the manifest as it stands now.
func (w *Writer) Update() error { return w.writeManifest() }

// Close ends the run in the given state at the given time, puts the streamed files in their place and writes the report.
func (w *Writer) Close(at time.Time, state string, cause error) error {
	w.Manifest.State = state
	w.Manifest.Ended = at.UTC()
	if cause != nil {
		w.Manifest.Error = cause.Error()
	}
	errs := []error{w.writePoints(), w.writeManifest(), w.trace.commit(), w.hlog.commit()}
	errs = append(errs, w.writeReport())
	return errors.Join(errs...)
}

func (w *Writer) writePoints() error {
	return writeWhole(filepath.Join(w.dir, pointsFile), func(out io.Writer) error { return CSV(out, w.rows) })
}

func (w *Writer) writeManifest() error {
	return writeWhole(filepath.Join(w.dir, manifestFile), func(out io.Writer) error {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(&w.Manifest)
	})
}

func (w *Writer) writeReport() error {
	run, err := ReadDir(w.dir)
	if err != nil {
		return err
	}
	return WriteFile(filepath.Join(w.dir, reportFile), func(out io.Writer) error { return Markdown(out, []*Run{run}) })
}

// WriteFile writes a file so that it appears whole or not at all.
func WriteFile(path string, write func(io.Writer) error) error { return writeWhole(path, write) }

// writeWhole writes beside the file and renames: a reader never sees half of it, and a failure leaves the old one.
func writeWhole(path string, write func(io.Writer) error) error {
	s, err := newStream(path)
	if err != nil {
		return err
	}
	if err := s.fail(write(s.w)); err != nil {
		s.abandon()
		return err
	}
	return s.commit()
}

// stream is a file in the making, beside its place.
type stream struct {
	path string
	file *os.File
	w    *bufio.Writer
}

func newStream(path string) (*stream, error) {
	f, err := os.OpenFile(path+".partial", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return nil, fmt.Errorf("results: %w", err)
	}
	return &stream{path: path, file: f, w: bufio.NewWriterSize(f, 1<<16)}, nil
}

// fail gives an error of writing the name of the file.
func (s *stream) fail(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("results: %s: %w", s.path, err)
}

func (s *stream) abandon() {
	s.file.Close()
	os.Remove(s.file.Name())
}

// commit puts the file in its place. After a failed write what there is stays beside it, under its name with .partial: half a trace
// is worth more than none.
func (s *stream) commit() error {
	err := s.w.Flush()
	if err == nil {
		err = s.file.Sync()
	}
	if cerr := s.file.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(s.file.Name(), s.path)
	}
	return s.fail(err)
}
