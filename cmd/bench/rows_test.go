package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"plimsoll/cmd/bench/cputime"
)

// words are the benchmarks that a package's tests declare, and their string
// literals.
func words(t *testing.T, pkg string) (benchmarks, literals map[string]bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	benchmarks, literals = map[string]bool{}, map[string]bool{}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if name, ok := strings.CutPrefix(n.Name.Name, "Benchmark"); ok {
					benchmarks[name] = true
				}
			case *ast.BasicLit:
				if s, err := strconv.Unquote(n.Value); err == nil {
					literals[s] = true
				}
			}
			return true
		})
	}
	return benchmarks, literals
}

// Each benchmark of the table is in its package's tests, with the units that the
// table shows. (That it runs is seen where `make bench` runs.)
func TestRowsNameBenchmarks(t *testing.T) {
	names, literals := map[string]map[string]bool{}, map[string]map[string]bool{}
	for _, r := range rows() {
		for _, f := range []figure{r.figure, r.baseline} {
			if names[f.pkg] == nil {
				names[f.pkg], literals[f.pkg] = words(t, f.pkg)
			}
			name, sub, _ := strings.Cut(f.name, "/")
			if !names[f.pkg][name] {
				t.Errorf("%s has no Benchmark%s", f.pkg, name)
			}
			if sub != "" && !literals[f.pkg][sub] {
				t.Errorf("nothing in %s is called %q", f.pkg, sub)
			}
			if f.unit != cputime.Unit && !literals[f.pkg][f.unit] {
				t.Errorf("nothing in %s reports %q", f.pkg, f.unit)
			}
		}
	}
}

// BENCHMARKS.md shows the rows of the table, in their order.
func TestBenchmarksPageHasTheRows(t *testing.T) {
	page, err := os.ReadFile("../../BENCHMARKS.md")
	if err != nil {
		t.Fatal(err)
	}
	rest := string(page)
	for _, r := range rows() {
		var found bool
		if _, rest, found = strings.Cut(rest, " | "+r.what+" | "); !found || !strings.Contains(rest, " | "+r.against+" | ") {
			t.Fatalf("BENCHMARKS.md has no row %q against %q: put in what `make bench` prints", r.what, r.against)
		}
	}
}
