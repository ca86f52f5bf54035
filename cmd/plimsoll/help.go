package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/mitchellh/go-wordwrap"
	"github.com/urfave/cli/v2"
	"golang.org/x/term"
)

// help is all that is said of a command: on a terminal, as a man page and in the
// reference. It is read off the command itself, so that none of them drifts.
type help struct {
	name     string // "plimsoll capacity plan"
	args     string // what it takes besides flags, as "DIR [DIR2]"
	usage    string // one line
	version  string // of the program itself
	about    []helpParagraph
	commands []helpEntry
	groups   []flagGroup // those without a title first
	all      string      // the command that shows all flags; empty: these are all
}

// helpParagraph is a paragraph, or lines to be shown as they are.
type helpParagraph struct {
	text string
	code bool
}

// flagGroup is the flags of one category.
type flagGroup struct {
	title string
	flags []helpEntry
}

// helpEntry is a word and what it means.
type helpEntry struct{ name, text string }

// helpOfApp is the help of the program itself.
func helpOfApp(app *cli.App) help {
	return help{
		name: app.Name, usage: app.Usage, version: app.Version, about: helpParagraphs(app.Description), commands: entriesOf(app.Commands),
		groups: groupsOf(app.VisibleFlagCategories(), app.VisibleFlags()),
	}
}

// helpOf is the help of a command.
func helpOf(c *cli.Command, name string) help {
	return help{
		name: name, args: c.ArgsUsage, usage: c.Usage, about: helpParagraphs(c.Description), commands: entriesOf(c.Subcommands),
		groups: groupsOf(c.VisibleFlagCategories(), c.VisibleFlags()),
	}
}

func entriesOf(commands []*cli.Command) []helpEntry {
	var out []helpEntry
	for _, c := range commands {
		if !c.Hidden {
			out = append(out, helpEntry{strings.Join(c.Names(), ", "), c.Usage})
		}
	}
	return out
}

// helpParagraphs splits a description: lines that are indented are shown as they are.
func helpParagraphs(description string) []helpParagraph {
	var out []helpParagraph
	for block := range strings.SplitSeq(strings.Trim(description, "\n"), "\n\n") {
		if block == "" {
			continue
		}
		lines := strings.Split(block, "\n")
		// What follows an indented block, indented too, belongs to it.
		if first := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "   ") }); first == 0 {
			for i := range lines {
				lines[i] = strings.TrimPrefix(lines[i], "   ")
			}
			out = append(out, helpParagraph{strings.Join(lines, "\n"), true})
		} else {
			out = append(out, helpParagraph{strings.Join(lines, " "), false})
		}
	}
	return out
}

// groupsOf are the flags by category, help and what has no category first.
func groupsOf(categories []cli.VisibleFlagCategory, visible []cli.Flag) []flagGroup {
	var out []flagGroup
	if len(categories) == 0 && len(visible) > 0 {
		return []flagGroup{{flags: flagEntries(visible)}}
	}
	for _, c := range categories {
		out = append(out, flagGroup{c.Name(), flagEntries(c.Flags())})
	}
	slices.SortStableFunc(out, func(a, b flagGroup) int { return cmp.Compare(a.title, b.title) })
	return out
}

// quoted is a default as urfave/cli shows a text.
var quoted = regexp.MustCompile(`\(default: "([^"]*)"\)`)

// flagEntries take urfave/cli's own words, in which names and meaning are apart.
func flagEntries[F fmt.Stringer](flags []F) []helpEntry {
	var out []helpEntry
	for _, f := range flags {
		name, text, _ := strings.Cut(f.String(), "\t")
		out = append(out, helpEntry{name, quoted.ReplaceAllString(strings.TrimSpace(text), "(default: $1)")})
	}
	return out
}

// The terminal's widths: what is not one is taken for a wide one, and text wider
// than people read is not made.
const (
	defaultWidth = 120
	leastWidth   = 40
	widestColumn = 38 // beyond which a flag's meaning begins on a line of its own
)

