package frames

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// CSV says how Read understands a file. The zero value finds everything out.
type CSV struct {
	Delimiter byte   // between fields; 0 for the one of ; tab | and comma that the first line has
	Dates     string // order of day, month and year: one of DateOrders; "" for auto
}

// DateOrders are the values of CSV.Dates. Where nothing else tells, auto takes a date with dots for day first, one with slashes for month first, as they
// are where the one and the other is usual.
var DateOrders = []string{"auto", "ymd", "dmy", "mdy"}

// Check says what is wrong with c, nil if nothing is.
func (c *CSV) Check() error {
	known := c.Dates == ""
	for _, order := range DateOrders {
		known = known || c.Dates == order
	}
	switch {
	case !known:
		return fmt.Errorf("order of dates %q: there are %s", c.Dates, strings.Join(DateOrders, ", "))
	case c.Delimiter == '"' || c.Delimiter == '\n' || c.Delimiter == '\r' || c.Delimiter >= '0' && c.Delimiter <= '9':
		return fmt.Errorf("delimiter %q: it must not be a digit, a quote or an end of line", c.Delimiter)
	}
	return nil
}

// BadRow is a line that is no bar.
type BadRow struct {
	Line   int // from 1
	Reason string
}

// Found says what Read found in a file.
type Found struct {
	Delimiter byte
	Header    bool
	Dates     string // the form of the first good row, as it was understood: "2006-01-02 15:04:05", "unix seconds"
	NoVolume  bool   // there is no such column: all volumes are 0
	Sorted    bool   // rows were not in order of time and have been put so
	Bad       int    // rows that were left out
	BadRows   []BadRow
}

// maxBadRows is how many bad rows are described; all are counted.
const maxBadRows = 100

func (f *Found) bad(line int, format string, args ...any) {
	f.Bad++
	if len(f.BadRows) < maxBadRows {
		f.BadRows = append(f.BadRows, BadRow{Line: line, Reason: fmt.Sprintf(format, args...)})
	}
}

const (
	maxLine  = 64 << 10 // bytes
	sampled  = 20_000   // rows that the form of dates is found out from
	mostBad  = 0.5      // share of bad rows from which on this is no file of bars
	fewRows  = 20       // that are judged by it
	bomBytes = "\xef\xbb\xbf"
)

// Read reads bars from the forms in which minute data of currencies are commonly passed on: fields between ; tab | or comma, perhaps quoted; with or
// without a line of names; date and time in one field or in two; a decimal comma where the delimiter is another; volume or none. With names, columns
// may stand in any order and others beside them; without, they are date, perhaps time, open, high, low, close and perhaps volume. See dateForms for
// the forms of dates. Where there are several names for a volume the first that counts ticks is taken.
//
// A row that is no bar, because a field is missing or no number, a price is not above 0, a price or a volume is beyond what any market has, high and low do not
// enclose open and close, or a bar of its minute has been read, is left out, counted and described in Found, which is valid with an error too. It is an error when
// there is nothing left, or less than was left out.
func Read(r io.Reader, c CSV) (*Frame, *Found, error) {
	found := &Found{}
	if err := c.Check(); err != nil {
		return nil, found, err
	}
	rows := &rowReader{in: bufio.NewScanner(r), found: found, csv: c}
	rows.in.Buffer(make([]byte, 0, maxLine), maxLine)
	if err := rows.begin(); err != nil {
		return nil, found, err
	}
	bars, lines, err := rows.all()
	if err != nil {
		return nil, found, err
	}
	f := fromBars(bars, func(i int) { found.bad(lines[i], "a bar of this minute has been read already") })
	for i := 1; i < len(bars) && !found.Sorted; i++ {
		found.Sorted = bars[i].at < bars[i-1].at
	}
	switch good := f.Rows(); {
	case good == 0:
		return nil, found, errors.Join(errors.New("there is not one bar in it"), found.first())
	case found.Bad > fewRows && float64(found.Bad) > mostBad*float64(found.Bad+good):
		return nil, found, errors.Join(fmt.Errorf("%d of %d rows are no bars, so this is no file of bars, or its form is not understood", found.Bad, found.Bad+good), found.first())
	case good < MinRows:
		return nil, found, fmt.Errorf("there are %d bars in it; at least %d are needed", good, MinRows)
	}
	return f, found, nil
}

// first describes the first bad row.
func (f *Found) first() error {
	if len(f.BadRows) == 0 {
		return nil
	}
	return fmt.Errorf("line %d: %s", f.BadRows[0].Line, f.BadRows[0].Reason)
}

// rowReader takes a file apart.
type rowReader struct {
	in    *bufio.Scanner
	found *Found
	csv   CSV
	line  int
	at    layout
	dates dateReader

	held    []row // rows that were looked at to find the form of dates out
	fields  [][]byte
	decimal bool // a comma is a decimal point
}

// row is a line that is not blank.
type row struct {
	line int
	text string
}

