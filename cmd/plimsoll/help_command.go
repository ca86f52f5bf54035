package main

import (
	"slices"

	"github.com/urfave/cli/v2"
)

// helpCommand is --help as a word before the command, however deep that is:
// urfave/cli's own looks at the first word alone.
func helpCommand() *cli.Command {
	return &cli.Command{
		Name: "help", Aliases: []string{"h"}, Usage: "Shows a list of commands or help for one command", ArgsUsage: "[COMMAND [SUBCOMMAND]]",
		OnUsageError: usageFromFlags, HideHelpCommand: true,
		Action: func(c *cli.Context) error {
			commands := c.App.Commands
			for _, name := range c.Args().Slice() {
				i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(name) })
				if i < 0 {
					return noCommand(c.App, name, commands)
				}
				commands = commands[i].Subcommands
			}
			if !c.Args().Present() {
				return cli.ShowAppHelp(c)
			}
			words := append([]string{c.App.Name}, c.Args().Slice()...)
			return c.App.RunContext(c.Context, append(words, "--help"))
		},
	}
}
