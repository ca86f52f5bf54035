package plimsoll_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// page is a Markdown file.
type page struct {
	path   string
	text   string
	prose  string   // without fenced blocks and code
	blocks []string // the fenced ones
	titles []string // headings
}

var (
	inlineCode = regexp.MustCompile("`[^`\n]*`")
	inlineLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	linkText   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	flagRow    = regexp.MustCompile("^\\| `(-[^`]+)` \\|")
	flagName   = regexp.MustCompile(`^--?[a-z][a-z0-9-]*`)
	commandArg = regexp.MustCompile(`^[a-z]`)
)

// pages are those that people are sent to from the README.
func pages(t *testing.T) []page {
	t.Helper()
	paths := []string{"README.md", "ARCHITECTURE.md", "BENCHMARKS.md", "CONTRIBUTING.md"}
	err := filepath.WalkDir("docs", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	all := make([]page, len(paths))
	for i, path := range paths {
		all[i] = readPage(t, path)
	}
	return all
}

func readPage(t *testing.T, path string) page {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return parsePage(path, string(text))
}

func parsePage(path, text string) page {
	p := page{path: path, text: text}
	var prose, block strings.Builder
	fenced := false
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "```"):
			if fenced {
				p.blocks = append(p.blocks, block.String())
				block.Reset()
			}
			fenced = !fenced
		case fenced:
			block.WriteString(line)
		default:
			if title := strings.TrimLeft(line, "#"); title != line && strings.HasPrefix(title, " ") {
				p.titles = append(p.titles, strings.TrimSpace(title))
			}
			prose.WriteString(line)
		}
	}
	p.prose = inlineCode.ReplaceAllString(prose.String(), "")
	return p
}

// links are the targets inside the project.
func (p page) links() []string {
	var out []string
	for _, m := range inlineLink.FindAllStringSubmatch(p.prose, -1) {
		if !strings.Contains(m[1], "://") && !strings.HasPrefix(m[1], "mailto:") {
			out = append(out, m[1])
		}
	}
	return out
}

// anchors are a page's headings as GitHub names them: small letters, digits, - and
// _, with - for a space, and -1, -2 … behind one that was there before.
func (p page) anchors() []string {
	var out []string
	seen := map[string]int{}
	for _, title := range p.titles {
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), unicode.IsMark(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, linkText.ReplaceAllString(title, "$1"))
		if n := seen[name]; n > 0 {
			out = append(out, fmt.Sprintf("%s-%d", name, n))
		} else {
			out = append(out, name)
		}
		seen[name]++
	}
	return out
}

// Every link leads to a file that is there, and to a heading that it has; every page
// is in the index.
func TestDocsLinks(t *testing.T) {
	t.Parallel()
	links := 0
	indexed := map[string]bool{filepath.Join("docs", "README.md"): true}
	all := pages(t)
	for _, p := range all {
		for _, link := range p.links() {
			links++
			path, anchor, _ := strings.Cut(link, "#")
			to := p.path
			if path != "" {
				to = filepath.Join(filepath.Dir(p.path), filepath.FromSlash(path))
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: the link %s leads nowhere: %v", p.path, link, err)
				continue
			}
			if p.path == filepath.Join("docs", "README.md") {
				indexed[to] = true
			}
			if anchor != "" && !slices.Contains(readPage(t, to).anchors(), anchor) {
				t.Errorf("%s: the link %s: %s has no such heading", p.path, link, to)
			}
		}
	}
	if links < 50 {
		t.Errorf("%d links were found: are they written in another way now?", links)
	}
	for _, p := range all {
		if filepath.Dir(p.path) != filepath.Join("docs", "reference") && strings.HasPrefix(p.path, "docs") && !indexed[p.path] {
			t.Errorf("%s is not in docs/README.md", p.path)
		}
	}
}

// A release's archive has all pages that its README leads to: they are what
// release.sh copies with their folders.
func TestReleasedDocsLinks(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("deploy/release.sh")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(script), "cp -r --parents ")
	list, _, _ := strings.Cut(after, ` "$work`)
	copied := append(strings.Fields(list), "LICENSE")
	if !found || !slices.Contains(copied, "README.md") {
		t.Fatal("release.sh copies no README with what it links to: is that written in another way now?")
	}
	within := func(path string) bool {
		return slices.ContainsFunc(copied, func(c string) bool { return path == c || strings.HasPrefix(path, c+"/") })
	}
	for _, p := range pages(t) {
		for _, link := range p.links() {
			path, _, _ := strings.Cut(link, "#")
			if to := filepath.ToSlash(filepath.Join(filepath.Dir(p.path), path)); path != "" && !within(to) {
				t.Errorf("%s links to %s, which the archive lacks", p.path, to)
			}
		}
	}
}

