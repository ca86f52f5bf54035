package plimsoll_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "plimsoll"

// rule is one row of ARCHITECTURE.md's package table.
type rule struct {
	imports    []string // of this module; "everything" allows all
	thirdParty []string
	pure       bool
	common     bool // every package may import it
}

var quoted = regexp.MustCompile("`([^`]+)`")

func readRules(t *testing.T) map[string]rule {
	t.Helper()
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	rules := map[string]rule{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || !strings.HasPrefix(strings.TrimSpace(cells[1]), "`") {
			continue
		}
		r := rule{pure: strings.Contains(cells[2], "Pure"), common: strings.Contains(cells[2], "every package may import it")}
		if strings.TrimSpace(cells[3]) == "everything" {
			r.imports = []string{"everything"}
		}
		for _, m := range quoted.FindAllStringSubmatch(cells[3], -1) {
			r.imports = append(r.imports, m[1])
		}
		for _, m := range quoted.FindAllStringSubmatch(cells[4], -1) {
			r.thirdParty = append(r.thirdParty, m[1])
		}
		rules[quoted.FindStringSubmatch(cells[1])[1]] = r
	}
	if len(rules) < 10 {
		t.Fatalf("read %d rows from ARCHITECTURE.md's package table", len(rules))
	}
	return rules
}

type listed struct {
	ImportPath, Dir  string
	Imports, GoFiles []string
}

func listPackages(t *testing.T) []listed {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Dir,Imports,GoFiles", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	var ps []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return ps
		} else if err != nil {
			t.Fatal(err)
		}
		if len(p.GoFiles) > 0 {
			ps = append(ps, p)
		}
	}
}

func TestImportsFollowTheTable(t *testing.T) {
	rules := readRules(t)
	for _, p := range listPackages(t) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		r, ok := rules[name]
		if !ok {
			t.Errorf("package %s is not in ARCHITECTURE.md's table", name)
			continue
		}
		for _, imp := range p.Imports {
			if rules[strings.TrimPrefix(imp, module+"/")].common {
				continue
			}
			if why := r.forbids(imp); why != "" {
				t.Errorf("package %s imports %s: %s", name, imp, why)
			}
		}
	}
}

func (r rule) forbids(imp string) string {
	if own, ok := strings.CutPrefix(imp, module+"/"); ok {
		if !slices.Contains(r.imports, "everything") && !slices.Contains(r.imports, own) {
			return "the table does not allow it"
		}
		return ""
	}
	if !strings.Contains(strings.Split(imp, "/")[0], ".") {
		if impure := []string{"os", "os/exec", "net", "net/http", "log", "log/slog", "math/rand", "syscall"}; r.pure && slices.Contains(impure, imp) {
			return "the package is pure"
		}
		return ""
	}
	for _, m := range r.thirdParty {
		if imp == m || strings.HasPrefix(imp, m+"/") {
			return ""
		}
	}
	return "the table does not name that module"
}

// A pure package takes time as an argument and starts no goroutine.
func TestPurePackagesAreStill(t *testing.T) {
	rules := readRules(t)
	clock := []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
	for _, p := range listPackages(t) {
		if !rules[strings.TrimPrefix(p.ImportPath, module+"/")].pure {
			continue
		}
		for _, f := range p.GoFiles {
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, f), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt:
					t.Errorf("%s: a goroutine in a pure package", fset.Position(n.Pos()))
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clock, n.Sel.Name) {
						t.Errorf("%s: time.%s in a pure package", fset.Position(n.Pos()), n.Sel.Name)
					}
				}
				return true
			})
		}
	}
}
