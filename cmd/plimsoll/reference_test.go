package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"plimsoll/profile/store"
)

// referenceDir is where docs hold what the program says of itself.
const referenceDir = "../../docs/reference"

// TestReference holds the reference of commands against the commands. -update
// writes it.
func TestReference(t *testing.T) {
	t.Parallel()
	want, all := map[string]string{}, map[string][]help{}
	var index strings.Builder
	index.WriteString("# Commands\n\nEach with all its flags, as `--help` has them: made from the program, and held against it by its tests.\n\n")
	for _, h := range helps(newApp(streams{})) {
		words := strings.Fields(h.name)
		if len(words) == 1 {
			continue
		}
		file := words[1] + ".md"
		if len(words) == 2 {
			index.WriteString("- [" + h.name + "](" + file + "): " + h.usage + "\n")
		}
		all[file] = append(all[file], h)
	}
	for file, hs := range all {
		shared := sharedFlags(hs)
		for i, h := range hs {
			want[file] += h.reference(min(strings.Count(h.name, " "), 2), shared)
			if i == 0 {
				want[file] += sharedReference(hs, shared)
			}
		}
	}
	want["README.md"] = index.String() + "\nThe planner's metrics are in [metrics.md](metrics.md), a profile's files in [files.md](files.md).\n"
	for name, text := range want {
		checkReference(t, name, strings.TrimRight(text, "\n")+"\n")
	}
}

// sharedFlags are the flags that several commands have with the same meaning, in
// order, and those commands.
func sharedFlags(hs []help) map[helpEntry][]string {
	of := map[helpEntry][]string{}
	for _, h := range hs {
		for _, g := range h.groups {
			for _, f := range g.flags {
				of[f] = append(of[f], h.name)
			}
		}
	}
	maps.DeleteFunc(of, func(f helpEntry, names []string) bool { return len(names) < 2 || strings.HasPrefix(f.name, "--help") })
	return of
}

// sharedReference is the table of flags that several commands have.
func sharedReference(hs []help, shared map[helpEntry][]string) string {
	if len(shared) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("## Flags of several commands\n\n| flag | meaning | commands |\n|---|---|---|\n")
	for _, f := range slices.SortedFunc(maps.Keys(shared), func(a, b helpEntry) int { return strings.Compare(a.name+a.text, b.name+b.text) }) {
		var names []string
		for _, name := range shared[f] {
			names = append(names, strings.TrimPrefix(name, hs[0].name+" "))
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", cell(f.name), cell(unmarked(f.text)), strings.Join(names, ", "))
	}
	return b.String() + "\n"
}

// reference is a section of the reference in docs, its headings so many levels deep;
// flags that other commands have too are not in it.
func (h help) reference(level int, shared map[helpEntry][]string) string {
	var b strings.Builder
	heading := strings.Repeat("#", level)
	fmt.Fprintf(&b, "%s %s\n\n%s.\n\n```\n%s\n```\n\n", heading, h.name, sentence(unmarked(h.usage)), h.synopsis())
	b.WriteString(h.prose())
	for _, g := range h.groups {
		flags := slices.DeleteFunc(slices.Clone(g.flags), func(f helpEntry) bool { return strings.HasPrefix(f.name, "--help") || shared[f] != nil })
		if len(flags) == 0 {
			continue
		}
		if g.title != "" {
			fmt.Fprintf(&b, "%s# %s\n\n", heading, g.title)
		}
		b.WriteString("| flag | meaning |\n|---|---|\n")
		for _, f := range flags {
			fmt.Fprintf(&b, "| `%s` | %s |\n", cell(f.name), cell(unmarked(f.text)))
		}
		b.WriteString("\n")
	}
	if n := len(slices.Collect(func(yield func(string) bool) {
		for _, names := range shared {
			if slices.Contains(names, h.name) && !yield(h.name) {
				return
			}
		}
	})); n > 0 {
		fmt.Fprintf(&b, "Besides, %d [flags of several commands](#flags-of-several-commands).\n\n", n)
	}
	return b.String()
}

// cell is text within a table's column.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// checkReference compares a file of the reference with what it has to be.
func checkReference(t *testing.T, name, want string) {
	t.Helper()
	checkSaid(t, filepath.Join(referenceDir, name), want, "TestReference")
}

// checkSaid compares a file with what the program says, and writes it where a test is
// run with -update.
func checkSaid(t *testing.T, file, want, test string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the program says: go test ./cmd/plimsoll -run %s -update", file, test)
	}
}

