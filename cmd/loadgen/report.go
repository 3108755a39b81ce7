package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"spillway/report"
	"spillway/report/export"
	"spillway/report/html"
	"spillway/report/plots"
)

// reportFlags are the flags of 'loadgen report'.
type reportFlags struct {
	format, out, commit string
	appendTo            bool
}

func reportCommand() *cobra.Command {
	var f reportFlags
	cmd := &cobra.Command{
		Use:   "report DIR...",
		Short: "Make a report of result directories",
		Long: `report reads result directories, from this machine or another, and writes one report of them:

  markdown   tables for people
  html       one page with charts, without anything from outside of it
  csv        the rows of their points.csv under one header
  plots      the figures as SVG files, into the folder that -o names
  hlog       latencies as an interval log of HdrHistogram
  benchfmt   the benchmark format of Go, for benchstat
  history    a line for each metric, with time, commit and direction, for tools that look for changes; --append adds to the file that -o names
  requests   a line for every request of one directory that was recorded with --record`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(args); err != nil {
				return wrong(err)
			}
			if f.format == "requests" {
				return failed(requests(cmd.OutOrStdout(), args[0], f.out))
			}
			var runs []*report.Run
			for _, dir := range args {
				run, err := report.ReadDir(dir)
				if err != nil {
					return failed(err)
				}
				runs = append(runs, run)
			}
			return failed(f.write(cmd.OutOrStdout(), cmd.ErrOrStderr(), runs))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.format, "format", "markdown", "markdown, html, csv, plots, hlog, benchfmt, history or requests")
	flags.StringVarP(&f.out, "output", "o", "", "write to this `file` instead of standard output; of plots, the folder")
	flags.StringVar(&f.commit, "commit", "", "of history: what was measured (default the commit in the manifest)")
	flags.BoolVar(&f.appendTo, "append", false, "of history: add to the file what is not there yet")
	return cmd
}

// formats write runs as one document.
var formats = map[string]func(io.Writer, []*report.Run) error{
	"markdown": report.Markdown, "html": html.Write, "csv": csv, "hlog": export.Hlog, "benchfmt": export.Benchfmt,
}

func (f *reportFlags) check(dirs []string) error {
	_, known := formats[f.format]
	switch {
	case !known && f.format != "plots" && f.format != "history" && f.format != "requests":
		return fmt.Errorf("--format %q: it is markdown, html, csv, plots, hlog, benchfmt, history or requests", f.format)
	case f.format == "plots" && f.out == "":
		return errors.New("--format plots: name a folder for the files with -o")
	case f.format != "history" && (f.appendTo || f.commit != ""):
		return errors.New("--append and --commit belong to --format history")
	case f.appendTo && f.out == "":
		return errors.New("--append: name the history with -o")
	case f.format == "requests" && len(dirs) != 1:
		return errors.New("--format requests: give one directory; requests of different runs do not belong in one list")
	}
	return f.sparesResults(dirs)
}

// sparesResults refuses to write a report over what it is made of, which nothing brings back.
func (f *reportFlags) sparesResults(dirs []string) error {
	out, err := os.Stat(f.out)
	if f.out == "" || err != nil {
		return nil // where it is to go there is nothing yet
	}
	for _, dir := range dirs {
		for _, name := range []string{"manifest.json", "points.csv", "trace.csv", "allocation.csv", "finished.jsonl", report.HistogramsFile, report.RequestsFile} {
			if in, err := os.Stat(filepath.Join(dir, name)); err == nil && os.SameFile(in, out) {
				return fmt.Errorf("-o %s: that is %s of the results themselves, which would be lost; name another file", f.out, name)
			}
		}
	}
	return nil
}

func (f *reportFlags) write(stdout, stderr io.Writer, runs []*report.Run) error {
	switch {
	case f.format == "plots":
		return draw(stdout, f.out, runs)
	case f.format == "history" && f.appendTo:
		added, err := export.AppendHistory(f.out, runs, f.commit)
		if err == nil {
			_, err = fmt.Fprintf(stdout, "%s: %d lines are new\n", f.out, added)
		}
		return err
	}
	write := formats[f.format]
	if f.format == "history" {
		write = func(w io.Writer, runs []*report.Run) error { return export.History(w, runs, f.commit) }
	}
	if grounds := groundsOf(runs); len(grounds) > 1 {
		fmt.Fprintf(stderr, "loadgen: these results are of different grounds (%s); their numbers must not be compared directly\n", strings.Join(grounds, ", "))
	}
	if f.out == "" {
		return write(stdout, runs)
	}
	return writeTo(f.out, func(w io.Writer) error { return write(w, runs) })
}

// writeTo writes a file that a flag names. A regular one is whole at any time, and a link still is one afterwards. A device or a pipe is written to: to put
// a file in its place, as is done with others, would take it away from everybody.
func writeTo(path string, write func(io.Writer) error) error {
	info, err := os.Stat(path)
	switch {
	case err != nil: // it is not there yet, or what is wrong shows when it is opened
		return report.WriteFile(path, write)
	case info.IsDir():
		return fmt.Errorf("%s is a folder; name a file in it", path)
	}
	if out, err := os.Stdout.Stat(); err == nil && os.SameFile(info, out) {
		return write(os.Stdout) // /dev/stdout, which somebody has sent to a file and may go on writing to
	}
	if real, err := filepath.EvalSymlinks(path); err == nil && info.Mode().IsRegular() {
		return report.WriteFile(real, write)
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

func groundsOf(runs []*report.Run) (list []string) {
	seen := map[string]bool{}
	for _, run := range runs {
		if g := run.Manifest.Ground; !seen[g] {
			seen[g] = true
			list = append(list, g)
		}
	}
	return list
}

// draw writes the figures of runs below a folder: those of one run into its folder plots, those of several into one for each.
func draw(stdout io.Writer, folder string, runs []*report.Run) error {
	taken := map[string]bool{}
	for _, run := range runs {
		dir := folder
		if len(runs) > 1 {
			whole, err := filepath.Abs(run.Dir) // . and .. have a name too
			if err != nil {
				return err
			}
			base := filepath.Base(whole)
			name := base
			for n := 2; taken[name]; n++ {
				name = fmt.Sprintf("%s-%d", base, n)
			}
			taken[name] = true
			dir = filepath.Join(folder, name)
		}
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return err
		}
		names, err := plots.Folder(dir, run)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(stdout, "%s: %d figures\n", filepath.Join(dir, plots.FolderName), len(names)); err != nil {
			return err
		}
	}
	return nil
}

// requests writes the recorded requests of one directory.
func requests(stdout io.Writer, dir, out string) error {
	if out == "" {
		return report.Requests(stdout, dir)
	}
	return writeTo(out, func(w io.Writer) error { return report.Requests(w, dir) })
}

func csv(w io.Writer, runs []*report.Run) error {
	var rows []report.Row
	for _, run := range runs {
		rows = append(rows, run.Rows...)
	}
	return report.CSV(w, rows)
}
