// Package document writes what follows from the measurements of a result directory: tables of claims, figures, a page to look at and a report to
// read. It needs nothing but the files, so it can be done again on another machine, years later.
package document

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"spillway/report"
	"spillway/report/html"
	"spillway/report/plots"
)

// Write reads the result directory dir and writes into it claims.csv, attribution.csv, settling.csv and slo.csv, plots/, report.html and report.md,
// each whole or not at all. One that fails does not keep the others from being written, and the measurements stay as they are. The error has each
// cause once: a full disk is full for all files.
func Write(dir string) error {
	run, err := report.ReadDir(dir)
	if err != nil {
		return err
	}
	errs := []error{attempt("tables", func() error { return report.WriteTables(dir, run) })}
	var charts []report.Chart
	var drawn []string
	var left int
	errs = append(errs, attempt("figures", func() (err error) {
		charts, left = plots.Charts(run)
		drawn, err = plots.Draw(dir, charts)
		return err
	}))
	// Last what links the others, first of these what people read without a browser.
	errs = append(errs, attempt(report.ReportFile, func() error {
		linked := pictures(charts, drawn)
		return report.WriteDocument(filepath.Join(dir, report.ReportFile), func(w io.Writer) error { return report.MarkdownWith(w, run, linked, left) })
	}))
	errs = append(errs, attempt(report.PageFile, func() error {
		return report.WriteDocument(filepath.Join(dir, report.PageFile), func(w io.Writer) error { return html.Write(w, []*report.Run{run}) })
	}))
	return report.Further(nil, errs...)
}

// attempt makes an error of a panic: a document that stumbles over a result that nobody thought of must not take the others with it.
func attempt(what string, write func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errors.Join(err, fmt.Errorf("%s: cannot be made of this result: %v", what, r))
		}
	}()
	return write()
}

// pictures returns the links of the charts that were drawn. Goodput and the tail of latency are in the report itself; the rest is a link away.
func pictures(charts []report.Chart, drawn []string) (list []report.Picture) {
	there := map[string]bool{}
	for _, name := range drawn {
		there[name] = true
	}
	var groups []string
	of := map[string][]report.Picture{}
	for i := range charts {
		c := &charts[i]
		if !there[plots.Name(c)] {
			continue
		}
		group := strings.TrimPrefix(strings.TrimPrefix(plots.Heading(c), c.Title), ": ")
		if of[group] == nil {
			groups = append(groups, group)
		}
		of[group] = append(of[group], report.Picture{
			File: plots.Name(c), Title: c.Title, Description: plots.Describe(c), Group: group,
			Shown: c.Metric == "goodput_rps" || c.Metric == "latency_p99_us" || c.Metric == "served_share",
		})
	}
	for _, g := range groups {
		list = append(list, of[g]...)
	}
	return list
}