// flagsByCommand are the flags of each command, by the reference, which is made from
// the program.
func flagsByCommand(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("docs", "reference", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, file := range files {
		command, several := "", false
		for line := range strings.Lines(readPage(t, file).text) {
			if title := strings.TrimSpace(strings.TrimLeft(line, "#")); strings.HasPrefix(line, "#") && strings.HasPrefix(title, "plimsoll ") {
				command, several = title, false
				out[command] = append(out[command], "--help", "-h")
			}
			several = several || strings.HasPrefix(line, "## Flags of several commands")
			row := flagRow.FindStringSubmatch(line)
			if row == nil || command == "" {
				continue
			}
			of := []string{command}
			if several { // whose commands are in the last column, without the file's first one
				cells := strings.Split(strings.TrimSuffix(strings.TrimSpace(line), " |"), " | ")
				of = nil
				for name := range strings.SplitSeq(cells[len(cells)-1], ", ") {
					if name != command {
						name = command + " " + name
					}
					of = append(of, name)
				}
			}
			for word := range strings.FieldsSeq(row[1]) {
				if name := flagName.FindString(word); name != "" {
					for _, c := range of {
						out[c] = append(out[c], name)
					}
				}
			}
		}
	}
	if len(out) < 20 {
		t.Fatalf("the reference has %d commands: is it written in another way now?", len(out))
	}
	return out
}

// Every command line of the program in a fenced block names commands and flags that
// there are.
func TestDocsCommands(t *testing.T) {
	t.Parallel()
	flags := flagsByCommand(t)
	lines := 0
	for _, p := range pages(t) {
		for _, block := range p.blocks {
			for _, words := range invocations(block) {
				lines++
				if wrong := wrongIn(words, flags); wrong != "" {
					t.Errorf("%s: %s: %s", p.path, strings.Join(words, " "), wrong)
				}
			}
		}
	}
	if lines < 80 {
		t.Errorf("%d command lines were found: are they written in another way now?", lines)
	}
}

// invocations are the command lines of the program in a block of shell, YAML or
// output: from its name on, those within quotes too.
func invocations(block string) [][]string {
	var out [][]string
	for line := range strings.Lines(strings.ReplaceAll(block, "\\\n", " ")) {
		for _, words := range shellWords(line) {
			for _, w := range words {
				if strings.Contains(w, " ") {
					out = append(out, invocations(w)...)
				}
			}
			i := slices.IndexFunc(words, func(w string) bool { return filepath.Base(w) == "plimsoll" })
			// In the middle of a line it may be a word of a sentence.
			if i == 0 || i > 0 && slices.ContainsFunc(words[i:], func(w string) bool { return strings.HasPrefix(w, "--") }) {
				out = append(out, append([]string{"plimsoll"}, words[i+1:]...))
			}
		}
	}
	return out
}

// shellWords are the words of each command of a line: what is between quotes is part
// of one word, | & ; < > end a command, a word that begins with # ends the line.
func shellWords(line string) [][]string {
	commands, word := [][]string{nil}, ""
	quote, inside := rune(0), false
	end := func() {
		if last := len(commands) - 1; inside {
			commands[last] = append(commands[last], word)
		}
		word, inside = "", false
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, inside = r, true
		case quote == 0 && unicode.IsSpace(r):
			end()
		case quote == 0 && r == '#' && !inside:
			return commands
		case quote == 0 && strings.ContainsRune("|&;<>", r):
			end()
			commands = append(commands, nil)
		default:
			word, inside = word+string(r), true
		}
	}
	end()
	return commands
}

// wrongIn says what a command line names that the program has not; empty if nothing.
func wrongIn(words []string, flags map[string][]string) string {
	command, rest := words[0], words[1:]
	for len(rest) > 0 && flags[command+" "+rest[0]] != nil {
		command, rest = command+" "+rest[0], rest[1:]
	}
	parent := slices.ContainsFunc(slices.Collect(maps.Keys(flags)), func(c string) bool { return strings.HasPrefix(c, command+" ") })
	if len(rest) > 0 && parent && commandArg.MatchString(rest[0]) {
		return command + " has no command " + rest[0]
	}
	for _, w := range rest {
		if w == "--" { // for the engine
			return ""
		}
		name := flagName.FindString(w)
		if name != "" && !slices.Contains(flags[command], name) && (command != "plimsoll" || name != "--version") {
			return command + " has no flag " + name
		}
	}
	return ""
}

// What the tests above rest on can tell right from wrong.
func TestDocsRules(t *testing.T) {
	t.Parallel()
	p := parsePage("p.md", "# A `b`, C_d × 2\n## [L](x.md#y)\n## L\n`[no](code)` [yes](a/b.md#c) [out](https://x.org/)\n```sh\n[no](fenced)\n# no title\n```\n")
	if got, want := p.anchors(), []string{"a-b-c_d--2", "l", "l-1"}; !slices.Equal(got, want) {
		t.Errorf("anchors %q, want %q", got, want)
	}
	if got, want := p.links(), []string{"x.md#y", "a/b.md#c"}; !slices.Equal(got, want) {
		t.Errorf("links %q, want %q", got, want)
	}
	flags := map[string][]string{"plimsoll": nil, "plimsoll run": {"--n", "-o"}, "plimsoll run sub": {"--m"}, "plimsoll show": {"--command"}}
	for block, want := range map[string][]string{
		"plimsoll run --n 1 -o f -1 -- --any":                    {""},
		"bin/plimsoll run --n=1 \\\n  --m 2 | plimsoll show --n": {"plimsoll run has no flag --m", "plimsoll show has no flag --n"},
		"plimsoll run sbu": {"plimsoll run has no command sbu"},
		"plimsoll rnu --n": {"plimsoll has no command rnu"},
		"x=1 plimsoll run --k; plimsoll show f # --k":              {"plimsoll run has no flag --k", ""},
		"plimsoll show --command 'plimsoll run sub --n {{.Port}}'": {"plimsoll run sub has no flag --n", ""},
		"key: plimsoll run sub --n":                                {"plimsoll run sub has no flag --n"},
		"simulated by plimsoll devel\nplimsoll: error: --k":        nil,
	} {
		var got []string
		for _, words := range invocations(block) {
			got = append(got, wrongIn(words, flags))
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", block, got, want)
		}
	}
}
