package replay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"spillway/internal/dist"
	"spillway/workloads"
)

// Import says how another trace becomes a log.
type Import struct {
	Format  string        // one of Formats
	Columns string        // of the format columns: time=NAME,key=NAME,size=NAME,operation=NAME and, where there is one, class=NAME
	Unit    string        // of times of the format columns, one of Units; empty for s
	Class   string        // operation, size:BYTES (small below it, large from it on), or name:NAME; empty for operation
	Slack   time.Duration // by how much a row may be earlier than the one above; it then counts as of its instant
	Spread  time.Duration // rows with one timestamp are spread evenly over so much; negative for the resolution of the format
	Rules
}

// Formats are the traces that can be imported.
//
//	twitter  Twitter's cache traces (OSDI 2020), no header: timestamp (s), key, key size, value size, client id, operation, TTL
//	msr      block traces of MSR Cambridge, no header: timestamp (100 ns since 1601), hostname, disk number, type, offset, size, response time
//	columns  any CSV file with a header; Columns says which columns are what
var Formats = []string{"twitter", "msr", "columns"}

// Units are those of times.
var Units = []string{"s", "ms", "us", "ns", "100ns"}

var unitOf = map[string]time.Duration{"s": time.Second, "ms": time.Millisecond, "us": time.Microsecond, "ns": 1, "100ns": 100}

// Imported says what became of a trace.
type Imported struct {
	Rows    int64
	Span    time.Duration // from the first request to the last
	Bad     []BadRow
	Passed  int64 // rows that were passed over
	Earlier int64 // rows that were earlier than the one above, by no more than Slack
	Classes []string
}

// operations of traces, and what they are to us. What changes a value is a write of it.
var operations = map[string]workloads.Kind{
	"get": workloads.Get, "gets": workloads.Get, "read": workloads.Get, "get_lease": workloads.Get,
	"set": workloads.Set, "add": workloads.Set, "replace": workloads.Set, "cas": workloads.Set, "append": workloads.Set, "prepend": workloads.Set,
	"incr": workloads.Set, "decr": workloads.Set, "write": workloads.Set, "set_lease": workloads.Set,
	"delete": workloads.Delete, "trim": workloads.Delete,
}

// source reads the rows of one format.
type source struct {
	least, most int           // fields of a row
	unit        time.Duration // of its times
	header      bool
	time        int // columns
	key         []int
	size, op    int
	class       int  // -1 for none
	misses      bool // a read of size 0 found nothing
	whole       bool // times are whole numbers, so rows share them
}

func (c *Import) source() (*source, error) {
	switch c.Format {
	case "twitter":
		return &source{least: 7, most: 7, unit: time.Second, time: 0, key: []int{1}, size: 3, op: 5, class: -1, misses: true, whole: true}, c.only()
	case "msr":
		// A block is asked for by where it begins; ranges that overlap are different keys.
		return &source{least: 7, most: 7, unit: 100, time: 0, key: []int{1, 2, 4}, size: 5, op: 3, class: -1}, c.only()
	case "columns":
		unit, known := unitOf[c.Unit]
		if c.Unit == "" {
			unit, known = time.Second, true
		}
		if !known {
			return nil, fmt.Errorf("unit %q: there are %s", c.Unit, strings.Join(Units, ", "))
		}
		return &source{least: 1, most: 1 << 10, unit: unit, header: true, class: -1}, nil
	}
	return nil, fmt.Errorf("format %q: there are %s", c.Format, strings.Join(Formats, ", "))
}

func (c *Import) only() error {
	if c.Columns != "" || c.Unit != "" {
		return fmt.Errorf("the columns and the unit of the format %s are known; only those of the format columns can be given", c.Format)
	}
	return nil
}

