package export

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"spillway/report"
)

// historyHeader names the columns of a history. direction is 1 where more is better and -1 where less is, as change-point tools have it.
var historyHeader = []string{
	"time", "commit", "series", "metric", "direction", "unit", "value", "low", "high", "repeats",
	"profile", "ground", "machine", "variant", "controller", "load", "class",
}

var historyMetrics = []struct {
	name      string
	direction int
	unit      string
	of        func(*report.Pooled) report.Range
}{
	{"goodput_rps", 1, "requests/s", func(p *report.Pooled) report.Range { return p.Goodput }},
	{"optimum_share", 1, "ratio", func(p *report.Pooled) report.Range { return p.OptimumShare }},
	{"latency_p99_us", -1, "us", func(p *report.Pooled) report.Range { return p.P99 }},
	{"shed_ratio", -1, "ratio", func(p *report.Pooled) report.Range { return p.ShedRatio }},
	{"drop_ratio", -1, "ratio", func(p *report.Pooled) report.Range { return p.DropRatio }},
}

// History writes runs as lines of a history: one for each metric of each controller, load and class, its repeats put together. commit is what was
// measured; empty for the version of the program that measured, as the manifest has it. What has no valid repeat has no line.
func History(w io.Writer, runs []*report.Run, commit string) error {
	out := csv.NewWriter(w)
	if err := out.Write(historyHeader); err != nil {
		return err
	}
	for _, run := range runs {
		if err := out.WriteAll(history(run, commit)); err != nil {
			return err
		}
	}
	return out.Error()
}

// AppendHistory adds to the history in the file path what is not there yet: the same series of the same commit and time is there only once. Without the
// file it is made. The file is whole at any time.
func AppendHistory(path string, runs []*report.Run, commit string) (added int, err error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return 0, fmt.Errorf("%s: a history is a file that stays, and this is a folder, a device or a pipe", path)
	}
	// A link stays one: what it leads to is written anew.
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	records := [][]string{historyHeader}
	if len(bytes.TrimSpace(old)) > 0 {
		in := csv.NewReader(bytes.NewReader(old))
		in.FieldsPerRecord = len(historyHeader)
		if records, err = in.ReadAll(); err != nil {
			return 0, fmt.Errorf("%s: %w; is it a history?", path, err)
		}
		if !slices.Equal(records[0], historyHeader) {
			return 0, fmt.Errorf("%s: its columns are not those of a history, which are %s", path, strings.Join(historyHeader, ","))
		}
	}
	key := func(r []string) string { return strings.Join(r[:3], "\x00") + "\x00" + r[3] }
	there := map[string]bool{}
	for _, r := range records[1:] {
		there[key(r)] = true
	}
	for _, run := range runs {
		for _, r := range history(run, commit) {
			if !there[key(r)] {
				there[key(r)] = true
				records, added = append(records, r), added+1
			}
		}
	}
	if added == 0 && len(old) > 0 {
		return 0, nil
	}
	return added, report.WriteFile(path, func(w io.Writer) error {
		out := csv.NewWriter(w)
		if err := out.WriteAll(records); err != nil {
			return err
		}
		return out.Error()
	})
}

func history(run *report.Run, commit string) (records [][]string) {
	m := &run.Manifest
	at := ""
	if !m.Started.IsZero() {
		at = m.Started.UTC().Format(time.RFC3339)
	}
	if commit == "" {
		commit = Commit(m.Versions.Module)
	}
	pooled := run.Pool()
	for i := range pooled {
		p := &pooled[i]
		if p.Valid == 0 {
			continue
		}
		series := []string{m.Name, m.Ground}
		for _, part := range []string{p.Variant, p.Controller, p.Load, p.Class} {
			if part != "" {
				series = append(series, part)
			}
		}
		for _, metric := range historyMetrics {
			v := metric.of(p)
			if v.Value.IsZero() {
				continue
			}
			machine, _ := m.MachineLabel(p.Variant)
			record := []string{
				at, commit, strings.Join(append(series, metric.name), "/"), metric.name, strconv.Itoa(metric.direction), metric.unit,
				v.Value.String(), v.Low.String(), v.High.String(), strconv.Itoa(p.Valid),
				m.Name, m.Ground, machine, p.Variant, p.Controller, p.Load, p.Class,
			}
			for _, i := range []int{1, 2, 10, 11, 12, 13, 14, 15, 16} {
				record[i] = report.TextCell(record[i])
			}
			records = append(records, record)
		}
	}
	return records
}

// Commit returns the commit in a version of a Go module as far as it has one: that of a pseudo-version, or what stands behind (devel); else the version.
func Commit(version string) string {
	if rest, ok := strings.CutPrefix(version, "(devel) "); ok {
		return rest
	}
	base, _, _ := strings.Cut(version, "+")
	if parts := strings.Split(base, "-"); len(parts) >= 3 {
		if last := parts[len(parts)-1]; len(last) == 12 && strings.Trim(last, "0123456789abcdef") == "" {
			return last
		}
	}
	return version
}
