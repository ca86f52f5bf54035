package main

import (
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/urfave/cli/v2"

	"plimsoll/engine/field"
)

// unknownCommand is the error for a word that is no command here.
func unknownCommand(c *cli.Context) error {
	commands := c.App.Commands
	if c.Command != nil && len(c.Command.Subcommands) > 0 {
		commands = c.Command.Subcommands
	}
	return noCommand(c.App, c.Args().First(), commands)
}

// noCommand is the error for a word that none of the commands has for a name.
func noCommand(app *cli.App, name string, commands []*cli.Command) error {
	var names []string
	for _, c := range commands {
		if !c.Hidden {
			names = append(names, c.Name)
		}
	}
	if len(names) == 0 {
		return field.Errorf("unexpected argument %q", name).Hint("the command before it has no commands of its own")
	}
	e := field.Errorf("unknown command %q", name)
	if s := suggestions(app, name, names); len(s) > 0 {
		return e.Hint("did you mean %s?", orList(s))
	}
	return e.Hint("commands are %s", strings.Join(names, ", "))
}

// leastPrefix is how much of a name has to be there to be taken for its beginning.
const leastPrefix = 3

// suggestions are the commands that a word may mean: those of that name elsewhere and
// those here that begin with it, else the nearest here, else others that begin so.
func suggestions(app *cli.App, name string, here []string) []string {
	begins := func(n string) bool { return len(name) >= leastPrefix && strings.HasPrefix(n, name) }
	var same, elsewhere []string
	for _, h := range helps(app)[1:] {
		path := strings.TrimPrefix(h.name, app.Name+" ")
		switch last := path[strings.LastIndex(path, " ")+1:]; {
		case last == name:
			same = append(same, path)
		case begins(last):
			elsewhere = append(elsewhere, path)
		}
	}
	for _, n := range here {
		if begins(n) && !slices.Contains(same, n) {
			same = append(same, n)
		}
	}
	if len(same) > 0 {
		return same
	}
	if n := nearest(name, here); n != "" {
		return []string{n}
	}
	return elsewhere
}

// nearest is the name within a third of its length in edits; empty if none is.
func nearest(name string, names []string) string {
	best, least := "", len(name)/3+2
	for _, n := range names {
		if d := levenshtein.ComputeDistance(name, n); d < least {
			best, least = n, d
		}
	}
	return best
}
