package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"plimsoll/profile/store"
)

func schemaCommand() *cli.Command {
	return &cli.Command{
		Name: "schema", Usage: "print the JSON Schema of a file that the program writes", ArgsUsage: "NAME",
		Description: "   plimsoll schema recommendation",
		Action: func(c *cli.Context) error {
			switch name := c.Args().First(); name {
			case "recommendation":
				_, err := fmt.Fprintf(c.App.Writer, "%s\n", store.RecommendationSchema())
				return err
			default:
				return usagef("unknown schema %q: want recommendation", name)
			}
		},
	}
}
