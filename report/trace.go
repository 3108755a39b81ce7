package report

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Sample is one line of trace.csv: one value at one instant of one point.
type Sample struct {
	Class  string  // empty when the value is the server's, not a class's
	TimeUS float64 // since the start of the window
	Name   string  // goodput, shed, queue_delay, cpu and what a controller adds
	Unit   string
	Value  Value
}

// traceHeader names the columns of trace.csv.
var traceHeader = []string{
	"profile", "ground", "controller", "offered_target_rps", "repeat", "class", "time_us", "name", "unit", "value",
}

// writeSamples writes the samples of the point that row belongs to. Samples without a value are left out: a gap says as much.
func writeSamples(w io.Writer, point *Row, samples []Sample) error {
	out := csv.NewWriter(w)
	for _, s := range samples {
		name := cleanName(s.Name)
		if !s.Value.known || name == "" {
			continue
		}
		err := out.Write([]string{
			point.Profile, point.Ground, point.Controller, point.OfferedTargetRPS.String(), strconv.Itoa(point.Repeat), s.Class,
			Known(s.TimeUS).String(), name, s.Unit, s.Value.String(),
		})
		if err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// cleanName keeps what names of meters consist of. They come from a server over the network, and a spreadsheet would run a cell that
// begins with an equals sign.
func cleanName(s string) string {
	const longest = 64
	s = strings.Map(func(r rune) rune {
		if r == '_' || r == '.' || r == '/' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return -1
	}, s)
	return s[:min(len(s), longest)]
}

// Traced is one line of trace.csv as it was read: a value of one point at one instant.
type Traced struct {
	Profile, Controller string // the profile with its variant, as Row.Profile
	OfferedTarget       string // requests per second, as written
	Repeat              int
	Sample
}

// Variant returns the variant of the profile that the value is of; empty where the profile has none.
func (t *Traced) Variant() string { return (&Row{Profile: t.Profile}).Variant() }

// ReadTrace hands every line of a trace.csv to visit, in the order of the file, of which it keeps nothing: a trace may have millions. Consecutive
// lines of one series are of rising time. It ends at the first error of visit. The value that visit is given is only good until it returns. Without the
// file, as while a run goes on, there is nothing to visit.
func ReadTrace(path string, visit func(*Traced) error) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	in := csv.NewReader(f)
	in.ReuseRecord = true
	in.FieldsPerRecord = len(traceHeader)
	header, err := in.Read()
	if err == nil && !slices.Equal(header, traceHeader) {
		err = fmt.Errorf("its header is not that of a trace")
	}
	for line := 2; err == nil; line++ {
		var record []string
		if record, err = in.Read(); errors.Is(err, io.EOF) {
			return nil
		}
		var t Traced
		if err == nil {
			err = t.parse(record)
		}
		if err == nil {
			if err := visit(&t); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("%s: %w", path, err)
}

func (t *Traced) parse(record []string) (err error) {
	*t = Traced{Profile: record[0], Controller: record[2], OfferedTarget: record[3], Sample: Sample{Class: record[5], Name: record[7], Unit: record[8]}}
	if t.Repeat, err = strconv.Atoi(record[4]); err != nil {
		return fmt.Errorf("%q is not a repeat", record[4])
	}
	if t.TimeUS, err = strconv.ParseFloat(record[6], 64); err != nil {
		return fmt.Errorf("%q is not a time", record[6])
	}
	t.Value, err = parseValue(record[9])
	return err
}
