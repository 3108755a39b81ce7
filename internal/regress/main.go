// Command regress keeps what a comparison needs of a result directory, as the baseline of the regression suite: scripts/regress.sh uses it.
//
//	go run ./internal/regress RESULTS BASELINE
//
// What it keeps says nothing of the computer, its user or the time, is the same whoever makes it, and is small enough to lie in a repository.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"spillway/report"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "regress: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: regress RESULTS BASELINE")
	}
	return keep(args[0], args[1])
}

// manifest are the keys of manifest.json that a comparison reads. The rest says who measured where and when, or follows from the profile.
type manifest struct {
	SchemaVersion   int    `json:"schema_version"`
	Name            string `json:"name"`
	Title           string `json:"title,omitempty"`
	Ground          string `json:"ground"`
	State           string `json:"state"`
	Seed            uint64 `json:"seed"`
	ResolvedProfile string `json:"resolved_profile"`
}

// keep writes what is to be kept of the results in from into the folder to, which is made if it is not there.
func keep(from, to string) error {
	r, err := report.ReadDir(from)
	if err != nil {
		return err
	}
	m := &r.Manifest
	switch {
	case m.Ground != "sim":
		return fmt.Errorf("%s was measured on %s: only simulations are the same on every computer", from, m.Ground)
	case m.State != report.StateComplete:
		return fmt.Errorf("%s is not complete: %s", from, m.State)
	}
	rows := kept(r.Rows)
	for i := range rows {
		if !rows[i].Valid {
			return fmt.Errorf("%s: %s is not valid (%v), and nothing can be held against it", from, rows[i].Point(), rows[i].Warnings)
		}
	}
	if err := os.MkdirAll(to, 0o777); err != nil {
		return err
	}
	err = report.WriteFile(filepath.Join(to, "manifest.json"), func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetIndent("", " ")
		enc.SetEscapeHTML(false)
		return enc.Encode(manifest{m.SchemaVersion, m.Name, m.Title, m.Ground, m.State, m.Seed, m.ResolvedProfile})
	})
	if err != nil {
		return err
	}
	return report.WriteFile(filepath.Join(to, "points.csv"), func(w io.Writer) error { return report.CSV(w, rows) })
}

// kept returns the rows of classes, with the columns that tell them apart, the counts, and those by which controllers are judged. What is left out is
// empty, as what is not known.
func kept(rows []report.Row) (list []report.Row) {
	for i := range rows {
		r := &rows[i]
		if r.Class == report.AllClasses {
			continue // the sum of the others, and not compared
		}
		list = append(list, report.Row{
			Profile: r.Profile, Ground: r.Ground, Controller: r.Controller, OfferedTargetRPS: r.OfferedTargetRPS, LoadFactor: r.LoadFactor,
			Repeat: r.Repeat, Seed: r.Seed, Class: r.Class, SLO: r.SLO, GoodputRPS: r.GoodputRPS, Fates: r.Fates,
			Latency: report.Latency{P99: r.Latency.P99}, Valid: r.Valid, Warnings: r.Warnings,
		})
	}
	return list
}
