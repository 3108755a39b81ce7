package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// source is one Go file of the tree.
type source struct {
	path    string // relative to the root, with slashes
	pkg     string // its folder, relative to the root
	test    bool   // a test, or part of a package that serves tests
	lines   int
	fset    *token.FileSet
	file    *ast.File
	imports []imported
}

type imported struct {
	path string // as written
	ours string // relative to the module, "" when it is not ours
	name string // the name by which the file calls it
	line int
}

func (s *source) line(p token.Pos) int { return s.fset.Position(p).Line }

// parse reads one file of the tree from text.
func parse(name, text string) (*source, error) {
	s := &source{path: name, pkg: path.Dir(name), lines: strings.Count(text, "\n"), fset: token.NewFileSet()}
	s.test = strings.HasSuffix(name, "_test.go") || forTests(s.pkg)
	file, err := parser.ParseFile(s.fset, name, text, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	s.file = file
	for _, spec := range file.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		i := imported{path: p, line: s.line(spec.Pos()), name: importName(p)}
		if spec.Name != nil {
			i.name = spec.Name.Name
		}
		if rest, ok := strings.CutPrefix(p, module+"/"); ok {
			i.ours = rest
		}
		s.imports = append(s.imports, i)
	}
	return s, nil
}

// importName guesses the name of a package from its path: the last element that is not a major version.
func importName(p string) string {
	base := path.Base(p)
	if len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
		base = path.Base(path.Dir(p))
	}
	return base
}

// root finds the folder of go.mod.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		t.Fatalf("no go.mod two folders up: %v", err)
	}
	return dir
}

// files lists the files below dir, relative and with slashes. Hidden folders, testdata, build output, results and modules of their own
// are left out, as the go command leaves them out.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if !d.IsDir() {
			list = append(list, rel)
			return nil
		}
		switch name := d.Name(); {
		case rel == ".":
			return nil
		case strings.HasPrefix(name, ".") && rel != ".ci", strings.HasPrefix(name, "_"), name == "testdata", rel == "bin", rel == "results":
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

var parsed struct {
	sync.Once
	list []*source
}

// tree returns every Go file of this module. They are parsed once; nobody changes them.
func tree(t *testing.T) []*source {
	t.Helper()
	parsed.Do(func() { parsed.list = parseTree(t) })
	if parsed.list == nil {
		t.Fatal("the tree could not be parsed; another test says why")
	}
	return parsed.list
}

func parseTree(t *testing.T) []*source {
	t.Helper()
	dir := root(t)
	var list []*source
	for _, name := range files(t, dir) {
		if !strings.HasSuffix(name, ".go") || strings.HasPrefix(name, "tools/") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		s, err := parse(name, string(text))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, s)
	}
	return list
}

// matches reports whether pkg is named by one of patterns: itself, "*" for all, or "x/*" for what is below x.
func matches(pkg string, patterns []string) bool {
	for _, p := range patterns {
		if p == "*" || p == pkg {
			return true
		}
		if below, ok := strings.CutSuffix(p, "/*"); ok && strings.HasPrefix(pkg, below+"/") {
			return true
		}
	}
	return false
}

// forTests reports whether pkg exists for the tests of others: its name ends in test.
func forTests(pkg string) bool { return strings.HasSuffix(pkg, "test") }

// within reports whether pkg is dir or below it.
func within(pkg, dir string) bool { return pkg == dir || strings.HasPrefix(pkg, dir+"/") }