// find looks up the columns in the header.
func (s *source) find(columns string, header [][]byte) error {
	found := map[string]int{}
	for part := range strings.SplitSeq(columns, ",") {
		role, name, _ := strings.Cut(part, "=")
		at := slices.IndexFunc(header, func(h []byte) bool { return string(bytes.TrimSpace(h)) == name })
		switch {
		case !slices.Contains(Columns, role):
			return fmt.Errorf("columns %q: write time=NAME,key=NAME,size=NAME,operation=NAME and, where there is one, class=NAME", columns)
		case at < 0:
			return fmt.Errorf("there is no column %q; the header has %s", name, bytes.Join(header, []byte(",")))
		}
		found[role] = at
		s.least = max(s.least, at+1)
	}
	for _, role := range Columns {
		if _, given := found[role]; !given && role != "class" {
			return fmt.Errorf("columns %q: does not say which has the %s", columns, role)
		}
	}
	s.time, s.key, s.size, s.op = found["time"], []int{found["key"]}, found["size"], found["operation"]
	if at, given := found["class"]; given {
		s.class = at
	}
	return nil
}

// classes returns what gives a row its class.
func (c *Import) classes(s *source) (func(r *Row), error) {
	form, rest, _ := strings.Cut(c.Class, ":")
	switch {
	case s.class >= 0 && c.Class == "":
		return func(*Row) {}, nil // it is read
	case c.Class == "" || c.Class == "operation":
		return func(r *Row) { r.Class = append(r.Class[:0], r.Kind.String()...) }, nil
	case form == "size":
		limit, err := dist.ParseSize(rest)
		if err != nil || limit < 1 {
			return nil, fmt.Errorf("class %q: write size: and a number of bytes such as size:100kB", c.Class)
		}
		return func(r *Row) {
			name := "small"
			if r.Sizes[0] >= limit {
				name = "large"
			}
			r.Class = append(r.Class[:0], name...)
		}, nil
	case form == "name" && checkClass([]byte(rest)) == nil:
		return func(r *Row) { r.Class = append(r.Class[:0], rest...) }, nil
	}
	return nil, fmt.Errorf("class %q: write operation, size:BYTES such as size:100kB, or name:NAME (of letters, digits, dots, dashes and underscores; not all, which is what the classes pooled are called)", c.Class)
}

