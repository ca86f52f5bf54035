package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// flagsFirst is args with a command's flags before its arguments, where urfave/cli
// reads them: users type them on either side.
func flagsFirst(commands []*cli.Command, args []string) []string {
	at := 1
	var c *cli.Command
	for ; at < len(args); at++ {
		i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(args[at]) })
		if i < 0 {
			break
		}
		c, commands = commands[i], commands[i].Subcommands
	}
	if c == nil || args[len(args)-1] == "--generate-bash-completion" {
		return args
	}
	flags, words := slices.Clone(args[:at]), []string(nil)
	for rest := args[at:]; len(rest) > 0; rest = rest[1:] {
		switch a := rest[0]; {
		case a == "--":
			return slices.Concat(flags, []string{"--"}, words, rest[1:])
		case slices.Contains(cli.HelpFlag.Names(), strings.TrimLeft(a, "-")):
			return append(args[:at:at], a)
		case a == "-" || !strings.HasPrefix(a, "-"):
			words = append(words, a)
		case takesValue(c, a) && len(rest) == 1: // no word is its value
			return append(flags, a)
		case takesValue(c, a):
			flags = append(flags, a, rest[1])
			rest = rest[1:]
		default:
			flags = append(flags, a)
		}
	}
	return append(flags, words...)
}

// takesValue says whether the argument after a is the value of the flag a.
func takesValue(c *cli.Command, a string) bool {
	name := strings.TrimLeft(a, "-")
	for _, f := range c.Flags {
		if slices.Contains(f.Names(), name) {
			d, ok := f.(cli.DocGenerationFlag)
			return ok && d.TakesValue()
		}
	}
	return false
}
