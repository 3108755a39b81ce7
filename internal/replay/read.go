package replay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"spillway/workloads"
)

// Columns are the columns of a log, in their order.
var Columns = []string{"time", "class", "key", "size", "operation"}

// Row is one request of a log.
type Row struct {
	At    time.Duration // from the beginning of the log's clock; not before the row above it
	Class []byte
	workloads.Entry
}

// Rules says what becomes of rows that are no requests.
type Rules struct {
	Skip bool // pass over them and count them, instead of ending with an error
}

// badKept is how many bad rows are told one by one.
const badKept = 10

// bad collects the rows that were passed over.
type bad struct {
	file   string
	rules  Rules
	first  []BadRow
	passed int64
}

// row takes in what is wrong with a line: an error, unless such lines are passed over.
func (b *bad) row(line int, err error) error {
	if !b.rules.Skip {
		return fmt.Errorf("%s:%d: %w", b.file, line, err)
	}
	if len(b.first) < badKept {
		b.first = append(b.first, BadRow{line, err.Error()})
	}
	b.passed++
	return nil
}

// Scan reads a log and calls visit with its rows, each valid until the next. file is what messages call it. It ends with the first error of visit.
//
// The first line is the header time,class,key,size,operation. time is in seconds, with up to nine decimals, or a duration with a unit; it does not
// decrease. class is a name as profiles have them, key has 1 to 250 bytes and neither spaces nor control characters. operation is get, set, delete or multiget. size is the
// bytes of the key's value: of a get what it found, empty for a miss; of a delete what was there, which may be left empty. A multiget has its keys
// separated by spaces, and as many sizes, or one for all. Lines that begin with # are comments.
func Scan(r io.Reader, file string, rules Rules, visit func(line int, row *Row) error) (badRows []BadRow, passed int64, err error) {
	l := newLines(r)
	if err := header(l, file); err != nil {
		return nil, 0, err
	}
	b := &bad{file: file, rules: rules}
	var row Row
	before := time.Duration(-1)
	for {
		err := l.next()
		switch {
		case err == nil:
			err = row.parse(l.fields, before)
		case errors.Is(err, io.EOF):
			return b.first, b.passed, nil
		case !ofLine(err):
			return b.first, b.passed, fmt.Errorf("%s:%d: %w", file, l.number, err)
		}
		if err != nil {
			if err := b.row(l.number, err); err != nil {
				return b.first, b.passed, err
			}
			continue
		}
		before = row.At
		if err := visit(l.number, &row); err != nil {
			if !ofLine(err) {
				return b.first, b.passed, err
			}
			if err := b.row(l.number, err); err != nil {
				return b.first, b.passed, err
			}
		}
	}
}

func header(l *lines, file string) error {
	want := strings.Join(Columns, ",")
	if err := l.packed(); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	err := l.next()
	switch {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s: is empty; a log begins with the line %s", file, want)
	case err != nil:
		return fmt.Errorf("%s:%d: %w", file, l.number, err)
	}
	var names []string
	for _, f := range l.fields {
		names = append(names, strings.TrimSpace(string(f)))
	}
	if !slices.Equal(names, Columns) {
		return fmt.Errorf("%s:%d: begins with %q, and a log with the line %s; `loadgen trace import` makes one of other traces",
			file, l.number, clip(bytes.Join(l.fields, []byte(","))), want)
	}
	return nil
}

// parse reads a row from its fields. before is the instant of the row above.
func (r *Row) parse(fields [][]byte, before time.Duration) (err error) {
	if len(fields) != len(Columns) {
		return fmt.Errorf("has %d fields, a row has %d: %s", len(fields), len(Columns), strings.Join(Columns, ","))
	}
	if r.At, err = seconds(fields[0]); err != nil {
		return err
	}
	if r.At < before {
		return fmt.Errorf("time %s is before that of the row above; sort the rows by time", fields[0])
	}
	if err := checkClass(fields[1]); err != nil {
		return err
	}
	r.Class = fields[1]
	kind, known := kindOf(fields[4])
	if !known {
		return fmt.Errorf("operation %q: there are get, set, delete and multiget", clip(fields[4]))
	}
	r.Kind = kind
	if err := r.keys(fields[2]); err != nil {
		return err
	}
	if err := r.sizes(fields[3]); err != nil {
		return err
	}
	return r.Check()
}

// pooled is what results call all classes together.
const pooled = "all"