// Run reads a trace from r and writes it as a log to w, row by row. file is what messages call it. Errors that ErrImport marks are of the request
// rather than of the trace.
func (c *Import) Run(r io.Reader, file string, w io.Writer) (*Imported, error) {
	s, err := c.source()
	if err != nil {
		return nil, errImport{err}
	}
	l := newLines(r)
	if err := l.packed(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if s.header {
		if err := l.next(); err != nil {
			return nil, fmt.Errorf("%s: has no header", file)
		}
		if err := s.find(c.Columns, l.fields); err != nil {
			return nil, errImport{fmt.Errorf("%s:%d: %w", file, l.number, err)}
		}
		l.verbatim = true // the first column may be the key, and no request is left out in silence
	}
	classify, err := c.classes(s)
	if err != nil {
		return nil, errImport{err}
	}
	g := &importing{Import: c, source: s, lines: l, file: file, classify: classify, out: newSpreader(NewWriter(w), c.spread(s)), bad: bad{file: file, rules: c.Rules}}
	if err := g.run(); err != nil {
		return nil, err
	}
	g.result.Bad, g.result.Passed = g.bad.first, g.bad.passed
	return &g.result, nil
}

// errImport is an error of what was asked for.
type errImport struct{ error }

// IsUsage reports whether an error of Import.Run is about what was asked for, not about the trace.
func IsUsage(err error) bool {
	var e errImport
	return errors.As(err, &e)
}

func (c *Import) spread(s *source) time.Duration {
	switch {
	case c.Spread >= 0:
		return c.Spread
	case s.whole:
		return s.unit
	}
	return 0
}

// importing is an import under way.
type importing struct {
	*Import
	source   *source
	lines    *lines
	file     string
	classify func(*Row)
	out      *spreader
	bad      bad
	result   Imported

	row     Row
	key     []byte
	class   []byte
	op      []byte
	first   int64 // timestamp, in units
	began   bool
	known   map[string]bool // classes
	subTick time.Duration
}

func (g *importing) run() error {
	g.known = map[string]bool{}
	for {
		err := g.lines.next()
		switch {
		case err == nil:
			err = g.parse(g.lines.fields)
		case errors.Is(err, io.EOF) && g.result.Rows == 0:
			return fmt.Errorf("%s: holds no requests", g.file)
		case errors.Is(err, io.EOF):
			return g.out.close()
		case !ofLine(err):
			return fmt.Errorf("%s:%d: %w", g.file, g.lines.number, err)
		}
		if err != nil {
			if err := g.bad.row(g.lines.number, err); err != nil {
				return err
			}
			continue
		}
		g.result.Rows++
		if !g.known[string(g.row.Class)] {
			g.known[string(g.row.Class)] = true
			g.result.Classes = append(g.result.Classes, string(g.row.Class))
		}
		if err := g.out.write(&g.row); err != nil {
			if errors.Is(err, errTick) {
				err = fmt.Errorf("%s:%d: %w", g.file, g.lines.number, err)
			}
			return err
		}
	}
}

// parse reads a row of the trace into g.row.
func (g *importing) parse(fields [][]byte) error {
	s, r := g.source, &g.row
	if len(fields) < s.least || len(fields) > s.most {
		return fmt.Errorf("has %d fields, a row of the format %s has %d", len(fields), g.Format, s.least)
	}
	g.op = appendLower(g.op[:0], bytes.TrimSpace(fields[s.op]))
	kind, known := operations[string(g.op)]
	if !known {
		return fmt.Errorf("operation %q: is none that can be replayed", clip(fields[s.op]))
	}
	r.Kind = kind
	g.key = g.key[:0]
	for i, column := range s.key {
		if i > 0 {
			g.key = append(g.key, '.')
		}
		part := bytes.TrimSpace(fields[column])
		if len(part) == 0 {
			return fmt.Errorf("has no key: its field %d is empty", column+1)
		}
		g.key = append(g.key, part...)
	}
	r.Keys = append(r.Keys[:0], g.key)
	size, err := sizeOf(bytes.TrimSpace(fields[s.size]))
	if err != nil {
		return err
	}
	if size == 0 && s.misses && kind != workloads.Set {
		size = workloads.NoValue
	}
	r.Sizes = append(r.Sizes[:0], size)
	if err := r.Check(); err != nil {
		return err
	}
	if s.class >= 0 {
		g.class = append(g.class[:0], bytes.TrimSpace(fields[s.class])...)
		r.Class = g.class
	}
	g.classify(r)
	if err := checkClass(r.Class); err != nil {
		return err
	}
	return g.at(bytes.TrimSpace(fields[s.time]))
}

func appendLower(dst, text []byte) []byte {
	for _, b := range text {
		if b >= 'A' && b <= 'Z' {
			b += 'a' - 'A'
		}
		dst = append(dst, b)
	}
	return dst
}

// at reads the instant of the row, counted from the first.
func (g *importing) at(text []byte) error {
	whole, fraction, _ := bytes.Cut(text, []byte("."))
	ticks, err := strconv.ParseInt(string(whole), 10, 64)
	switch bad := err != nil || ticks < 0 || !digits(fraction); {
	case bad && g.source.header:
		return fmt.Errorf("time %q: is no number of a unit (%s), such as 1700000000.25", clip(text), strings.Join(Units, ", "))
	case bad:
		return fmt.Errorf("time %q: is no number; where the trace has a header, its format is columns", clip(text))
	}
	part := 0.0
	if len(fraction) > 0 {
		if part, err = strconv.ParseFloat("0."+string(fraction), 64); err != nil {
			return fmt.Errorf("time %q: is no number", clip(text))
		}
	}
	began, first := g.began, g.first
	if !began {
		first = ticks
	}
	if most := int64(longest / g.source.unit); ticks-first > most || first-ticks > most {
		return fmt.Errorf("time %q: is more than a hundred years from the first", clip(text))
	}
	sub := time.Duration(math.Round(part * float64(g.source.unit)))
	if !began {
		g.began, g.first, g.subTick = true, ticks, sub
	}
	at := time.Duration(ticks-first)*g.source.unit + sub - g.subTick
	switch before := g.result.Span; {
	case at < before && before-at > g.Slack:
		return fmt.Errorf("time %q is %v before that of the row above; sort the trace by time, or allow for it with a slack", clip(text), before-at)
	case at < before:
		g.result.Earlier++
		at = before
	}
	g.row.At, g.result.Span = at, at
	return nil
}
