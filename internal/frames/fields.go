package frames

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// delimiterOf guesses what separates the fields of a line. A comma comes last: where there is another it may be a decimal one.
func delimiterOf(line string) byte {
	for _, d := range []byte{';', '\t', '|'} {
		if strings.IndexByte(line, d) >= 0 {
			return d
		}
	}
	return ','
}

// split appends the fields of a line, without quotes and blanks around them.
func split(fields [][]byte, line []byte, delimiter byte) [][]byte {
	for begin, quoted, i := 0, false, 0; i <= len(line); i++ {
		switch {
		case i < len(line) && line[i] == '"':
			quoted = !quoted
		case i == len(line) || line[i] == delimiter && !quoted:
			fields = append(fields, bytes.TrimSpace(bytes.Trim(bytes.TrimSpace(line[begin:i]), `"`)))
			begin = i + 1
		}
	}
	return fields
}

// layout says which field is what; those that there are not are -1.
type layout struct {
	date, time                     int
	open, high, low, close, volume int
	least                          int // fields that a row has at least
}

func (l *layout) count() {
	for _, i := range []int{l.date, l.time, l.open, l.high, l.low, l.close, l.volume} {
		l.least = max(l.least, i+1)
	}
}

// when returns the text of date and time of a row.
func (l *layout) when(fields [][]byte) string {
	if l.date >= len(fields) || l.time >= len(fields) {
		return ""
	}
	text := string(fields[l.date])
	if l.time >= 0 {
		text += " " + string(fields[l.time])
	}
	return text
}

// named are the fields of a line of names, by what they are called there.
type named map[string]int

// names reports whether a line is one of names.
func names(fields [][]byte) (bool, named) {
	n := named{}
	for i, f := range fields {
		name := strings.ToLower(strings.Trim(string(f), "<>[]() "))
		if _, taken := n[name]; !taken {
			n[name] = i
		}
	}
	_, open := n.any("open", "o", "bidopen")
	_, closing := n.any("close", "c", "last", "bidclose")
	return open && closing, n
}

func (n named) any(names ...string) (int, bool) {
	for _, name := range names {
		if i, ok := n[name]; ok {
			return i, true
		}
	}
	return -1, false
}

// layout finds the columns by their names.
func (n named) layout() (l layout, err error) {
	need := func(what string, names ...string) (i int) {
		i, ok := n.any(names...)
		if !ok && err == nil {
			err = fmt.Errorf("its names have no %s", what)
		}
		return i
	}
	l.date = need("date or time", "date", "datetime", "date time", "timestamp", "gmt time", "utc time", "local time", "open time", "unix", "dtyyyymmdd", "", "time")
	l.time = -1
	if i, ok := n.any("time", "hour"); ok && i != l.date {
		l.time = i
	}
	l.open = need("open", "open", "o", "bidopen")
	l.high = need("high", "high", "h", "bidhigh")
	l.low = need("low", "low", "l", "bidlow")
	l.close = need("close", "close", "c", "last", "bidclose")
	l.volume, _ = n.any("tickvol", "tick_volume", "tickqty", "volume", "vol", "v")
	l.count()
	return l, err
}

// unnamed finds the columns of a file without names from its first row: date, perhaps a field with the time, open, high, low, close and perhaps volume.
func unnamed(fields [][]byte, comma bool) (l layout, err error) {
	l = layout{date: 0, time: -1, volume: -1}
	next := 1
	if len(fields) > 1 && bytes.IndexByte(fields[1], ':') >= 0 {
		l.time, next = 1, 2
	} else if len(fields) > 6 && isClock(fields[1]) && len(fields[0]) == len("20060102") {
		l.time, next = 1, 2
	}
	if len(fields) < next+4 {
		return l, errors.New("want date, time, open, high, low, close and volume, or names of columns; --delimiter says what separates them")
	}
	for i := next; i < next+4; i++ {
		if _, ok := number(fields[i], comma); !ok {
			return l, fmt.Errorf("%q is no number, and this is no line of names that are known: open, high, low, close, volume", fields[i])
		}
	}
	l.open, l.high, l.low, l.close = next, next+1, next+2, next+3
	if len(fields) > next+4 && len(fields[next+4]) > 0 {
		l.volume = next + 4
	}
	l.count()
	return l, nil
}

// isClock reports whether a field is a time of four or six digits.
func isClock(field []byte) bool {
	_, err := strconv.ParseUint(string(field), 10, 32)
	return err == nil && (len(field) == 4 || len(field) == 6)
}

// dateReader is one form of dates.
type dateReader struct {
	name string
	read func(text string) (unix int64, ok bool)
}

// dateForms returns the forms of dates, those that are likelier first: each with its order of day, month and year. Texts without a zone are taken for UTC: operations go by the order of rows alone.
func dateForms(order string) (list []dateReader) {
	add := func(of string, layouts ...string) {
		if order != "" && order != "auto" && order != of {
			return
		}
		for _, l := range layouts {
			list = append(list, dateReader{name: l, read: func(text string) (int64, bool) {
				t, err := time.Parse(l, text)
				return t.Unix(), err == nil
			}})
		}
	}
	add("ymd", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05", "2006-01-02 15:04:05Z07:00",
		"2006.01.02 15:04:05", "2006.01.02 15:04", "2006/01/02 15:04:05", "2006/01/02 15:04",
		"20060102 150405", "20060102 1504", "20060102 15:04:05", "20060102 15:04")
	add("dmy", "02.01.2006 15:04:05", "02.01.2006 15:04", "02.01.2006 15:04:05 GMT-0700")
	add("mdy", "1/2/2006 15:04:05", "1/2/2006 15:04", "1/2/2006 3:04:05 PM", "1/2/2006 3:04 PM")
	add("dmy", "2/1/2006 15:04:05", "2/1/2006 15:04", "02-01-2006 15:04:05", "02-01-2006 15:04")
	add("mdy", "01-02-2006 15:04:05", "01-02-2006 15:04", "01.02.2006 15:04:05", "01.02.2006 15:04")
	for _, u := range []struct {
		name       string
		per        int64
		least, top int64
	}{{"unix seconds", 1, 1e8, 1e11}, {"unix milliseconds", 1000, 1e11, 1e14}, {"unix microseconds", 1e6, 1e14, 1e17}, {"unix nanoseconds", 1e9, 1e17, 9e18}} {
		list = append(list, dateReader{name: u.name, read: func(text string) (int64, bool) {
			n, err := strconv.ParseInt(strings.TrimSuffix(text, ".0"), 10, 64)
			return n / u.per, err == nil && n >= u.least && n < u.top
		}})
	}
	return list
}
