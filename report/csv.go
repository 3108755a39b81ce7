package report

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Header returns the names of the columns of points.csv.
func Header() []string {
	var names []string
	for _, c := range columns() {
		names = append(names, c.name)
	}
	return names
}

// CSV writes rows as points.csv has them, the header first.
func CSV(w io.Writer, rows []Row) error {
	out := csv.NewWriter(w)
	if err := out.Write(Header()); err != nil {
		return err
	}
	cols := columns()
	record := make([]string, len(cols))
	for i := range rows {
		for j, c := range cols {
			record[j] = c.get(&rows[i])
		}
		if err := out.Write(record); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// formula reports whether a spreadsheet would compute a cell rather than show it. Nothing that CSV writes is one: names begin with a letter or
// a digit, and no number is negative. A file from elsewhere might have them, and would pass them on.
func formula(cell string) bool {
	return cell != "" && strings.ContainsRune("=+-@\t\r\n", rune(cell[0]))
}

// ReadCSV reads what CSV wrote; name is what messages call the file.
func ReadCSV(r io.Reader, name string) ([]Row, error) {
	in := csv.NewReader(r)
	in.ReuseRecord = true
	cols := columns()
	in.FieldsPerRecord = len(cols)
	header, err := in.Read()
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s: the file is empty", name)
	case err != nil && !errors.Is(err, csv.ErrFieldCount):
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for i, c := range cols {
		if i >= len(header) || header[i] != c.name {
			return nil, fmt.Errorf("%s: column %d should be %s; the file is not of this version's format", name, i+1, c.name)
		}
	}
	if len(header) != len(cols) {
		return nil, fmt.Errorf("%s: %d columns, not %d; the file is not of this version's format", name, len(header), len(cols))
	}
	var rows []Row
	for {
		record, err := in.Read()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		var row Row
		for i, c := range cols {
			if formula(record[i]) {
				line, _ := in.FieldPos(i)
				return nil, fmt.Errorf("%s:%d: %s: %q is not of this program: spreadsheets would take it for a formula", name, line, c.name, record[i])
			}
			// The record is reused by the reader, and texts outlive it.
			if err := c.set(&row, strings.Clone(record[i])); err != nil {
				line, _ := in.FieldPos(i)
				return nil, fmt.Errorf("%s:%d: %s: %w", name, line, c.name, err)
			}
		}
		rows = append(rows, row)
	}
}
