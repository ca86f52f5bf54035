package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/urfave/cli/v2"

	"plimsoll/engine/field"
	"plimsoll/profile/store"
)

// manSection is that of programs that users call.
const manSection = 1

func manCommand() *cli.Command {
	return &cli.Command{
		Name: "man", Usage: "write the manual pages, one for each command", ArgsUsage: "DIR",
		Description: "DIR is made where it is missing. Pages that are there already are replaced.\n\n" +
			"   plimsoll man ~/.local/share/man/man1 && man plimsoll-profile-sla",
		Action: func(c *cli.Context) error {
			dir := c.Args().First()
			if dir == "" {
				return field.Errorf("man: want the folder to write to").Hint("man looks in ~/.local/share/man/man%d", manSection)
			}
			return writeManuals(c.App, dir)
		},
	}
}

// writeManuals writes a page for the program and one for each command.
func writeManuals(app *cli.App, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("manual pages: %w", err)
	}
	for _, h := range helps(app) {
		file := filepath.Join(dir, fmt.Sprintf("%s.%d", h.fileName(), manSection))
		if err := store.WriteFile(file, md2man.Render([]byte(h.manual()))); err != nil {
			return fmt.Errorf("manual pages: %w", err)
		}
	}
	return nil
}

// helps are those of the program and of all its commands, in the order of --help.
func helps(app *cli.App) []help {
	out := []help{helpOfApp(app)}
	var add func(name string, commands []*cli.Command)
	add = func(name string, commands []*cli.Command) {
		for _, c := range commands {
			if c.Hidden || c.Name == "help" {
				continue
			}
			full := name + " " + c.Name
			out = append(out, helpOf(c, full))
			add(full, c.Subcommands)
		}
	}
	add(app.Name, app.Commands)
	return out
}

func (h help) fileName() string { return strings.ReplaceAll(h.name, " ", "-") }

// manual is the page as the Markdown that md2man takes.
func (h help) manual() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%% %s %d\n\n# NAME\n\n%s - %s\n\n# SYNOPSIS\n\n**%s**%s\n\n", strings.ToUpper(h.fileName()), manSection, h.fileName(), unmarked(h.usage),
		h.name, unmarked(strings.TrimPrefix(h.synopsis(), h.name)))
	if len(h.about) > 0 {
		b.WriteString("# DESCRIPTION\n\n" + h.prose())
	}
	if len(h.commands) > 0 {
		b.WriteString("# COMMANDS\n\n")
		for _, e := range h.commands {
			fmt.Fprintf(&b, "**%s**(%d)\n: %s\n\n", h.fileName()+"-"+e.name, manSection, unmarked(e.text))
		}
	}
	for i, g := range h.groups {
		if i == 0 {
			b.WriteString("# OPTIONS\n\n")
		}
		if g.title != "" {
			fmt.Fprintf(&b, "## %s\n\n", g.title)
		}
		for _, f := range g.flags {
			fmt.Fprintf(&b, "**%s**\n: %s\n\n", unmarked(f.name), unmarked(f.text))
		}
	}
	return b.String()
}

// prose is what a command says of itself.
func (h help) prose() string {
	var b strings.Builder
	for _, p := range h.about {
		if p.code {
			fmt.Fprintf(&b, "```\n%s\n```\n\n", p.text)
		} else {
			fmt.Fprintf(&b, "%s\n\n", unmarked(p.text))
		}
	}
	return b.String()
}

// unmarked is text in which Markdown finds no markup of its own.
func unmarked(text string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "<", `\<`, "`", "\\`", "[", `\[`, "]", `\]`).Replace(text)
}
