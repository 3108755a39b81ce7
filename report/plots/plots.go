// Package plots draws the figures of a result as SVG files, in the form a paper uses: as wide as a column, error bars over repeats, each
// controller with the colour and the marker that it has in every other figure.
//
// A figure is 3.33 inches wide, a column of the ACM and USENIX formats, and has letters of 7 points. Its legend stands above the data, never on
// them. The same chart gives the same bytes.
package plots

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"html"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"gonum.org/v1/plot/vg/vgsvg"

	"spillway/report"
)

// Bounds of what is drawn of one run. A figure beyond them would not be looked at, and a folder of thousands not be opened.
const (
	MaxCharts = 120 // files in a folder
	maxLines  = 24  // of a figure, references apart
)

// FolderName is the folder of a result directory that has the figures.
const FolderName = "plots"

// Charts returns what Folder draws of a run, at most MaxCharts, and how many it leaves out.
func Charts(run *report.Run) (list []report.Chart, left int) {
	list = append(run.Charts(), run.Distributions()...)
	list = append(list, run.ServedCharts()...)
	if n := len(list) - MaxCharts; n > 0 {
		return list[:MaxCharts], n
	}
	return list, 0
}

// Folder draws the figures of a run into dir/plots, each a file named after its chart, and returns the names of the files relative to dir. A
// file appears whole or not at all; what cannot be written does not keep the others from being tried. Figures that an earlier call drew there and this one
// does not are removed; what somebody else put there stays. Without anything to draw there is no folder.
func Folder(dir string, run *report.Run) ([]string, error) {
	list, _ := Charts(run)
	return Draw(dir, list)
}

// Draw is Folder for charts that are at hand already.
func Draw(dir string, list []report.Chart) ([]string, error) {
	if len(list) == 0 {
		return nil, sweep(dir, nil)
	}
	if err := os.MkdirAll(filepath.Join(dir, FolderName), 0o777); err != nil {
		return nil, fmt.Errorf("plots: %w", err)
	}
	var names []string
	var errs []error
	for i := range list {
		name := Name(&list[i])
		err := report.WriteDocument(filepath.Join(dir, filepath.FromSlash(name)), func(w io.Writer) error {
			var b bytes.Buffer
			if err := Write(&b, &list[i]); err != nil {
				return err
			}
			_, err := w.Write(sealed(filepath.Base(name), b.Bytes()))
			return err
		})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		names = append(names, name)
	}
	return names, errors.Join(append(errs, sweep(dir, list))...)
}

// suffix ends the names of figures.
const suffix = ".svg"

// Name returns the name of the file of a chart, relative to the result directory.
func Name(c *report.Chart) string { return FolderName + "/" + c.ID + suffix }

// Write draws one chart.
func Write(w io.Writer, c *report.Chart) error {
	f := newFigure(c)
	canvas := vgsvg.New(f.width, f.height)
	if err := f.draw(canvas); err != nil {
		return fmt.Errorf("plot %s: %w", c.ID, err)
	}
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return fmt.Errorf("plot %s: %w", c.ID, err)
	}
	_, err := w.Write(dress(b.Bytes(), Heading(c), Describe(c)))
	return err
}

// dress puts title and description into a drawing, for whoever has it read aloud, and names fonts of the same widths for a computer
// without the one that it was laid out for.
func dress(svg []byte, title, description string) []byte {
	_, body, _ := bytes.Cut(svg, []byte("<svg"))
	attributes, body, _ := bytes.Cut(body, []byte(">"))
	body = bytes.ReplaceAll(body, []byte("font-family:Liberation Sans;"), []byte("font-family:'Liberation Sans',Arimo,Helvetica,Arial,sans-serif;"))
	var b bytes.Buffer
	fmt.Fprintf(&b, "<svg role=\"img\"%s>\n<title>%s</title>\n<desc>%s</desc>", attributes, html.EscapeString(title), html.EscapeString(description))
	b.Write(body)
	return b.Bytes()
}

// Heading says in a few words what a chart is of.
func Heading(c *report.Chart) string {
	var of []string
	if c.Class != "" && c.Class != report.AllClasses {
		of = append(of, "class "+c.Class)
	}
	if c.Class == report.AllClasses {
		of = append(of, "all classes")
	}
	if c.Variant != "" {
		of = append(of, c.Variant)
	}
	title := c.Title
	if len(of) > 0 {
		title += ": " + strings.Join(of, ", ")
	}
	return clean(title)
}

// Describe says in words what a chart shows: for those who cannot see it, and where it cannot be shown.
func Describe(c *report.Chart) string {
	var lines []string
	for i := range c.Lines {
		l := &c.Lines[i]
		if l.Reference {
			continue
		}
		first, last := ends(l)
		if first == nil {
			continue
		}
		text := fmt.Sprintf("%s: %s at %s", clean(l.Label), say(c.Y, pointY(first)), say(c.X, first.X))
		if len(c.Y.Names) > 0 {
			text = fmt.Sprintf("%s: %s for %s", clean(l.Label), say(c.X, first.X), clean(first.Load))
		}
		if last != first && len(c.Y.Names) == 0 {
			text += fmt.Sprintf(", %s at %s", say(c.Y, pointY(last)), say(c.X, last.X))
		}
		lines = append(lines, text)
	}
	what := fmt.Sprintf("%s against %s", cmp.Or(c.Y.Title, "value"), cmp.Or(c.X.Title, "load"))
	if len(c.Y.Names) > 0 {
		what = c.X.Title
	}
	if len(lines) == 0 {
		return clean(what) + ": nothing was measured"
	}
	const most = 12
	if n := len(lines) - most; n > 0 {
		lines = append(lines[:most], fmt.Sprintf("and %d more", n))
	}
	return clean(what) + ". " + strings.Join(lines, "; ")
}

// ends returns the first and the last point of a line that has a value; nil where none has.
func ends(l *report.Line) (first, last *report.ChartPoint) {
	for i := range l.Points {
		if _, ok := l.Points[i].Y.Value.Get(); !ok {
			continue
		}
		if first == nil {
			first = &l.Points[i]
		}
		last = &l.Points[i]
	}
	return first, last
}

func pointY(p *report.ChartPoint) float64 {
	v, _ := p.Y.Value.Get()
	return v
}

// clean puts a name on one line and takes out what an XML file must not have and what would hide or turn around the rest.
func clean(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == unicode.ReplacementChar, r == 0xfffe, r == 0xffff:
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "")))
}