// next returns the next line that is not blank.
func (r *rowReader) next() (row, bool, error) {
	for r.in.Scan() {
		r.line++
		text := bytes.TrimSpace(r.in.Bytes())
		if r.line == 1 {
			text = bytes.TrimSpace(bytes.TrimPrefix(text, []byte(bomBytes)))
		}
		if len(text) > 0 {
			return row{r.line, string(text)}, true, nil
		}
	}
	err := r.in.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		err = fmt.Errorf("line %d is longer than %d bytes: this is no file of bars", r.line+1, maxLine)
	}
	return row{}, false, err
}

// begin finds out the form of the file from its first lines.
func (r *rowReader) begin() error {
	first, ok, err := r.next()
	if err != nil {
		return err
	}
	if !ok {
		return errors.New("it is empty")
	}
	if bytes.IndexByte([]byte(first.text), 0) >= 0 {
		return errors.New("it is no text: perhaps it is packed, or a spreadsheet; save it as CSV")
	}
	d := r.csv.Delimiter
	if d == 0 {
		d = delimiterOf(first.text)
	}
	r.found.Delimiter, r.decimal = d, d != ','
	fields := split(nil, []byte(first.text), d)
	if named, found := names(fields); named {
		if r.at, err = found.layout(); err != nil {
			return fmt.Errorf("line %d: %w", first.line, err)
		}
		r.found.Header = true
		if first, ok, err = r.next(); err != nil || !ok {
			return errors.Join(err, errors.New("there is nothing below its names"))
		}
	} else if r.at, err = unnamed(fields, r.decimal); err != nil {
		return fmt.Errorf("line %d: %w", first.line, err)
	}
	r.found.NoVolume = r.at.volume < 0
	for ok && len(r.held) < sampled {
		r.held = append(r.held, first)
		if first, ok, err = r.next(); err != nil {
			return err
		}
	}
	if ok {
		r.held = append(r.held, first)
	}
	return r.findDates()
}

// findDates takes the form that most of the first rows have.
func (r *rowReader) findDates() error {
	best, most := -1, 0
	forms := dateForms(r.csv.Dates)
	for i := range forms {
		n := 0
		for _, held := range r.held {
			fields := split(r.fields[:0], []byte(held.text), r.found.Delimiter)
			r.fields = fields
			if _, ok := forms[i].read(r.at.when(fields)); ok {
				n++
			}
		}
		if n > most {
			best, most = i, n
		}
	}
	if best < 0 {
		first := r.held[0]
		return fmt.Errorf("line %d: %q is no date in a form that is known", first.line, r.at.when(split(nil, []byte(first.text), r.found.Delimiter)))
	}
	r.dates = forms[best]
	r.found.Dates = r.dates.name
	return nil
}

// all reads the rows, and the lines that they stand in.
func (r *rowReader) all() (bars []bar, lines []int, err error) {
	take := func(w row) error {
		if len(bars) == MaxRows {
			return fmt.Errorf("line %d: there are more than %d bars", w.line, MaxRows)
		}
		b, reason := r.bar(w)
		if reason != "" {
			r.found.bad(w.line, "%s", reason)
			return nil
		}
		bars, lines = append(bars, b), append(lines, w.line)
		return nil
	}
	for _, w := range r.held {
		if err := take(w); err != nil {
			return nil, nil, err
		}
	}
	r.held = nil
	for {
		w, ok, err := r.next()
		if err != nil || !ok {
			return bars, lines, err
		}
		if err := take(w); err != nil {
			return nil, nil, err
		}
	}
}

// bar reads a row, or says why it is none.
func (r *rowReader) bar(w row) (b bar, reason string) {
	r.fields = split(r.fields[:0], []byte(w.text), r.found.Delimiter)
	if len(r.fields) < r.at.least {
		return b, fmt.Sprintf("there are %d fields, at least %d are needed", len(r.fields), r.at.least)
	}
	when := r.at.when(r.fields)
	var ok bool
	if b.at, ok = r.dates.read(when); !ok {
		return b, fmt.Sprintf("%q is no date of the form %s", when, r.dates.name)
	}
	for _, n := range []struct {
		name string
		at   int
		to   *float64
	}{
		{"open", r.at.open, &b.open}, {"high", r.at.high, &b.high}, {"low", r.at.low, &b.low}, {"close", r.at.close, &b.close}, {"volume", r.at.volume, &b.volume},
	} {
		if n.at < 0 {
			continue
		}
		if *n.to, ok = number(r.fields[n.at], r.decimal); !ok {
			return b, fmt.Sprintf("%s: %q is no number", n.name, r.fields[n.at])
		}
	}
	return b, b.check()
}

// number reads a number, with a decimal comma if that cannot be a delimiter.
func number(text []byte, comma bool) (float64, bool) {
	if comma {
		if i := bytes.IndexByte(text, ','); i >= 0 && bytes.IndexByte(text, '.') < 0 {
			text = append(append(bytes.Clone(text[:i]), '.'), text[i+1:]...)
		}
	}
	v, err := strconv.ParseFloat(string(text), 64)
	return v, err == nil && !math.IsNaN(v)
}
