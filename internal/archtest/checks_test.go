package archtest

import (
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strings"
)

// Every check takes files and returns one line for each violation: where, what, and why it matters.

// checkArrows holds the imports of ours against mayImport and neverImport.
func checkArrows(list []*source) (bad []string) {
	unknown := map[string]bool{}
	for _, s := range list {
		row, known := mayImport[s.pkg]
		if !known && !unknown[s.pkg] {
			unknown[s.pkg] = true
			bad = append(bad, fmt.Sprintf("%s: package has no row in mayImport (internal/archtest/rules_test.go): decide what it may import", s.pkg))
		}
		for _, i := range s.imports {
			if i.ours == "" {
				continue
			}
			if within(i.ours, "cmd") {
				bad = append(bad, fmt.Sprintf("%s:%d: imports %s: commands are at the top, nothing imports them", s.path, i.line, i.ours))
			}
			if forTests(i.ours) && !s.test {
				bad = append(bad, fmt.Sprintf("%s:%d: imports %s, which is for tests", s.path, i.line, i.ours))
			}
			for _, n := range neverImport {
				if within(s.pkg, n.from) && within(i.ours, n.to) {
					bad = append(bad, fmt.Sprintf("%s:%d: imports %s: %s", s.path, i.line, i.ours, n.reason))
				}
			}
			if known && !strings.HasSuffix(s.path, "_test.go") && !matches(i.ours, row) {
				bad = append(bad, fmt.Sprintf("%s:%d: imports %s, which the row of %s in mayImport does not list", s.path, i.line, i.ours, s.pkg))
			}
		}
	}
	return bad
}

// checkRows finds rows of mayImport without a package, and rows that point upwards and downwards at once.
func checkRows(list []*source, rows map[string][]string) (bad []string) {
	for pkg, row := range rows {
		if !slices.ContainsFunc(list, func(s *source) bool { return s.pkg == pkg }) {
			bad = append(bad, fmt.Sprintf("mayImport has a row for %s, and there is no such package", pkg))
		}
		for _, to := range row {
			if slices.Contains(rows[to], pkg) {
				bad = append(bad, fmt.Sprintf("mayImport lets %s and %s import each other", pkg, to))
			}
		}
	}
	slices.Sort(bad)
	return bad
}

// checkModules holds third-party imports against importers.
func checkModules(list []*source) (bad []string) {
	for _, s := range list {
		for _, i := range s.imports {
			first, _, _ := strings.Cut(i.path, "/")
			if i.ours != "" || !strings.Contains(first, ".") {
				continue
			}
			at := slices.IndexFunc(importers, func(m importer) bool { return within(i.path, m.module) })
			switch {
			case at < 0:
				bad = append(bad, fmt.Sprintf("%s:%d: imports %s, a module without a row in importers: a dependency that DESIGN does not list needs an ADR", s.path, i.line, i.path))
			case s.test && slices.Contains(importers[at].by, "test"), matches(s.pkg, importers[at].by):
			default:
				bad = append(bad, fmt.Sprintf("%s:%d: imports %s, which is for %s: %s", s.path, i.line, i.path, strings.Join(importers[at].by, ", "), importers[at].reason))
			}
		}
	}
	return bad
}

// checkImports holds imports of the standard library against forbiddenImports.
func checkImports(list []*source) (bad []string) {
	for _, s := range list {
		for _, i := range s.imports {
			if i.name == "." {
				bad = append(bad, fmt.Sprintf("%s:%d: dot import of %s: a reader cannot see where a name comes from", s.path, i.line, i.path))
			}
			if s.test {
				continue
			}
			for _, f := range forbiddenImports {
				if matches(s.pkg, f.in) && matches(i.path, f.imports) {
					bad = append(bad, fmt.Sprintf("%s:%d: imports %s: %s", s.path, i.line, i.path, f.reason))
				}
			}
		}
	}
	return bad
}

// checkCalls holds uses of functions of the standard library against forbiddenCalls. A use that is not a call counts too: a function
// that is passed on gets called.
func checkCalls(list []*source) (bad []string) {
	for _, s := range list {
		names := map[string]string{}
		for _, i := range s.imports {
			names[i.name] = i.path
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			// A package name is an identifier that the parser could not resolve in the file.
			x, ok := sel.X.(*ast.Ident)
			if !ok || x.Obj != nil {
				return true
			}
			for _, f := range forbiddenCalls {
				if f.tests != s.test || !matches(s.pkg, f.in) || names[x.Name] != f.pkg || !named(sel.Sel.Name, f.names) {
					continue
				}
				if f.main && s.file.Name.Name == "main" && strings.HasSuffix(s.path, "/main.go") {
					continue
				}
				bad = append(bad, fmt.Sprintf("%s:%d: %s.%s: %s", s.path, s.line(sel.Pos()), x.Name, sel.Sel.Name, f.reason))
			}
			return true
		})
	}
	return bad
}

func named(name string, list []string) bool {
	return slices.ContainsFunc(list, func(n string) bool {
		prefix, open := strings.CutSuffix(n, "*")
		return name == n || open && strings.HasPrefix(name, prefix)
	})
}

// checkGoroutines finds goroutines, channels and selects where there must be none.
func checkGoroutines(list []*source) (bad []string) {
	const reason = "a goroutine's turn comes when the scheduler likes, so the same seed would no longer give the same run"
	for _, s := range list {
		if s.test || !matches(s.pkg, pure) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			what := ""
			switch n.(type) {
			case *ast.GoStmt:
				what = "go statement"
			case *ast.ChanType:
				what = "channel"
			case *ast.SelectStmt:
				what = "select"
			default:
				return true
			}
			bad = append(bad, fmt.Sprintf("%s:%d: %s: %s", s.path, s.line(n.Pos()), what, reason))
			return true
		})
	}
	return bad
}

