package export

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"spillway/internal/hist"
	"spillway/report"
)

// Hlog writes the latencies of runs as one interval log of HdrHistogram, version 1.3: a tag for each point and class, as in histograms.hlog. Of several
// runs each tag begins with the name of its run. Intervals count from the start of the earliest; a simulated run, which has no calendar, from 0.
func Hlog(w io.Writer, runs []*report.Run) error {
	var epoch time.Time
	for _, run := range runs {
		if s := run.Manifest.Started; run.Manifest.Ground != "sim" && (epoch.IsZero() || s.Before(epoch)) {
			epoch = s
		}
	}
	log, err := hist.NewLogWriter(w, epoch)
	if err != nil {
		return err
	}
	taken := map[string]bool{}
	for _, run := range runs {
		prefix := ""
		if len(runs) > 1 {
			prefix = name(profile(run))
			for n := 2; taken[prefix]; n++ {
				prefix = fmt.Sprintf("%s_%d", name(profile(run)), n)
			}
			taken[prefix] = true
			prefix += "/"
		}
		shift := time.Duration(0)
		if run.Manifest.Ground != "sim" && !epoch.IsZero() {
			shift = run.Manifest.Started.Sub(epoch)
		}
		if err := copyLog(log, run, prefix, shift); err != nil {
			return err
		}
	}
	return nil
}

// copyLog writes the intervals of a run. One that is still going on has no log in its place yet.
func copyLog(log *hist.LogWriter, run *report.Run, prefix string, shift time.Duration) error {
	path := filepath.Join(run.Dir, report.HistogramsFile)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	entries, err := hist.ReadLog(f)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, e := range entries {
		if err := log.Write(prefix+e.Tag, shift+e.Start, e.Length, e.Hist); err != nil {
			return err
		}
	}
	return nil
}
