package html

import (
	"strings"

	"spillway/report"
)

// The page says in words and tables what report.md says. It reads the Markdown that package report writes, which is a small part of that language, and
// hands it to a template as text, never as markup.

// block is a heading, a paragraph, a list or a table: the one whose field is set.
type block struct {
	Heading string
	Level   int
	ID      string
	Text    []span
	List    [][]span
	Head    []cell
	Right   []bool
	Rows    [][]cell
	Claims  []claimView
	Long    string // the identifier of a table whose rows are in the data of the page, to be shown when asked for
	Count   int    // of its rows
}

// cell is a cell of a table.
type cell []span

// Wide reports whether a cell has a sentence, which needs room. What is shorter stands on one line: broken it would be a column of single words.
func (c cell) Wide() bool { return len(plain(c)) > 26 }

// LongList reports whether a list is shown when it is asked for.
func (b block) LongList() bool { return len(b.List) > 8 }

// span is a run of text in one style.
type span struct {
	Text             string
	Strong, Em, Code bool
}

// Word is what a cell of a table says whose one word is a verdict; it is shown in colour.
func (s span) Word() string {
	if !s.Strong {
		return ""
	}
	return map[string]string{"holds": "good", "does not hold": "bad", "undecided": "open"}[s.Text]
}

// parseText reads Markdown as package report writes it.
func parseText(text string) (list []block) {
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); {
		line := lines[i]
		switch {
		case strings.TrimSpace(line) == "" || line == "---":
			i++
		case strings.HasPrefix(line, "#"):
			title := strings.TrimLeft(line, "#")
			list = append(list, block{Heading: plain(spans(strings.TrimSpace(title))), Level: len(line) - len(title)})
			i++
		case strings.HasPrefix(line, "|"):
			n := run(lines[i:], func(s string) bool { return strings.HasPrefix(s, "|") })
			list = append(list, table(lines[i:i+n]))
			i += n
		case strings.HasPrefix(line, "- "):
			var b block
			for i < len(lines) && strings.TrimSpace(lines[i]) != "" {
				item, fresh := strings.CutPrefix(lines[i], "- ")
				if fresh {
					b.List = append(b.List, nil)
				}
				last := &b.List[len(b.List)-1]
				if !fresh {
					item = " " + strings.TrimSpace(item)
				}
				*last = append(*last, spans(item)...)
				i++
			}
			list = append(list, b)
		default:
			n := run(lines[i:], func(s string) bool {
				return strings.TrimSpace(s) != "" && !strings.HasPrefix(s, "|") && !strings.HasPrefix(s, "#") && !strings.HasPrefix(s, "- ")
			})
			n = max(n, 1)
			list = append(list, block{Text: spans(strings.Join(lines[i:i+n], " "))})
			i += n
		}
	}
	return list
}

// run counts the lines at the beginning that are like each other.
func run(lines []string, like func(string) bool) int {
	for i, l := range lines {
		if !like(l) {
			return i
		}
	}
	return len(lines)
}

func table(lines []string) (b block) {
	for i, l := range lines {
		row := cells(l)
		if i == 1 {
			for _, c := range row {
				b.Right = append(b.Right, strings.HasSuffix(strings.TrimSpace(c), ":") && !strings.HasPrefix(strings.TrimSpace(c), ":"))
			}
			continue
		}
		var list []cell
		for _, c := range row {
			list = append(list, spans(strings.TrimSpace(c)))
		}
		if i == 0 {
			b.Head = list
		} else {
			b.Rows = append(b.Rows, list)
		}
	}
	for len(b.Right) < len(b.Head) {
		b.Right = append(b.Right, false)
	}
	return b
}

// cells takes a line of a table apart. A bar behind a backslash belongs to a cell.
func cells(line string) (list []string) {
	line = strings.TrimPrefix(strings.TrimSpace(line), "|")
	start := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case '|':
			list = append(list, line[start:i])
			start = i + 1
		}
	}
	if rest := strings.TrimSpace(line[min(start, len(line)):]); rest != "" {
		list = append(list, rest)
	}
	return list
}

var entities = []struct{ name, text string }{{"&lt;", "<"}, {"&gt;", ">"}, {"&amp;", "&"}}

// spans takes a text apart into styles: **strong**, *emphasised*, `code`, with what a backslash or an entity stands for.
func spans(s string) (list []span) {
	var b strings.Builder
	strong, em := false, false
	end := func(code bool) {
		if b.Len() > 0 {
			list = append(list, span{Text: clean(b.String()), Strong: strong, Em: em, Code: code})
			b.Reset()
		}
	}
	for i := 0; i < len(s); {
		switch {
		case s[i] == '\\' && i+1 < len(s):
			b.WriteByte(s[i+1])
			i += 2
		case strings.HasPrefix(s[i:], "**"):
			end(false)
			strong = !strong
			i += 2
		case s[i] == '*':
			end(false)
			em = !em
			i++
		case s[i] == '`' && strings.Contains(s[i+1:], "`"):
			end(false)
			n := strings.Index(s[i+1:], "`")
			b.WriteString(s[i+1 : i+1+n])
			end(true)
			i += n + 2
		default:
			n := 1
			for _, e := range entities {
				if strings.HasPrefix(s[i:], e.name) {
					b.WriteString(e.text)
					n = len(e.name)
					break
				}
			}
			if n == 1 {
				b.WriteByte(s[i])
			}
			i += n
		}
	}
	end(false)
	return list
}

func plain(list []span) string {
	var b strings.Builder
	for _, s := range list {
		b.WriteString(s.Text)
	}
	return b.String()
}

// longTable is from how many rows on a table is drawn when somebody asks for it.
const longTable = 40

// sections returns the parts of a run's text by name. Long tables go into d.
func (d *runData) sections(r *report.Run) map[string][]block {
	all := map[string][]block{}
	for _, s := range r.Sections() {
		list := parseText(s.Markdown)
		for i := range list {
			b := &list[i]
			if b.Heading != "" {
				b.ID = d.Prefix + s.Name
				if i > 0 {
					b.ID += "-" + number(i)
				}
			}
			if len(b.Rows) <= longTable {
				continue
			}
			t := &tableData{ID: d.Prefix + "table-" + number(len(d.Tables)+1), Right: b.Right}
			for _, c := range b.Head {
				t.Head = append(t.Head, plain(c))
			}
			for _, row := range b.Rows {
				record := make([]any, 0, len(row))
				for _, c := range row {
					record = append(record, plain(c))
				}
				t.Rows = append(t.Rows, record)
			}
			b.Long, b.Count, b.Rows = t.ID, len(t.Rows), nil
			d.Tables = append(d.Tables, t)
		}
		all[s.Name] = list
	}
	return all
}