// checkClass says what a profile does not take for the name of a class, so that no log is made that nobody can replay.
func checkClass(name []byte) error {
	const most = 63
	good := len(name) > 0 && len(name) <= most
	for i, b := range name {
		letter := b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9'
		good = good && (letter || i > 0 && (b == '.' || b == '-' || b == '_'))
	}
	switch {
	case !good:
		return fmt.Errorf("class %q: a name has letters, digits, dots, dashes and underscores, a letter or digit first, %d at most", clip(name), most)
	case string(name) == pooled:
		return fmt.Errorf("class %q: is what the classes pooled are called; name it otherwise", pooled)
	}
	return nil
}

func kindOf(text []byte) (workloads.Kind, bool) {
	for k := range workloads.NumKinds {
		if string(text) == k.String() {
			return k, true
		}
	}
	return 0, false
}

// keys reads the keys, separated by spaces.
func (r *Row) keys(text []byte) error {
	r.Keys = r.Keys[:0]
	if r.Kind != workloads.MultiGet {
		r.Keys = append(r.Keys, text)
		return nil
	}
	for key := range bytes.FieldsSeq(text) {
		r.Keys = append(r.Keys, key)
	}
	if len(r.Keys) == 0 {
		return fmt.Errorf("a multiget has keys, separated by spaces")
	}
	return nil
}

// sizes reads the sizes of the values, one for each key or one for all.
func (r *Row) sizes(text []byte) error {
	r.Sizes = r.Sizes[:0]
	for field := range bytes.SplitSeq(text, []byte(" ")) {
		size, err := sizeOf(field)
		if err != nil {
			return err
		}
		r.Sizes = append(r.Sizes, size)
	}
	if len(r.Sizes) == 1 {
		for range len(r.Keys) - 1 {
			r.Sizes = append(r.Sizes, r.Sizes[0])
		}
	}
	if len(r.Sizes) != len(r.Keys) {
		return fmt.Errorf("%d sizes for %d keys: write as many, or one for all", len(r.Sizes), len(r.Keys))
	}
	return nil
}

// sizeOf reads a number of bytes; nothing and - stand for no value.
func sizeOf(text []byte) (int64, error) {
	if len(text) == 0 || string(text) == "-" {
		return workloads.NoValue, nil
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("size %q: write a number of bytes, or nothing where there was no value", clip(text))
	}
	return n, nil
}

// Load says what of a log is taken into memory.
type Load struct {
	Rules
	Classes  []string      // that it may have
	Prefixes []string      // that the keys of the classes begin with; nil where nothing is known
	From     time.Duration // after the first request: what is before is left out
	For      time.Duration // what is this long after From and later is left out, and a round takes so long; 0 for all
}

// Read reads a log into memory. What it takes then grows with the part that is asked for, up to what a Recording holds.
func Read(r io.Reader, file string, load Load) (*Trace, error) {
	rec := workloads.NewRecorder(load.Classes)
	var times []time.Duration
	began := time.Duration(-1) // the first request of all
	var row Row
	bad, passed, err := Scan(r, file, load.Rules, func(line int, found *Row) error {
		row = *found
		if began < 0 {
			began = row.At
		}
		if row.At -= began + load.From; row.At < 0 {
			return nil
		}
		if load.For > 0 && row.At >= load.For {
			return errDone
		}
		if row.Entry.Class = slices.IndexFunc(load.Classes, func(c string) bool { return c == string(row.Class) }); row.Entry.Class < 0 {
			return errLine{fmt.Errorf("class %q is none of the workload's, which are %s: name it among workload.classes", clip(row.Class), strings.Join(load.Classes, ", "))}
		}
		err := rec.Add(&row.Entry)
		switch {
		case errors.Is(err, workloads.ErrRecordingFull):
			return fmt.Errorf("%s:%d: %w: take a part of it (from, for)", file, line, err)
		case err != nil:
			return errLine{err}
		}
		times = append(times, row.At)
		return nil
	})
	if err != nil && !errors.Is(err, errDone) {
		return nil, err
	}
	recording := rec.Recording()
	recording.Prefixes = load.Prefixes
	if err := recording.CheckPrefixes(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	t, err := newTrace(recording, times, load.For)
	switch {
	case err != nil && (load.From > 0 || load.For > 0):
		return nil, fmt.Errorf("%s: the part from %v on %w", file, load.From, err)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	t.Bad, t.Passed = bad, passed
	return t, nil
}

// errDone ends a scan whose part has been read.
var errDone = errors.New("the part has been read")
