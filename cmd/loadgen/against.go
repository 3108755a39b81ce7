package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"spillway/internal/harness"
	"spillway/profiles"
	"spillway/report"
	"spillway/report/compare"
)

// fewestRepeats is how often a point is measured on each side unless somebody asks for more or less: fewer decide nothing.
const fewestRepeats = "6"

// settingsPrefix begins a base that is settings rather than a server.
const settingsPrefix = "set:"

// base reads what --against names: an executable of refserver, or settings of the profile.
func base(text string, p *profiles.Profile) (a harness.Against, err error) {
	a.Profile = p
	if list, ok := strings.CutPrefix(text, settingsPrefix); ok {
		var set []profiles.Assignment
		for _, one := range splitSettings(list) {
			assignment, err := profiles.ParseAssignment(one)
			if err != nil {
				return a, fmt.Errorf("--against %s: %w", text, err)
			}
			assignment.Origin = "--against " + text
			set = append(set, assignment)
		}
		a.Profile, err = p.Set(set)
		return a, err
	}
	info, err := os.Stat(text)
	switch {
	case err != nil:
		return a, fmt.Errorf("--against %s: %w; it is the path of a refserver to measure against, or settings such as set:controllers.0.settings.limit=8", text, err)
	case info.IsDir():
		return a, fmt.Errorf("--against %s: a folder; results are compared with `loadgen compare %s CANDIDATE`, after a run of the same profile", text, text)
	case info.Mode()&0o111 == 0:
		return a, fmt.Errorf("--against %s: it is not an executable", text)
	}
	a.Refserver, err = filepath.Abs(text)
	return a, err
}

// splitSettings splits key=value,key=value at the commas that are in no list or mapping.
func splitSettings(text string) (list []string) {
	depth, from := 0, 0
	for i, c := range text {
		switch c {
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		case ',':
			if depth == 0 {
				list, from = append(list, text[from:i]), i+1
			}
		}
	}
	return append(list, text[from:])
}

// against measures p in turns with a base and prints how they compare.
func (s *session) against(cmd *cobra.Command, p *profiles.Profile, text string, c *comparison) error {
	if err := s.checkPace(); err != nil {
		return err
	}
	write, o, err := c.options()
	if err != nil {
		return wrong(err)
	}
	if text == "" {
		return wrong(errors.New("--against: it names nothing; give the path of a refserver, or settings such as set:controllers.0.settings.limit=8"))
	}
	if s.resume != "" {
		return wrong(errors.New("--resume: what is measured in turns with --against cannot be gone on with"))
	}
	if !cmd.Flags().Changed("repeats") && p.Repeats < compare.Fewest {
		if p, err = p.Set([]profiles.Assignment{{Key: "repeats", Value: fewestRepeats, Origin: "--against " + text}}); err != nil {
			return wrong(err)
		}
	}
	a, err := base(text, p)
	if err != nil {
		return wrong(err)
	}
	out := s.out
	if out == "" {
		out = harness.DefaultOut(p.Name, time.Now())
	}
	a.Out = out + "-a"
	progress := s.open(cmd.ErrOrStderr())
	progress.started(p.Name, a.Out)
	progress.started(p.Name, out+"-b")
	first, second, err := harness.RunAgainst(cmd.Context(), s.config(p, out+"-b", progress.only(p.Name)), a)
	progress.close()
	progress.ended(p.Name, &first, err)
	progress.ended(p.Name, &second, err)
	switch {
	case err != nil:
		return progress.spoken(failed(err))
	case first.CutShort || second.CutShort:
		return progress.spoken(&exit{exitFailed, errors.New("interrupted; what was measured until then is in " + a.Out + " and " + out + "-b")})
	}
	var runs [2][]*report.Run
	for i, dir := range []string{first.Dir, second.Dir} {
		if runs[i], err = readResults(dir); err != nil {
			return progress.spoken(failed(err))
		}
	}
	err = c.compare(cmd.OutOrStdout(), runs[0], runs[1], o, write)
	fmt.Fprintf(cmd.OutOrStdout(), "results: %s (base), %s (candidate)\n", first.Dir, second.Dir)
	return progress.spoken(err)
}