// helpPrinter prints help instead of urfave/cli's templates, which know neither
// groups with wrapped lines nor narrow terminals.
func helpPrinter(w io.Writer, _ string, data any) {
	var h help
	switch d := data.(type) {
	case *cli.App:
		h = helpOfApp(d)
	case *cli.Command:
		h = helpOf(d, d.HelpName).brief()
	default:
		return
	}
	_, _ = io.WriteString(w, h.text(widthOf(w))) // a terminal that is gone cannot be told
}

// widthOf is how many columns a line of help has.
func widthOf(w io.Writer) int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return max(leastWidth, min(n, defaultWidth))
	}
	if f, ok := fileOf(w); ok {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
			return max(leastWidth, min(n, defaultWidth))
		}
	}
	return defaultWidth
}

// text is the help for a terminal of so many columns.
func (h help) text(width int) string {
	var b strings.Builder
	section := func(title string) { fmt.Fprintf(&b, "%s:\n", title) }
	section("NAME")
	b.WriteString(wrapped(h.name+" - "+h.usage, 3, width) + "\n")
	section("USAGE")
	b.WriteString(wrapped(h.synopsis(), 3, width) + "\n")
	if h.version != "" {
		section("VERSION")
		fmt.Fprintf(&b, "   %s\n\n", h.version)
	}
	if len(h.about) > 0 {
		section("DESCRIPTION")
		for _, p := range h.about {
			if p.code {
				b.WriteString(indented(p.text, 6) + "\n")
			} else {
				b.WriteString(wrapped(p.text, 3, width) + "\n")
			}
		}
	}
	if len(h.commands) > 0 {
		section("COMMANDS")
		b.WriteString(columns(h.commands, width) + "\n")
	}
	if len(h.groups) > 0 {
		section("OPTIONS")
		for i, g := range h.groups {
			if g.title != "" {
				fmt.Fprintf(&b, "   %s\n\n", g.title)
			}
			b.WriteString(columns(g.flags, width))
			if i < len(h.groups)-1 {
				b.WriteString("\n")
			}
		}
	}
	if h.all != "" {
		fmt.Fprintf(&b, "\nAll flags: %s\n", h.all)
	}
	return b.String()
}

// synopsis is how the command is called.
func (h help) synopsis() string {
	parts := []string{h.name}
	switch {
	case len(h.commands) > 0 && (len(h.groups) > 1 || h.all != ""): // it does something without one, too
		parts = append(parts, "[COMMAND]")
	case len(h.commands) > 0:
		parts = append(parts, "COMMAND")
	}
	parts = append(parts, "[OPTIONS]")
	if h.args != "" {
		parts = append(parts, h.args)
	}
	return strings.Join(parts, " ")
}

// columns are words with their meaning beside them, below where there is no room.
func columns(entries []helpEntry, width int) string {
	column, below := 0, width < 80
	for _, e := range entries {
		if n := len(e.name); n <= widestColumn {
			column = max(column, n)
		}
	}
	var b strings.Builder
	for _, e := range entries {
		if below || len(e.name) > column {
			b.WriteString(wrapped(e.name, 3, width))
			at := 3 + column + 2
			if below {
				at = 8
			}
			b.WriteString(wrapped(e.text, at, width))
			continue
		}
		text := wrapped(e.text, 3+column+2, width)
		fmt.Fprintf(&b, "   %-*s  %s", column, e.name, strings.TrimLeft(text, " "))
	}
	return b.String()
}

// wrapped is text in lines of at most so many columns, indented.
func wrapped(text string, indent, width int) string {
	return indented(wordwrap.WrapString(text, uint(max(width-indent, 20))), indent)
}

func indented(text string, by int) string {
	var b strings.Builder
	for line := range strings.SplitSeq(text, "\n") {
		if line != "" {
			b.WriteString(strings.Repeat(" ", by) + line)
		}
		b.WriteString("\n")
	}
	return b.String()
}
