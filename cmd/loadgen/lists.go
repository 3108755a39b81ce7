package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"spillway/control/catalog"
	"spillway/internal/harness"
	"spillway/profiles"
)

func profilesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "profiles [NAME]",
		Short: "List the shipped profiles, or show one with all its defaults",
		Long: `profiles lists the shipped profiles, with the grounds on which each can be run as it stands. profiles NAME shows one with every default
and preset written out, and a named machine as its content.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			w := cmd.OutOrStdout()
			if len(args) == 1 {
				p, err := profiles.Load(args[0])
				if err != nil {
					return wrong(err)
				}
				_, err = w.Write(p.Resolved())
				return failed(err)
			}
			return failed(columns(w, func(row func(...string)) error {
				for _, name := range profiles.Names() {
					p, err := profiles.Load(name)
					if err != nil {
						return err
					}
					row(name, strings.Join(harness.Grounds(p), ", "), p.Title)
				}
				return nil
			}))
		},
	}
}

func controllersCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "controllers [NAME]",
		Short: "List the overload controls and allocators, or show the settings of one",
		Long: `controllers lists the overload controls, and after them the allocators, which stand in their place in a profile of the workload kind
allocation. controllers NAME shows the settings of one.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return failed(showController(cmd.OutOrStdout(), args[0]))
			}
			return failed(columns(cmd.OutOrStdout(), func(row func(...string)) error {
				for _, name := range catalog.Names() {
					e, _ := catalog.Describe(name)
					row(name, e.Summary)
				}
				row()
				row("allocators, for profiles of the workload kind allocation:")
				row()
				for _, d := range harness.Allocators() {
					row(d.Name, d.Summary)
				}
				return nil
			}))
		},
	}
}

// showAllocator shows the settings of an allocator; false when there is none of that name.
func showAllocator(w io.Writer, name string) (known bool, err error) {
	list := harness.Allocators()
	i := 0
	for i < len(list) && list[i].Name != name {
		i++
	}
	if i == len(list) {
		return false, nil
	}
	d := list[i]
	fmt.Fprintf(w, "%s: %s\n", d.Name, d.Summary)
	if d.Source != "" {
		fmt.Fprintf(w, "source: %s\n", d.Source)
	}
	if len(d.Settings) == 0 {
		_, err := fmt.Fprintln(w, "no settings")
		return true, err
	}
	fmt.Fprintln(w)
	return true, columns(w, func(row func(...string)) error {
		row("setting", "default", "meaning")
		for _, s := range d.Settings {
			row(s.Name, s.Default, s.Doc)
		}
		return nil
	})
}

func showController(w io.Writer, name string) error {
	e, ok := catalog.Describe(name)
	if !ok {
		if known, err := showAllocator(w, name); known {
			return err
		}
		names := catalog.Names()
		for _, d := range harness.Allocators() {
			names = append(names, d.Name)
		}
		hint := "known are " + strings.Join(names, ", ")
		if near := profiles.Nearest(name, names); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		return wrong(fmt.Errorf("no controller %q; %s", name, hint))
	}
	fmt.Fprintf(w, "%s: %s\n", e.Name, e.Summary)
	if e.Source != "" {
		fmt.Fprintf(w, "source: %s\n", e.Source)
	}
	if len(e.Settings) == 0 {
		_, err := fmt.Fprintln(w, "no settings")
		return err
	}
	fmt.Fprintln(w)
	return columns(w, func(row func(...string)) error {
		row("setting", "type", "default", "meaning")
		for i, s := range e.Settings {
			if i == e.Common && i > 0 {
				row() // what follows is the memory section, which every controller has
			}
			def := s.Default
			if s.Unit != "" {
				def += " " + s.Unit
			}
			row(s.Name, s.Type, def, s.Doc)
		}
		return nil
	})
}

// columns writes rows with their cells aligned.
func columns(w io.Writer, fill func(row func(...string)) error) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	err := fill(func(cells ...string) { fmt.Fprintln(tw, strings.Join(cells, "\t")) })
	if err != nil {
		return err
	}
	return tw.Flush()
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "loadgen %s %s %s/%s\n", moduleVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return failed(err)
		},
	}
}

// moduleVersion returns the version of this module, with the commit when it was built from a working tree.
func moduleVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	version := info.Main.Version
	if version == "" {
		version = "(devel)"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && version == "(devel)" {
			version += " " + s.Value[:min(len(s.Value), 12)]
		}
	}
	return version
}
