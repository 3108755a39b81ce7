package report

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
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

	// Those that follow from the others, and are there when they have something to say.
	claimsFile      = "claims.csv"
	attributionFile = "attribution.csv"
	settlingFile    = "settling.csv"
	allocationFile  = "allocation.csv"
	sloFile         = "slo.csv"
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
	finished *os.File        // the points that are whole; see resume.go
	unlisted []byte          // lines of finished to come
	behind   int             // points that are not in the files that are written whole
	cells    allocationSums  // of allocation.csv
	made     bool            // the directory did not exist
}

// NewWriter makes the directory and proves that it can be written to. It refuses one that exists and holds anything. order lists the
// points (see Row.Point) in the order in which their rows shall stand.
func NewWriter(dir string, m Manifest, order []string) (*Writer, error) {
	entries, err := os.ReadDir(dir)
	if err == nil && slices.ContainsFunc(entries, notBegun) {
		return nil, fmt.Errorf("results folder %s: %w", dir, ErrNotEmpty)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("results folder: %w; choose another with --out", err)
	}
	w := &Writer{dir: dir, Manifest: m, order: map[string]int{}, made: err != nil}
	w.Manifest.SchemaVersion = SchemaVersion
	for i, label := range order {
		w.order[label] = i
	}
	// All are there from the beginning, so that the folder can be read at any time.
	if err := errors.Join(w.writeReserve(), w.writeManifest(false), w.writePoints(false)); err != nil {
		w.discard()
		return nil, once(err)
	}
	if err := w.openStreams(); err != nil {
		return nil, err
	}
	if w.finished, err = openFinished(dir, 0); err != nil {
		return nil, err
	}
	return w, nil
}

// openStreams begins trace.csv and histograms.hlog.
func (w *Writer) openStreams() (err error) {
	if w.trace, err = newStream(filepath.Join(w.dir, traceFile)); err != nil {
		return err
	}
	if w.hlog, err = newStream(filepath.Join(w.dir, histogramsFile)); err != nil {
		w.trace.abandon()
		return err
	}
	return w.begin()
}

// reserveFile holds room on the disk, which the last writes get back: a run that fills the disk can still say so in its manifest.
const (
	reserveFile  = "reserve.partial"
	reserveBytes = 1 << 20
)

func (w *Writer) writeReserve() error {
	s, err := newStream(filepath.Join(w.dir, strings.TrimSuffix(reserveFile, partial)))
	if err != nil {
		return err
	}
	// What is not written takes no room.
	_, err = s.w.Write(bytes.Repeat([]byte("reserved\n"), reserveBytes/9))
	return s.fail(errors.Join(err, s.w.Flush(), s.file.Close()))
}

// Discard takes the directory away again, for a run that measured nothing. What is not of the Writer stays.
func (w *Writer) Discard() {
	w.trace.file.Close()
	w.hlog.file.Close()
	w.finished.Close()
	w.discard()
}

func (w *Writer) discard() {
	for _, name := range []string{manifestFile, pointsFile, traceFile, histogramsFile, reportFile, PageFile, RequestsFile, claimsFile, attributionFile, settlingFile, sloFile, allocationFile} {
		os.Remove(filepath.Join(w.dir, name))
		os.Remove(filepath.Join(w.dir, name+partial))
	}
	os.Remove(filepath.Join(w.dir, reserveFile))
	os.Remove(filepath.Join(w.dir, finishedFile))
	drawn, _ := filepath.Glob(filepath.Join(w.dir, filepath.FromSlash(plotsGlob)))
	for _, name := range drawn {
		os.Remove(name)
	}
	os.Remove(filepath.Join(w.dir, filepath.Dir(plotsGlob)))
	if w.made {
		os.Remove(w.dir) // fails when somebody else put something there, as it should
	}
}

// once returns the errors joined in err without those whose cause another has already: a full disk is full for all files.
func once(errs ...error) error {
	var kept []error
	var causes []error
	for _, err := range errs {
		for _, e := range parts(err) {
			var cause syscall.Errno
			if errors.As(e, &cause) {
				if slices.Contains(causes, error(cause)) {
					continue
				}
				causes = append(causes, cause)
			}
			kept = append(kept, e)
		}
	}
	if len(kept) == 1 {
		return kept[0]
	}
	return errors.Join(kept...)
}

// parts returns the errors that err joins, or err.
func parts(err error) (list []error) {
	joined, ok := err.(interface{ Unwrap() []error })
	switch {
	case err == nil:
	case !ok:
		return []error{err}
	default:
		for _, e := range joined.Unwrap() {
			list = append(list, parts(e)...)
		}
	}
	return list
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
	w.log, err = hist.NewLogWriter(w.hlog.w, w.epoch())
	return w.hlog.fail(err)
}

// Point is what is written of one measured point.
type Point struct {
	Rows      []Row        // one a class, then the row of all
	Latencies []*hist.Hist // of the rows, in the same order
	Start     time.Time    // of the window; on the ground sim, where time begins with the warm-up, since the zero time
	Window    time.Duration
	Samples   []Sample
	Cells     []AllocationCell // of an allocation; nil of anything else
	Facts     PointFacts

	Unfinished bool // it was cut short or failed: whoever goes on with the run measures it again
}

