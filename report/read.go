package report

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"spillway/internal/hist"
)

// Run is a result directory that was read.
type Run struct {
	Dir      string
	Manifest Manifest
	Rows     []Row                 // of points.csv, in its order
	Latency  map[string]*hist.Hist // of histograms.hlog, by Row.Tag; empty while the run goes on
	Cells    []AllocationCell      // of allocation.csv

	// Of the memory section over time, by point; nil unless something is to be said of it.
	capacity, changes, periods map[string]series

	facts map[string]*PointFacts // of the manifest, by point; made when it is first needed
}

// factsOf returns the circumstances of the point that r is of; nil when the manifest has none.
func (run *Run) factsOf(r *Row) *PointFacts {
	if len(run.facts) != len(run.Manifest.Points) {
		run.facts = make(map[string]*PointFacts, len(run.Manifest.Points))
		for i := range run.Manifest.Points {
			f := &run.Manifest.Points[i]
			run.facts[f.point()] = f
		}
	}
	return run.facts[r.Point()]
}

// ReadDir reads a result directory. A run that was interrupted or is still going on can be read too: what is missing is then missing
// from the report.
func ReadDir(dir string) (*Run, error) {
	path := filepath.Join(dir, manifestFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, missing(dir)
	}
	if err != nil {
		return nil, err
	}
	m, err := parseManifest(text, path)
	if err != nil {
		return nil, err
	}
	run := &Run{Dir: dir, Manifest: *m}
	if run.Rows, err = readPoints(filepath.Join(dir, pointsFile)); err != nil {
		return nil, err
	}
	if run.Latency, err = readHistograms(filepath.Join(dir, histogramsFile)); err != nil {
		return nil, err
	}
	if run.Cells, err = readAllocation(filepath.Join(dir, allocationFile)); err != nil {
		return nil, err
	}
	if run.needsCapacity() {
		if err := run.readCapacity(filepath.Join(dir, traceFile)); err != nil {
			return nil, err
		}
	}
	return run, nil
}

// missing says why a directory has no manifest.
func missing(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s does not exist", dir)
	case err == nil && !info.IsDir():
		return fmt.Errorf("%s is a file, and a result is a directory", dir)
	}
	return fmt.Errorf("%s is not a result directory: it has no %s", dir, manifestFile)
}

func readPoints(path string) ([]Row, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no %s: what was measured is lost", filepath.Dir(path), pointsFile)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadCSV(f, path)
}

func readHistograms(path string) (map[string]*hist.Hist, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := hist.ReadLog(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	byTag := make(map[string]*hist.Hist, len(entries))
	for _, e := range entries {
		byTag[e.Tag] = e.Hist
	}
	return byTag, nil
}
