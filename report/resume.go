package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"spillway/internal/hist"
)

// finishedFile lists the points that are whole in all files, a line for each, while a run goes on and after one that did not come to its end. A
// point is listed last of all, so a process that is killed at any instant leaves a list of what need not be measured again.
const finishedFile = "finished.jsonl"

// finishedPoint is a line of the list.
type finishedPoint struct {
	Point string         `json:"point"`
	Trace int64          `json:"trace_bytes"` // of trace.csv, up to the end of the point
	Hlog  int64          `json:"hlog_bytes"`  // of histograms.hlog
	Cells []finishedCell `json:"cells,omitempty"`
}

// finishedCell is a cell of allocation.csv, which is written at the end of a run only. Its numbers are exact, as those of the file are means.
type finishedCell struct {
	Class    string  `json:"class"`
	Location string  `json:"location"`
	Demand   float64 `json:"demand"`
	Granted  float64 `json:"granted"`
	Served   float64 `json:"served"`
}

// notBegun reports whether a file stands in the way of a new run. What a Writer that was killed before it had a manifest left behind does not.
func notBegun(e fs.DirEntry) bool {
	return !slices.Contains([]string{reserveFile, manifestFile + partial}, e.Name())
}

// openFinished opens the list, cut to size bytes, for one process at a time.
func openFinished(dir string, size int64) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, finishedFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return nil, fmt.Errorf("results: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("results folder %s: another loadgen is writing to it (%w)", dir, err)
	}
	if err := f.Truncate(size); err != nil {
		f.Close()
		return nil, fmt.Errorf("results: %w", err)
	}
	return f, nil
}

// finish has a point listed, whose series and histograms have been written, once its rows are.
func (w *Writer) finish(p *Point) error {
	if len(p.Rows) == 0 {
		return nil
	}
	at := finishedPoint{Point: p.Rows[0].Point(), Trace: w.trace.offset(), Hlog: w.hlog.offset()}
	for _, c := range p.Cells {
		at.Cells = append(at.Cells, finishedCell{c.Class, c.Location, c.Demand.number, c.Granted.number, c.Served.number})
	}
	line, err := json.Marshal(at)
	if err != nil {
		return fmt.Errorf("results: %w", err)
	}
	w.unlisted = append(append(w.unlisted, line...), '\n')
	return nil
}

// list appends to the list what finish has said, in one piece, so that only the last line can be torn.
func (w *Writer) list() error {
	if len(w.unlisted) == 0 {
		return nil
	}
	if _, err := w.finished.Write(w.unlisted); err != nil {
		return fmt.Errorf("results: %w", err)
	}
	w.unlisted = w.unlisted[:0]
	return nil
}

// endFinished closes the list; of a run that came to its end nothing is left to go on with.
func (w *Writer) endFinished(complete bool) error {
	if complete {
		if err := os.Remove(filepath.Join(w.dir, finishedFile)); err != nil {
			return fmt.Errorf("results: %w", err)
		}
	}
	return w.finished.Close()
}

// offset returns how many bytes of the stream are in its file.
func (s *stream) offset() int64 {
	at, err := s.file.Seek(0, 1)
	if err != nil {
		return -1 // which no reader takes for whole
	}
	return at
}

// Interrupted is a result directory whose run did not come to its end, or which did and needs nothing more.
type Interrupted struct {
	Dir      string
	Manifest Manifest // as it was left, with the finished points only
	Complete bool

	rows   []Row
	points []finishedPoint
	listed int64 // bytes of the list that are whole
}

// ErrNoRun says that a directory holds no run to go on with.
var ErrNoRun = errors.New("holds no run to go on with")