// PointLabel names a point of a profile without variants: controller, load and repeat.
func PointLabel(controller, load string, repeat int) string {
	return fmt.Sprintf("%s/%s/%d", controller, load, repeat)
}

// mayLag is the share of the points by which the files that are written whole may be behind in a simulation: it brings points faster than all of
// them could be written again for each. Those that were not written when it is killed are simulated again.
const mayLag = 0.01

// Add writes one point.
func (w *Writer) Add(p *Point) error {
	w.rows = append(w.rows, p.Rows...)
	w.Manifest.Points = append(w.Manifest.Points, p.Facts)
	w.cells.add(p)
	var errs []error
	if len(p.Rows) > 0 {
		errs = append(errs, w.trace.fail(writeSamples(w.trace.w, &p.Rows[0], p.Samples)))
	}
	for i, h := range p.Latencies {
		if h.Count() > 0 {
			errs = append(errs, w.hlog.fail(w.log.Write(p.Rows[i].Tag(), p.Start.Sub(w.epoch()), p.Window, h)))
		}
	}
	errs = append(errs, w.trace.fail(w.trace.w.Flush()), w.hlog.fail(w.hlog.w.Flush()))
	if !p.Unfinished && once(errs...) == nil {
		errs = append(errs, w.finish(p))
	}
	w.behind++
	if w.Manifest.Ground != groundSim || float64(w.behind) > mayLag*float64(len(w.Manifest.Points)) {
		errs = append(errs, w.write())
	}
	return once(errs...)
}

// write brings up to date what is written whole, and then the list of what is finished, so that what is listed is there.
func (w *Writer) write() error {
	w.behind = 0
	again := w.Manifest.Ground == groundSim // if the power fails, what the disk does not have is simulated once more
	if err := once(w.writePoints(again), w.writeManifest(again)); err != nil {
		return err
	}
	return w.list()
}

// epoch is what the intervals of histograms.hlog count from. A simulation has no calendar, so that the same seed gives the same bytes.
func (w *Writer) epoch() time.Time {
	if w.Manifest.Ground == groundSim {
		return time.Time{}
	}
	return w.Manifest.Started
}

// groundSim is the ground whose time is virtual.
const groundSim = "sim"

func (w *Writer) place(r *Row) int { return w.order[r.Point()] }

// Rows returns what was written so far, in the order of points.csv.
func (w *Writer) Rows() []Row {
	slices.SortStableFunc(w.rows, func(a, b Row) int { return w.place(&a) - w.place(&b) })
	return w.rows
}

// Dir returns the directory.
func (w *Writer) Dir() string { return w.dir }

// Update writes the manifest as it stands now, and all points.
func (w *Writer) Update() error { return w.write() }

// Close ends the run in the given state at the given time, and puts the streamed files in their place. What
// follows from them is written by package report/document.
func (w *Writer) Close(at time.Time, state string, cause error) error {
	w.Manifest.State = state
	w.Manifest.Ended = at.UTC()
	if cause != nil {
		w.Manifest.Error = cause.Error()
	}
	os.Remove(filepath.Join(w.dir, reserveFile))
	errs := []error{w.writePoints(false), w.writeManifest(false), w.list(), w.trace.commit(), w.hlog.commit()}
	errs = append(errs, w.writeAllocation(), w.endFinished(state == StateComplete && once(errs...) == nil))
	return Further(cause, errs...) // what it says already is not said again, and it is not returned
}

func (w *Writer) writePoints(again bool) error {
	return putWhole(filepath.Join(w.dir, pointsFile), func(out io.Writer) error { return CSV(out, w.Rows()) }, again)
}

func (w *Writer) writeManifest(again bool) error {
	return putWhole(filepath.Join(w.dir, manifestFile), func(out io.Writer) error {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(&w.Manifest)
	}, again)
}

// WriteFile writes a file so that it appears whole or not at all.
func WriteFile(path string, write func(io.Writer) error) error { return writeWhole(path, write) }

// WriteDocument is WriteFile for what can be made again of other files: it does not wait until the disk has it, which takes longer than drawing a
// figure and may leave an empty file behind if the power fails.
func WriteDocument(path string, write func(io.Writer) error) error {
	return putWhole(path, write, true)
}

// writeWhole writes beside the file and renames: a reader never sees half of it, and a failure leaves the old one.
func writeWhole(path string, write func(io.Writer) error) error { return putWhole(path, write, false) }

func putWhole(path string, write func(io.Writer) error, again bool) error {
	s, err := newStream(path)
	if err != nil {
		return err
	}
	s.again = again
	if err := s.fail(write(s.w)); err != nil {
		s.abandon()
		return err
	}
	return s.commit()
}

// partial ends the name of a file in the making.
const partial = ".partial"

// stream is a file in the making, beside its place.
type stream struct {
	path  string
	file  *os.File
	w     *bufio.Writer
	again bool // it can be made again
}

func newStream(path string) (*stream, error) {
	f, err := os.OpenFile(path+partial, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return nil, fmt.Errorf("results: %w", err)
	}
	return streamInto(path, f), nil
}

func streamInto(path string, f *os.File) *stream {
	return &stream{path: path, file: f, w: bufio.NewWriterSize(f, 1<<16)}
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
	if err == nil && !s.again {
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
