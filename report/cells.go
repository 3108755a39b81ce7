package report

import (
	"encoding/csv"
	"io"
	"strings"
	"unicode"
)

// writeTable writes a table of CSV. Its cells have gone through text or come from numbers, so that no spreadsheet computes any.
func writeTable(w io.Writer, header []string, records [][]string) error {
	out := csv.NewWriter(w)
	if err := out.Write(header); err != nil {
		return err
	}
	if err := out.WriteAll(records); err != nil { // flushes
		return err
	}
	return out.Error()
}

// textCell makes a cell of CSV of a text that somebody wrote: on one line, and with an apostrophe in front where a spreadsheet would otherwise
// compute it.
func textCell(s string) string {
	s = printable(s)
	if formula(strings.TrimLeft(s, " ")) {
		return "'" + s
	}
	return s
}

// printable puts s on one line and takes out what moves a terminal's cursor or hides what is written.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t' || r == '\u2028' || r == '\u2029':
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, s)
}

// escape keeps text from being read as Markdown or HTML, wherever on a line it stands.
func escape(s string) string {
	var b strings.Builder
	s = strings.TrimSpace(printable(s))
	for i, r := range s {
		switch {
		case r == '<':
			b.WriteString("&lt;")
		case r == '>':
			b.WriteString("&gt;")
		case r == '&':
			b.WriteString("&amp;")
		case strings.ContainsRune(`\`+"`*_[]|~$", r), i == 0 && strings.ContainsRune("#+-=!", r):
			b.WriteRune('\\')
			b.WriteRune(r)
		case r == '.' || r == ')':
			// Between a number and a space it would begin a list.
			if i > 0 && strings.Trim(s[:i], "0123456789") == "" && (i+1 == len(s) || s[i+1] == ' ') {
				b.WriteRune('\\')
			}
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// code writes s as code, which nothing in it can end.
func code(s string) string {
	s = strings.ReplaceAll(printable(s), "`", "'")
	if strings.TrimSpace(s) == "" {
		return "–"
	}
	return "`" + s + "`"
}