// ReadInterrupted reads what a run left behind. A point of which anything is torn or missing is not finished, nor are those after it.
func ReadInterrupted(dir string) (*Interrupted, error) {
	path := filepath.Join(dir, manifestFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noRun(dir)
	}
	if err != nil {
		return nil, err
	}
	m, err := parseManifest(text, path)
	if err != nil {
		return nil, err
	}
	in := &Interrupted{Dir: dir, Manifest: *m}
	if in.rows, err = readPoints(filepath.Join(dir, pointsFile)); err != nil {
		return nil, err
	}
	list, err := os.ReadFile(filepath.Join(dir, finishedFile))
	switch {
	case errors.Is(err, fs.ErrNotExist) && m.State == StateComplete:
		in.Complete = true
		return in, nil
	case errors.Is(err, fs.ErrNotExist) && len(m.Points) > 0:
		return nil, fmt.Errorf("results folder %s: it does not say which points are finished, so nobody can go on with it; begin anew with another --out", dir)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	in.accept(list)
	whole := map[string]bool{}
	for i := range in.points {
		whole[in.points[i].Point] = true
	}
	in.rows = slices.DeleteFunc(in.rows, func(r Row) bool { return !whole[r.Point()] })
	in.Manifest.Points = slices.DeleteFunc(in.Manifest.Points, func(f PointFacts) bool { return !whole[f.point()] })
	return in, nil
}

// noRun says why there is nothing to go on with: ErrNoRun.
func noRun(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("results folder %s does not exist, so it %w", dir, ErrNoRun)
	}
	return fmt.Errorf("results folder %s %w", dir, ErrNoRun)
}

// accept takes lines of the list as long as what they say is there.
func (in *Interrupted) accept(list []byte) {
	rows, facts := map[string]bool{}, map[string]bool{}
	for i := range in.rows {
		rows[in.rows[i].Point()] = true
	}
	for i := range in.Manifest.Points {
		facts[in.Manifest.Points[i].point()] = true
	}
	for line := range bytes.Lines(list) {
		var p finishedPoint
		if !bytes.HasSuffix(line, []byte("\n")) || json.Unmarshal(line, &p) != nil || !rows[p.Point] || !facts[p.Point] ||
			!wholeLines(filepath.Join(in.Dir, traceFile), p.Trace) || !wholeLines(filepath.Join(in.Dir, histogramsFile), p.Hlog) {
			return
		}
		in.points = append(in.points, p)
		in.listed += int64(len(line))
	}
}

// wholeLines reports whether a streamed file, in its place or beside it, has that many bytes and ends a line there.
func wholeLines(path string, size int64) bool {
	f, err := os.Open(path + partial)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = os.Open(path)
	}
	if err != nil || size < 1 {
		return false
	}
	defer f.Close()
	var last [1]byte
	_, err = f.ReadAt(last[:], size-1)
	return err == nil && last[0] == '\n'
}

// Finished reports whether a point (see Row.Point) need not be measured again.
func (in *Interrupted) Finished(point string) bool {
	if in.Complete {
		return true
	}
	return slices.ContainsFunc(in.points, func(p finishedPoint) bool { return p.Point == point })
}

// Points returns the rows of class all, one for each finished point.
func (in *Interrupted) Points() (list []Row) {
	for _, r := range in.rows {
		if r.Class == AllClasses {
			list = append(list, r)
		}
	}
	return list
}

// Continue writes on in a directory. m is the manifest of the run that goes on, with what it takes over from the one before; its points are those
// that are finished.
func Continue(in *Interrupted, m Manifest, order []string) (*Writer, error) {
	m.Points = in.Manifest.Points
	w := &Writer{dir: in.Dir, Manifest: m, rows: in.rows, order: map[string]int{}}
	w.Manifest.SchemaVersion = SchemaVersion
	for i, label := range order {
		w.order[label] = i
	}
	var err error
	if w.finished, err = openFinished(in.Dir, in.listed); err != nil { // first: it may belong to somebody who is at it
		return nil, err
	}
	if err := w.reopen(in); err != nil {
		w.finished.Close()
		return nil, err
	}
	for i := range in.points {
		w.restoreCells(&in.points[i])
	}
	if err := errors.Join(w.writeReserve(), w.writePoints(false), w.writeManifest(false)); err != nil {
		return nil, errors.Join(once(err), w.trace.file.Close(), w.hlog.file.Close(), w.finished.Close())
	}
	// What followed from the points of before follows no longer.
	for _, name := range []string{reportFile, claimsFile, attributionFile, settlingFile, sloFile, allocationFile} {
		os.Remove(filepath.Join(in.Dir, name))
	}
	return w, nil
}