// checkSizes holds files, functions and interfaces against the limits.
func checkSizes(list []*source) (bad []string) {
	for _, s := range list {
		if s.test {
			continue
		}
		if s.lines > maxFileLines {
			bad = append(bad, fmt.Sprintf("%s: %d lines, more than %d: it holds more than one thing", s.path, s.lines, maxFileLines))
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if size := s.line(n.End()) - s.line(n.Pos()) + 1; size > maxFuncLines {
					bad = append(bad, fmt.Sprintf("%s:%d: func %s has %d lines, more than %d", s.path, s.line(n.Pos()), n.Name.Name, size, maxFuncLines))
				}
			case *ast.TypeSpec:
				if i, ok := n.Type.(*ast.InterfaceType); ok && i.Methods.NumFields() > maxInterfaceMethods {
					bad = append(bad, fmt.Sprintf("%s:%d: interface %s has %d methods, more than %d: it has more than one user", s.path, s.line(n.Pos()), n.Name.Name, i.Methods.NumFields(), maxInterfaceMethods))
				}
			}
			return true
		})
	}
	return bad
}

// checkInit finds init functions: state that appears before main cannot be passed in, checked or tested.
func checkInit(list []*source) (bad []string) {
	for _, s := range list {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" && !s.test {
				bad = append(bad, fmt.Sprintf("%s:%d: func init: state that appears before main cannot be passed in, checked or tested", s.path, s.line(f.Pos())))
			}
		}
	}
	return bad
}

// checkDocs finds packages without a package comment and exported names without a comment.
func checkDocs(list []*source) (bad []string) {
	documented := map[string]bool{}
	for _, s := range list {
		documented[s.pkg] = documented[s.pkg] || s.file.Doc != nil && !s.test
	}
	for _, s := range list {
		if s.test {
			continue
		}
		if !documented[s.pkg] {
			documented[s.pkg] = true
			bad = append(bad, fmt.Sprintf("%s: package has no package comment", s.pkg))
		}
		for _, d := range s.file.Decls {
			for _, n := range undocumented(d) {
				bad = append(bad, fmt.Sprintf("%s:%d: %s is exported and has no comment", s.path, s.line(n.Pos()), n.Name))
			}
		}
	}
	return bad
}

// wellKnown are methods that say nothing new in each type: those of error, fmt and net/http.
var wellKnown = map[string]bool{"Error": true, "Is": true, "ServeHTTP": true, "String": true, "Unwrap": true}

// undocumented returns the exported names that d declares without a comment. One comment on a group is enough.
func undocumented(d ast.Decl) (names []*ast.Ident) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && (d.Recv == nil || exportedReceiver(d.Recv) && !wellKnown[d.Name.Name]) {
			names = append(names, d.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() && d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
					names = append(names, spec.Name)
				}
			case *ast.ValueSpec:
				if i := slices.IndexFunc(spec.Names, (*ast.Ident).IsExported); i >= 0 && d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
					names = append(names, spec.Names[i])
				}
			}
		}
	}
	return names
}

func exportedReceiver(recv *ast.FieldList) bool {
	exported := false
	ast.Inspect(recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && !exported {
			exported = id.IsExported()
			return false
		}
		return true
	})
	return exported
}

var (
	leftover = regexp.MustCompile(`\b(TODO|FIXME|XXX|HACK)\b(\((\d{4})\):)?`)
	// A path below somebody's home or workplace means nothing on another computer.
	machinePath = regexp.MustCompile("(^|[\\s\"'`(=:,])/(home|root|Users|work)/[A-Za-z0-9._-]")
	adrNumber   = regexp.MustCompile(`(?:docs/adr/|\bADR )(\d{4})`)
)

// checkText looks through one text file for what a commit should not contain. adrs has the numbers of docs/adr.
func checkText(name, text string, adrs map[string]bool) (bad []string) {
	prose := strings.HasSuffix(name, ".md")
	for n, line := range strings.Split(text, "\n") {
		at := fmt.Sprintf("%s:%d", name, n+1)
		for _, m := range leftover.FindAllStringSubmatch(line, -1) {
			if !prose && !adrs[m[3]] {
				bad = append(bad, fmt.Sprintf("%s: %s without the number of an ADR in brackets that says how it will be decided", at, m[1]))
			}
		}
		if machinePath.MatchString(line) {
			bad = append(bad, fmt.Sprintf("%s: a path of one computer: it means nothing on another", at))
		}
		for _, m := range adrNumber.FindAllStringSubmatch(line, -1) {
			if !adrs[m[1]] {
				bad = append(bad, fmt.Sprintf("%s: there is no docs/adr/%s-*.md", at, m[1]))
			}
		}
	}
	return bad
}

var markdownLink = regexp.MustCompile(`\]\(([^)\s#]+)(#[^)]*)?\)`)

// relativeLinks returns the targets of relative links in Markdown text.
func relativeLinks(text string) (targets []string) {
	for _, m := range markdownLink.FindAllStringSubmatch(text, -1) {
		if !strings.Contains(m[1], "://") && !strings.HasPrefix(m[1], "mailto:") {
			targets = append(targets, m[1])
		}
	}
	return targets
}
