package reproduce

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"spillway/report"
)

// figures writes a page for each figure: the plots of the profiles that repeat it, and what is claimed of it.
func (d *document) figures() error {
	if err := os.MkdirAll(filepath.Join(d.dir, figuresDir), 0o777); err != nil {
		return err
	}
	pages := map[string][]*chapter{}
	var order []string
	for _, ch := range d.chapters {
		page := ch.page()
		if pages[page] == nil {
			order = append(order, page)
		}
		pages[page] = append(pages[page], ch)
	}
	var errs []error
	for _, page := range order {
		errs = append(errs, report.WriteFile(filepath.Join(d.dir, filepath.FromSlash(page)), func(w io.Writer) error { return figure(w, pages[page]) }))
	}
	return errors.Join(errs...)
}

// figure writes the page of one figure.
func figure(w io.Writer, of []*chapter) error {
	var b bytes.Buffer
	first := of[0]
	title := "figure " + report.MarkdownCell(first.figure())
	if first.profile.Source.Figure == "" {
		title = report.MarkdownCell(first.figure())
	}
	fmt.Fprintf(&b, "# %s, %s\n\n[All claims](../%s)\n", report.MarkdownCell(first.paper()), title, documentFile)
	for _, ch := range of {
		fmt.Fprintf(&b, "\n## %s\n\n", ch.profile.Name)
		ch.links(&b, "../")
		ch.claims(&b)
		ch.moves(&b)
		for _, p := range ch.plots {
			name := strings.TrimSuffix(filepath.Base(p), ".svg")
			fmt.Fprintf(&b, "\n![%s](../%s)\n", report.MarkdownCell(name), p)
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}