// reopen opens the streamed files behind the last point that is whole.
func (w *Writer) reopen(in *Interrupted) (err error) {
	if len(in.points) == 0 {
		return w.openStreams()
	}
	last := in.points[len(in.points)-1]
	if w.trace, err = reopenStream(filepath.Join(in.Dir, traceFile), last.Trace); err != nil {
		return err
	}
	if w.hlog, err = reopenStream(filepath.Join(in.Dir, histogramsFile), last.Hlog); err != nil {
		w.trace.file.Close()
		return err
	}
	w.log = hist.ContinueLog(w.hlog.w)
	return nil
}

// reopenStream opens a file in the making, or one that was put in its place, behind its first size bytes.
func reopenStream(path string, size int64) (*stream, error) {
	if _, err := os.Stat(path + partial); errors.Is(err, fs.ErrNotExist) {
		if err := os.Rename(path, path+partial); err != nil {
			return nil, fmt.Errorf("results: %w", err)
		}
	}
	f, err := os.OpenFile(path+partial, os.O_WRONLY, 0o666)
	if err != nil {
		return nil, fmt.Errorf("results: %w", err)
	}
	if err = f.Truncate(size); err == nil {
		_, err = f.Seek(size, 0)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("results: %w", err)
	}
	return streamInto(path, f), nil
}

// restoreCells puts the cells of a finished point among the others.
func (w *Writer) restoreCells(p *finishedPoint) {
	if len(p.Cells) == 0 {
		return
	}
	i := slices.IndexFunc(w.rows, func(r Row) bool { return r.Point() == p.Point })
	again := Point{Rows: w.rows[i : i+1]}
	for _, c := range p.Cells {
		again.Cells = append(again.Cells, AllocationCell{
			Class: c.Class, Location: c.Location, Demand: Known(c.Demand), Granted: Known(c.Granted), Served: Known(c.Served),
		})
	}
	w.cells.add(&again)
}

// Differences says in which circumstances, of those that decide what is measured and how, another run would differ from the one in the
// directory. A run whose circumstances differ is another run.
func (in *Interrupted) Differences(m *Manifest) (list []string) {
	old := &in.Manifest
	differ := func(what string, was, is any) {
		if was != is {
			list = append(list, fmt.Sprintf("%s was %v and is %v", what, was, is))
		}
	}
	differ("the profile", old.Name, m.Name)
	differ("the ground", old.Ground, m.Ground)
	differ("the seed", old.Seed, m.Seed)
	differ("the version of loadgen", old.Versions.Module, m.Versions.Module)
	differ("Go's version", old.Versions.Go, m.Versions.Go)
	differ("the processor", old.Machine.CPUModel, m.Machine.CPUModel)
	differ("the number of cores", old.Machine.Cores, m.Machine.Cores)
	differ("the pacing", old.Pacing, m.Pacing)
	differ("the time scale", old.TimeScale, m.TimeScale)
	differ("the digest of the log", old.Replay.digest(), m.Replay.digest())
	if len(list) == 0 && old.ResolvedProfile != m.ResolvedProfile {
		list = append(list, "the profile differs: "+firstDifference(old.ResolvedProfile, m.ResolvedProfile))
	}
	return list
}

// firstDifference shows the first lines in which two texts differ.
func firstDifference(was, is string) string {
	a, b := strings.Split(was, "\n"), strings.Split(is, "\n")
	for i := range max(len(a), len(b)) {
		line := func(of []string) string {
			if i < len(of) {
				return fmt.Sprintf("%q", strings.TrimSpace(of[i]))
			}
			return "nothing"
		}
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			return fmt.Sprintf("at line %d of its resolved form %s stood and now %s does", i+1, line(a), line(b))
		}
	}
	return "nowhere"
}
