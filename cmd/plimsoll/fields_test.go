package main

import (
	"go/ast"
	goparser "go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var flagWord = regexp.MustCompile(`--([a-z][a-z0-9-]*[a-z0-9])`)

// commandFlags are the flags of every command.
func commandFlags() map[string]bool {
	names := map[string]bool{}
	for _, h := range helps(newApp(streams{})) {
		for _, g := range h.groups {
			for _, f := range g.flags {
				for _, m := range flagWord.FindAllStringSubmatch(f.name, -1) {
					names[m[1]] = true
				}
			}
		}
	}
	return names
}

// A field that a library names is a flag of some command.
func TestFieldsAreFlags(t *testing.T) {
	text, err := os.ReadFile("../../engine/field/names.go")
	if err != nil {
		t.Fatal(err)
	}
	flags := commandFlags()
	found := regexp.MustCompile(`= prefix \+ "([^"]+)"`).FindAllStringSubmatch(string(text), -1)
	for _, m := range found {
		if !flags[m[1]] {
			t.Errorf("engine/field names %s, which is no flag of any command", m[1])
		}
	}
	if len(found) < 20 {
		t.Errorf("only %d fields were found", len(found))
	}
}

// othersFlags are the files that name flags of other programs, which may be called as
// ours are.
var othersFlags = []string{
	"engine/argv/", "engine/command/", "engine/dynamo/", "engine/kube/cluster/request.go", "engine/llamacpp/", "engine/redact/",
	"engine/sglang/", "engine/trtllm/", "engine/vllm/", "planner/connect/kubernetes/template.go",
}

// Below cmd, a field is named by a constant of engine/field, and no text has a flag of ours.
func TestLibrariesNameFields(t *testing.T) {
	flags, root := commandFlags(), filepath.Join("..", "..")
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		name = filepath.ToSlash(name)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "cmd" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && name != "."):
			return fs.SkipDir
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		for _, other := range othersFlags {
			if strings.HasPrefix(name, other) {
				return nil
			}
		}
		f, err := goparser.ParseFile(token.NewFileSet(), path, nil, goparser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files++
		ast.Inspect(f, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, _ := strconv.Unquote(lit.Value)
			for _, m := range flagWord.FindAllStringSubmatch(text, -1) {
				if flags[m[1]] {
					t.Errorf("%s says --%s: want the constant of engine/field", name, m[1])
				}
			}
			return true
		})
		return nil
	})
	if err != nil || files < 200 {
		t.Errorf("%d files: %v", files, err)
	}
}
