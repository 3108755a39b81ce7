package report

import (
	"encoding/csv"
	"io"
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