// TestReferenceOfFiles holds the reference of files against the schemas of the JSON
// files, and against what a profile leaves. -update writes it.
func TestReferenceOfFiles(t *testing.T) {
	t.Parallel()
	about, err := os.ReadFile("testdata/files.md")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	b.Write(about)
	for _, s := range []struct {
		name   string
		schema []byte
	}{{"recommendation.json", store.RecommendationSchema()}, {"replay.json", replaySchema()}} {
		var schema map[string]any
		if err := json.Unmarshal(s.schema, &schema); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "## %s\n\n%s.\n\n| field | type |\n|---|---|\n", s.name, sentence(schema["description"].(string)))
		fieldsOf(&b, "", schema)
		b.WriteString("\n")
	}
	if strings.Contains(b.String(), "<nil>") {
		t.Error("a field has neither type nor value")
	}
	checkReference(t, "files.md", strings.TrimRight(b.String(), "\n")+"\n")

	var known []string
	for _, line := range strings.Split(string(about), "\n") {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for i, word := range strings.Split(cells[1], "`") {
				if i%2 == 1 {
					known = append(known, word)
				}
			}
		}
	}
	dir := filepath.Join(t.TempDir(), "profile")
	ran(t, exitDone, "profile-sla", "--engine", "estimate", "--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--tp", "1", "--max-num-seqs", "8", "--isl", "500", "--osl", "50",
		"--ttft", "200", "--itl", "20", "--quiet", "--output-dir", dir)
	for file := range tree(t, dir) {
		if !slices.ContainsFunc(known, func(pattern string) bool { ok, err := filepath.Match(pattern, file); return ok && err == nil }) {
			t.Errorf("docs/reference/files.md does not know %s", file)
		}
	}
}

// fieldsOf writes a row for each value in a schema.
func fieldsOf(b *bytes.Buffer, path string, schema map[string]any) {
	if items, ok := schema["items"].(map[string]any); ok {
		fieldsOf(b, path+"[]", items)
		return
	}
	properties, _ := schema["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		fieldsOf(b, strings.TrimPrefix(path+"."+name, "."), properties[name].(map[string]any))
	}
	if len(properties) == 0 {
		fmt.Fprintf(b, "| `%s` | %s |\n", path, typeOf(schema))
	}
}

// typeOf is the type of one value, with the words that it may be.
func typeOf(schema map[string]any) string {
	if only, ok := schema["const"]; ok {
		return fmt.Sprintf("always %v", only)
	}
	kind := strings.Trim(fmt.Sprint(schema["type"]), "[]")
	if words, ok := schema["enum"].([]any); ok {
		return fmt.Sprintf("%s: %s", kind, strings.Trim(fmt.Sprint(words), "[]"))
	}
	if values, ok := schema["additionalProperties"].(map[string]any); ok {
		return kind + " of " + typeOf(values)
	}
	return kind
}

// Every page is one that man's own formatter takes without a complaint, where there
// is one.
func TestManuals(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "man1")
	ran(t, exitDone, "man", dir)
	pages, err := filepath.Glob(filepath.Join(dir, "plimsoll*.1"))
	if err != nil || len(pages) != len(helps(newApp(streams{}))) {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, p := range pages {
		text, err := os.ReadFile(p)
		if err != nil || !bytes.Contains(text, []byte(".SH NAME")) || !bytes.Contains(text, []byte(".SH SYNOPSIS")) {
			t.Errorf("%s: %v, %d bytes", p, err, len(text))
		}
	}
}

// Help has no line beyond the terminal's width but for commands to be copied.
func TestHelpFitsTheTerminal(t *testing.T) {
	t.Parallel()
	for _, width := range []int{40, 60, 80, 120} {
		for _, h := range helps(newApp(streams{})) {
			h.about = nil
			for line := range strings.SplitSeq(h.text(width), "\n") {
				if n := len([]rune(line)); n > width && strings.Contains(strings.TrimSpace(line), " ") {
					t.Errorf("%s in %d columns: %q has %d", h.name, width, line, n)
				}
			}
		}
	}
}
