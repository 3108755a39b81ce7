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
their points.csv under one header) for programs.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
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
	cmd.Flags().StringVar(&format, "format", "markdown", "markdown or csv")
	cmd.Flags().StringVarP(&out, "output", "o", "", "write to this `file` instead of standard output")
	return cmd
}

func formatter(format string) (func(io.Writer, []*report.Run) error, error) {
	switch format {
	case "markdown":
		return report.Markdown, nil
	case "csv":
		return csv, nil
	case "html", "hlog", "benchfmt":
		return nil, fmt.Errorf("--format %s is not part of this version; there are markdown and csv", format)
	default:
		return nil, fmt.Errorf("--format %q: it is markdown or csv", format)
	}
}

func csv(w io.Writer, runs []*report.Run) error {
	var rows []report.Row
	for _, run := range runs {
		rows = append(rows, run.Rows...)
	}
	return report.CSV(w, rows)
}
