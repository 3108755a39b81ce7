package hist

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// LogWriter writes histograms as an HdrHistogram interval log, version 1.3, which the tools around HdrHistogram read. Recorded values are
// nanoseconds; the column Interval_Max is in milliseconds, as the format's readers expect. Each line has a tag, the start of its interval
// and its length in seconds.
type LogWriter struct {
	w *hdrhistogram.HistogramLogWriter
}

// NewLogWriter writes the header of a log whose intervals count from began. A zero began is written as 0: a simulated run has no calendar.
func NewLogWriter(w io.Writer, began time.Time) (*LogWriter, error) {
	l := &LogWriter{hdrhistogram.NewHistogramLogWriter(w)}
	ms := int64(0)
	if !began.IsZero() {
		ms = began.UnixMilli()
	}
	// The base time says that intervals count from it, where a reader would otherwise take them for calendar time.
	err := errors.Join(
		l.w.OutputComment("[Values are durations in nanoseconds; Interval_Max is in milliseconds]"),
		l.w.OutputLogFormatVersion(),
		l.w.OutputStartTime(ms),
		l.w.OutputBaseTime(ms),
		l.w.OutputLegend(),
	)
	if err != nil {
		return nil, fmt.Errorf("histogram log: %w", err)
	}
	return l, nil
}

// ContinueLog writes on in a log whose header is there already.
func ContinueLog(w io.Writer) *LogWriter { return &LogWriter{hdrhistogram.NewHistogramLogWriter(w)} }

// Write adds the interval that begins start after the log does. The tag must be free of commas, spaces and line breaks.
func (l *LogWriter) Write(tag string, start, length time.Duration, h *Hist) error {
	if tag == "" || strings.ContainsAny(tag, ", \t\r\n") {
		return fmt.Errorf("histogram log: tag %q must not be empty nor hold commas, spaces or line breaks", tag)
	}
	h.dense()
	h.h.SetTag(tag)
	h.h.SetStartTimeMs(start.Milliseconds())
	h.h.SetEndTimeMs((start + length).Milliseconds())
	if err := l.w.OutputIntervalHistogram(h.h); err != nil {
		return fmt.Errorf("histogram log: %s: %w", tag, err)
	}
	return nil
}

// LogEntry is one interval of a log.
type LogEntry struct {
	Tag           string
	Start, Length time.Duration // Start counts from the start of the log; both are kept to a millisecond
	Hist          *Hist
}

// ReadLog reads a log written by LogWriter. What the format does not carry is restored as nearly as the buckets allow: the sum and the
// maximum are good to three digits, and overflow is counted in the last bucket only.
//
// Lines are taken apart here, since the library's reader passes over lines that it does not understand and adds the calendar to each interval's
// start, which costs the milliseconds; so are histograms of our own shape, which stay as small as they are in the file.
func ReadLog(r io.Reader) ([]LogEntry, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("histogram log: %w", err)
	}
	var entries []LogEntry
	var d decoder
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == '"' {
			continue
		}
		e, err := d.entry(line)
		if err != nil {
			return nil, fmt.Errorf("histogram log: line %d: %w", number, err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func (d *decoder) entry(line string) (LogEntry, error) {
	fields := strings.Split(line, ",")
	var e LogEntry
	if tag, found := strings.CutPrefix(fields[0], "Tag="); found {
		e.Tag, fields = tag, fields[1:]
	}
	if len(fields) != 4 {
		return LogEntry{}, fmt.Errorf("is no interval: want start, length, maximum and histogram")
	}
	var seconds [2]float64
	for i := range seconds {
		var err error
		if seconds[i], err = strconv.ParseFloat(fields[i], 64); err != nil {
			return LogEntry{}, err
		}
	}
	const milli = float64(time.Second / time.Millisecond)
	e.Start = time.Duration(math.Round(seconds[0]*milli)) * time.Millisecond
	e.Length = time.Duration(math.Round(seconds[1]*milli)) * time.Millisecond
	read, err := d.decode(fields[3])
	if err != nil {
		return LogEntry{}, err
	}
	e.Hist = restore(read)
	return e, nil
}

// restore makes a histogram of what was read. Its mean is that of the middles of its buckets, its maximum the end of the last.
func restore(read *sparse) *Hist {
	h := &Hist{read: read}
	read.each(func(low, width, count int64) {
		h.sum += float64(low+width/2) * float64(count)
		h.max = low + width - 1
	})
	return h
}
