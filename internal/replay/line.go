package replay

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"spillway/internal/dist"
)

// maxLine bounds a line. The longest request, a multiget of 255 keys of 250 bytes, is as long as that.
const maxLine = 1 << 17

// lines reads the fields of a CSV file line by line, in memory that does not grow with the file. Fields may be quoted, but hold no line break: no
// column of a log can.
type lines struct {
	in     *bufio.Reader
	number int // of the line at hand, from 1
	fields [][]byte
	text   []byte // what quoted fields say

	verbatim bool // a line that begins with # is no comment: it may begin with a key
}

func newLines(r io.Reader) *lines { return &lines{in: bufio.NewReaderSize(r, maxLine)} }

// compressions are the first bytes of files that have to be unpacked first, and what does.
var compressions = map[string]string{"\x1f\x8b": "gzip -dc", "\x28\xb5\x2f\xfd": "zstd -dc", "\xfd7zXZ": "xz -dc", "BZh": "bzip2 -dc", "PK\x03\x04": "unzip -p"}

// packed says what unpacks the file, where it is not one of lines. It has to be asked before the first line.
func (l *lines) packed() error {
	const most = 5
	begin, _ := l.in.Peek(most) // of a shorter file it is all; what cannot be read is told with the first line
	for magic, tool := range compressions {
		if bytes.HasPrefix(begin, []byte(magic)) {
			return fmt.Errorf("is compressed; unpack it (%s)", tool)
		}
	}
	return nil
}

// errLine marks an error that is about one line: the next may be better.
type errLine struct{ error }

func ofLine(err error) bool {
	_, is := err.(errLine)
	return is
}

// next reads a line that is not empty and no comment. Its error is io.EOF at the end; what was read is valid until the next call.
func (l *lines) next() error {
	for {
		l.number++
		line, err := l.in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = l.in.ReadSlice('\n')
			}
			if err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			return errLine{fmt.Errorf("is longer than %d bytes", maxLine)}
		case err != nil && !errors.Is(err, io.EOF):
			return err
		case err != nil && len(line) == 0:
			return io.EOF
		}
		line = bytes.TrimRight(line, "\r\n")
		if l.number == 1 {
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf")) // which some programs begin every file with
		}
		if len(line) > 0 && (line[0] != '#' || l.verbatim) {
			return l.split(line)
		}
	}
}

// split cuts a line at its commas.
func (l *lines) split(line []byte) error {
	l.fields, l.text = l.fields[:0], l.text[:0]
	if cap(l.text) < len(line) {
		l.text = make([]byte, 0, maxLine) // it must not move while fields point into it
	}
	for {
		field, rest, err := l.field(line)
		if err != nil {
			return errLine{err}
		}
		l.fields = append(l.fields, field)
		if rest == nil {
			return nil
		}
		line = rest
	}
}

// field returns the first field of line, and what follows its comma; nil when there is none.
func (l *lines) field(line []byte) (field, rest []byte, err error) {
	if len(line) == 0 || line[0] != '"' {
		field, rest, found := bytes.Cut(line, []byte(","))
		if !found {
			rest = nil
		} else if rest == nil {
			rest = []byte{}
		}
		return field, rest, nil
	}
	from := len(l.text)
	for i := 1; i < len(line); i++ {
		switch {
		case line[i] != '"':
			l.text = append(l.text, line[i])
		case i+1 < len(line) && line[i+1] == '"':
			l.text = append(l.text, '"')
			i++
		case i+1 == len(line):
			return l.text[from:len(l.text):len(l.text)], nil, nil
		case line[i+1] == ',':
			return l.text[from:len(l.text):len(l.text)], line[i+2:], nil
		default:
			return nil, nil, fmt.Errorf("column %d: a comma belongs behind a quoted field", i+2)
		}
	}
	return nil, nil, fmt.Errorf("a quoted field has no end; quotes in it are doubled")
}

// longest is the greatest instant of a log, a hundred years, so that differences and sums fit.
const longest = 100 * 365 * 24 * time.Hour

// seconds reads an instant: decimal seconds, exact to the nanosecond, or a duration such as 1.5ms.
func seconds(text []byte) (time.Duration, error) {
	whole, fraction, dotted := bytes.Cut(text, []byte("."))
	if len(whole) == 0 || dotted && len(fraction) == 0 || !digits(whole) || !digits(fraction) {
		d, err := dist.ParseDuration(string(text))
		if err != nil || d > longest {
			return 0, fmt.Errorf("time %q: write seconds since the beginning, such as 12.000000345, or a duration such as 1.5ms", clip(text))
		}
		return d, nil
	}
	s, err := strconv.ParseUint(string(whole), 10, 63)
	if err != nil || s > uint64(longest/time.Second) {
		return 0, fmt.Errorf("time %q: must be below a hundred years; an epoch of another unit than seconds is for `loadgen trace import`", clip(text))
	}
	ns := time.Duration(s) * time.Second
	scale := time.Second
	for i, b := range fraction {
		if scale /= 10; i >= 9 && b != '0' {
			return 0, fmt.Errorf("time %q: is finer than a nanosecond", clip(text))
		}
		ns += scale * time.Duration(b-'0')
	}
	return ns, nil
}

func digits(text []byte) bool {
	for _, b := range text {
		if b < '0' || b > '9' {
			return false
		}
	}
	return true
}

// appendSeconds writes an instant so that seconds reads it back.
func appendSeconds(dst []byte, at time.Duration) []byte {
	dst = strconv.AppendInt(dst, int64(at/time.Second), 10)
	ns := int64(at % time.Second)
	if ns == 0 {
		return dst
	}
	dst = append(dst, '.')
	for scale := int64(time.Second) / 10; ns > 0; scale /= 10 {
		dst = append(dst, '0'+byte(ns/scale))
		ns %= scale
	}
	return dst
}

// clip shortens what a message quotes.
func clip(text []byte) []byte {
	const most = 60
	return text[:min(len(text), most)]
}
