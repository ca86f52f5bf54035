package plimsoll_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// sleepers are the files of the gate that may wait for a length of time: servers that
// pace their answers, programs that a test runs as its children, and what has to be
// given the time to go wrong.
var sleepers = []string{
	"cmd/plimsoll/affine_test.go", "cmd/plimsoll/engines_test.go", "cmd/plimsoll/servers_test.go",
	"engine/process/main_test.go", "engine/simserver/frontend/file_test.go",
	"planner/connect/kubernetes/lead_test.go", "planner/connect/local/main_test.go",
	"profile/load/clock_test.go", "profile/load/fake_test.go", "profile/load/faults_test.go", "profile/load/measure_test.go",
	"profile/load/probe_test.go", "profile/load/receive_linux_test.go", "profile/load/stairs_test.go",
	"profile/store/main_test.go",
}

// starters are the files of the gate that start processes by themselves: programs that
// a test runs as its children, and the one that asks go for the packages.
var starters = []string{"architecture_test.go", "engine/process/main_test.go"}

// A test of the gate waits for events, starts processes through enginetest, draws its
// cases by enginetest's seed, and runs wherever Go does: what else it does belongs into
// a file tagged full.
func TestGateTestsCannotFailByChance(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		path = filepath.ToSlash(path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (path == "engine/enginetest" || d.Name() == "testdata" || d.Name() == ".git"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, "_bench_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		full := strings.HasSuffix(path, "_full_test.go")
		if full != tagged(f) {
			t.Errorf("%s: a file is tagged full if, and only if, its name ends in _full_test.go", path)
		}
		if full {
			return nil
		}
		for _, fault := range faults(path, f) {
			t.Errorf("%s: %s", path, fault)
		}
		for what, listed := range map[string][]string{"waits by ": sleepers, "starts a process by ": starters} {
			does := slices.ContainsFunc(faults("", f), func(s string) bool { return strings.HasPrefix(s, what) })
			if slices.Contains(listed, path) && !does {
				t.Errorf("%s: listed, yet it no longer %s anything", path, what)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFaultsOfTestsAreFound(t *testing.T) {
	for source, want := range map[string]string{
		`func f() { time.Sleep(1) }`:                                       "waits by time.Sleep",
		`func f() { <-time.After(1) }`:                                     "waits by time.After",
		`func f() { exec.Command("ls") }`:                                  "starts a process by exec.Command",
		`func f(t *testing.T) { rapid.Check(t, nil) }`:                     "checks by rapid.Check",
		`func f() { testing.Short() }`:                                     "asks testing.Short",
		`func f(t *testing.T) { t.Skip() }`:                                "skips",
		`func f(t testing.TB) { t.Skipf("") }`:                             "skips",
		`func f(t *testing.T) { g(func() { t.SkipNow() }) }`:               "skips",
		`func f(t *rapid.T) { t.Skip() }`:                                  "",
		`func f(s *simulation) { s.Skip(3) }`:                              "",
		`func f(f *testing.F) { f.Fuzz(func(t *testing.T) { t.Skip() }) }`: "",
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+source, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(faults("p_test.go", f), "; "); got != want {
			t.Errorf("%s: %q, want %q", source, got, want)
		}
	}
}

// tagged reports whether a file is built with the tag full only.
func tagged(f *ast.File) bool {
	for _, group := range f.Comments {
		for _, c := range group.List {
			if rule, ok := strings.CutPrefix(c.Text, "//go:build "); ok {
				return slices.Contains(strings.Fields(rule), "full")
			}
		}
	}
	return false
}

// faults says what a test file does that depends on the machine or on chance.
func faults(path string, f *ast.File) []string {
	var found []string
	add := func(bad bool, fault string) {
		if bad && !slices.Contains(found, fault) {
			found = append(found, fault)
		}
	}
	bubble := slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == strconv.Quote("testing/synctest") })
	var within []ast.Node // from the file to the node
	ast.Inspect(f, func(n ast.Node) bool {
		if n == nil {
			within = within[:len(within)-1]
			return true
		}
		within = append(within, n)
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		on, ok := s.X.(*ast.Ident)
		if !ok {
			return true
		}
		name := on.Name + "." + s.Sel.Name
		switch name {
		case "time.Sleep", "time.After", "time.Tick":
			add(!bubble && !slices.Contains(sleepers, path), "waits by "+name)
		case "exec.Command", "exec.CommandContext":
			add(!slices.Contains(starters, path), "starts a process by "+name)
		case "rapid.Check", "rapid.MakeCheck":
			add(true, "checks by "+name)
		case "testing.Short":
			add(true, "asks "+name)
		}
		if strings.HasPrefix(s.Sel.Name, "Skip") {
			add(skipsTest(on.Name, within), "skips")
		}
		return true
	})
	return found
}

// skipsTest reports whether a name is that of a test, which is not a fuzzed case.
func skipsTest(name string, within []ast.Node) bool {
	for i := len(within) - 1; i >= 0; i-- {
		var params *ast.FieldList
		switch n := within[i].(type) {
		case *ast.FuncDecl:
			params = n.Type.Params
		case *ast.FuncLit:
			params = n.Type.Params
		default:
			continue
		}
		for _, p := range params.List {
			if !slices.ContainsFunc(p.Names, func(id *ast.Ident) bool { return id.Name == name }) {
				continue
			}
			if kind := typeName(p.Type); kind != "testing.T" && kind != "testing.TB" {
				return false
			}
			call, ok := within[max(0, i-1)].(*ast.CallExpr)
			return !ok || typeName(call.Fun) != "f.Fuzz"
		}
	}
	return false
}

// typeName is a selector as it is written, a pointer's without its star.
func typeName(e ast.Expr) string {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	if s, ok := e.(*ast.SelectorExpr); ok {
		if x, ok := s.X.(*ast.Ident); ok {
			return x.Name + "." + s.Sel.Name
		}
	}
	return ""
}
