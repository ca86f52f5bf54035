package main

import (
	"fmt"
	"reflect"

	"github.com/urfave/cli/v2"

	"plimsoll/engine/field"
	"plimsoll/profile/store"
)

func schemaCommand() *cli.Command {
	return &cli.Command{
		Name: "schema", Usage: "print the JSON Schema of a file that the program writes", ArgsUsage: "NAME",
		Description: "   plimsoll schema recommendation\n   plimsoll schema replay",
		Action: func(c *cli.Context) error {
			switch name := c.Args().First(); name {
			case "recommendation":
				_, err := fmt.Fprintf(c.App.Writer, "%s\n", store.RecommendationSchema())
				return err
			case "replay":
				_, err := fmt.Fprintf(c.App.Writer, "%s\n", replaySchema())
				return err
			default:
				return field.Errorf("unknown schema %q: want recommendation or replay", name)
			}
		},
	}
}

// replaySchema is that of replay.json.
func replaySchema() []byte {
	return store.Schema(reflect.TypeFor[replayFile](), replaySchemaVersion, "plimsoll replay",
		"what planner replay found; times in the unit that the name ends in, attainment as shares from 0 to 1")
}
