package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"spillway/report"
)

func reportCommand() *cobra.Command {
	var format, out string
	cmd := &cobra.Command{
		Use:   "report DIR...",
		Short: "Make a report of result directories",
		Long: `report reads result directories, from this machine or another, and writes one report of them: markdown for people, csv (the rows of
their points.csv under one header) for programs, requests (a line for every request of one directory that was recorded with --record).`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if format == "requests" {
				return failed(requests(cmd.OutOrStdout(), args, out))
			}
			write, err := formatter(format)
			if err != nil {
				return wrong(err)
			}
			var runs []*report.Run
			for _, dir := range args {
				run, err := report.ReadDir(dir)
				if err != nil {
					return failed(err)
				}
				runs = append(runs, run)
			}
			if out == "" {
				return failed(write(cmd.OutOrStdout(), runs))
			}
			return failed(report.WriteFile(out, func(w io.Writer) error { return write(w, runs) }))
		},
	}
	cmd.Flags().StringVar(&format, "format", "markdown", "markdown, csv or requests")
	cmd.Flags().StringVarP(&out, "output", "o", "", "write to this `file` instead of standard output")
	return cmd
}

// requests writes the recorded requests of one directory.
func requests(stdout io.Writer, dirs []string, out string) error {
	if len(dirs) != 1 {
		return wrong(fmt.Errorf("--format requests: give one directory; requests of different runs do not belong in one list"))
	}
	if out == "" {
		return report.Requests(stdout, dirs[0])
	}
	return report.WriteFile(out, func(w io.Writer) error { return report.Requests(w, dirs[0]) })
}

func formatter(format string) (func(io.Writer, []*report.Run) error, error) {
	switch format {
	case "markdown":
		return report.Markdown, nil
	case "csv":
		return csv, nil
	case "html", "hlog", "benchfmt":
		return nil, fmt.Errorf("--format %s is not part of this version; there are markdown, csv and requests", format)
	default:
		return nil, fmt.Errorf("--format %q: it is markdown, csv or requests", format)
	}
}

func csv(w io.Writer, runs []*report.Run) error {
	var rows []report.Row
	for _, run := range runs {
		rows = append(rows, run.Rows...)
	}
	return report.CSV(w, rows)
}
