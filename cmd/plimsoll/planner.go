package main

import "github.com/urfave/cli/v2"

func plannerCommand() *cli.Command {
	return &cli.Command{
		Name: "planner", Usage: "keep a deployment within its SLA",
		Subcommands: []*cli.Command{plannerServeCommand(), plannerReplayCommand(), plannerClientCommand(), plannerManifestCommand()},
	}
}
