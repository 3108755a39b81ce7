package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// The documents of a result directory, which follow from the other files.
const (
	ReportFile = reportFile
	PageFile   = "report.html"
	plotsGlob  = "plots/*.svg"
)

// WriteTables writes into dir the tables that follow from a run: claims.csv, attribution.csv, settling.csv and slo.csv, each when it has something to
// say. What cannot be written does not keep the others from being tried.
func WriteTables(dir string, run *Run) error {
	var errs []error
	for _, f := range []struct {
		name  string
		has   bool
		write func(io.Writer, *Run) error
	}{
		{claimsFile, len(run.Manifest.Claims) > 0, WriteClaims},
		{attributionFile, len(run.Attributions()) > 0, WriteAttribution},
		{settlingFile, len(run.Settlings()) > 0, WriteSettling},
		{sloFile, run.Manifest.hasObjectives(), WriteSLO},
	} {
		if f.has {
			errs = append(errs, WriteDocument(filepath.Join(dir, f.name), func(out io.Writer) error { return f.write(out, run) }))
		}
	}
	return errors.Join(errs...)
}

// Further returns what of errs has not been said: neither by said nor by another of them. A full disk is full for every file.
func Further(said error, errs ...error) error {
	all := parts(once(append([]error{said}, errs...)...))
	return errors.Join(all[len(parts(once(said))):]...)
}

// Picture is a figure that report.md links.
type Picture struct {
	File        string // relative to report.md, with slashes
	Title       string
	Description string // in place of the figure, for whoever cannot see it
	Shown       bool   // in the document itself; else it is only linked
	Group       string // those of one group stand together
}

// MarkdownWith writes report.md of one run as Markdown does, with its figures. left is how many more there would be.
func MarkdownWith(w io.Writer, run *Run, pictures []Picture, left int) error {
	var b bytes.Buffer
	run.markdown(&b, func(b *bytes.Buffer) { picturesSection(b, pictures, left) })
	readingGuide(&b, []*Run{run})
	_, err := w.Write(b.Bytes())
	return err
}

func picturesSection(b *bytes.Buffer, pictures []Picture, left int) {
	if len(pictures) == 0 {
		return
	}
	b.WriteString("\n## Figures\n\nBars show the range over repeats; what is hollow and struck out is not valid. `report.html` has the same figures to zoom into.\n")
	for at := 0; at < len(pictures); {
		end := at
		for end < len(pictures) && pictures[end].Group == pictures[at].Group {
			end++
		}
		pictureGroup(b, pictures[at:end])
		at = end
	}
	if left > 0 {
		fmt.Fprintf(b, "\n%d more figures are not drawn; their numbers are in `points.csv`.\n", left)
	}
}

func pictureGroup(b *bytes.Buffer, group []Picture) {
	fmt.Fprintf(b, "\n**%s**\n", escape(group[0].Group))
	var more []string
	gap := "\n"
	for _, p := range group {
		if !p.Shown {
			more = append(more, fmt.Sprintf("[%s](%s)", escape(p.Title), p.File))
			continue
		}
		b.WriteString(gap)
		fmt.Fprintf(b, "![%s](%s)\n", escape(p.Title+". "+p.Description), p.File)
		gap = ""
	}
	if len(more) > 0 {
		fmt.Fprintf(b, "\nMore: %s\n", strings.Join(more, " · "))
	}
}

// HistogramsFile is the file of a result directory that has the histograms of latency.
const HistogramsFile = histogramsFile

// TextCell makes a cell of CSV of a text that somebody wrote: on one line, and with an apostrophe in front where a spreadsheet would otherwise
// compute it.
func TextCell(s string) string { return textCell(s) }
