package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/engine/field"
	"plimsoll/planner/connect/virtual"
)

func plannerClientCommand() *cli.Command {
	return &cli.Command{
		Name: "client", Usage: "carry out what a planner decides, where it cannot itself (--environment virtual)",
		Description: "The planner may be plimsoll's or Dynamo's. A deployment that follows one:\n\n" +
			"   while decision=$(plimsoll planner client wait --format json); do\n" +
			"     scale-prefill-to \"$(jq .num_prefill_workers <<<\"$decision\")\" &&\n" +
			"     scale-decode-to \"$(jq .num_decode_workers <<<\"$decision\")\" &&\n" +
			"     plimsoll planner client complete \"$(jq .decision_id <<<\"$decision\")\"\n" +
			"   done",
		Subcommands: []*cli.Command{clientGetCommand(), clientWaitCommand(), clientCompleteCommand()},
	}
}

func clientGetCommand() *cli.Command {
	return &cli.Command{
		Name: "get", Usage: "the last decision, and whether it is acknowledged",
		Description: "Numbers that nobody has set are -1 in JSON.\n\n   plimsoll planner client get --namespace dynamo --format json",
		Flags:       clientFlags(virtual.DefaultTimeout, "give up after this `TIME`"),
		Action: withClient(func(ctx context.Context, c *cli.Context, client *virtual.Client) error {
			s, err := client.Get(ctx)
			if err != nil {
				return err
			}
			return printStatus(c, s)
		}),
	}
}

func clientWaitCommand() *cli.Command {
	return &cli.Command{
		Name: "wait", Usage: "wait for a decision that is not acknowledged, and print it",
		Description: "One that is already there is printed at once, also after a restart. Waiting outlasts an etcd that goes away.\n\n" +
			"   plimsoll planner client wait --timeout 10m\n   plimsoll planner client wait --after 4",
		Flags: append(clientFlags(0, "give up after this `TIME`; 0: never"),
			&cli.Int64Flag{Name: "after", Usage: "wait for a decision other than `DECISION`, acknowledged or not: a later one, or of a planner that began anew; -1: for any"}),
		Action: withClient(func(ctx context.Context, c *cli.Context, client *virtual.Client) error {
			wanted := virtual.Status.Pending
			if c.IsSet("after") {
				wanted = func(s virtual.Status) bool { return s.ID != virtual.None && s.ID != c.Int64("after") }
			}
			s, err := client.Wait(ctx, wanted)
			if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, virtual.ErrUnreachable) {
				return fmt.Errorf("no new decision within %v; so far %v", c.String("timeout"), s)
			}
			if err != nil {
				return err
			}
			return printStatus(c, s)
		}),
	}
}

func clientCompleteCommand() *cli.Command {
	return &cli.Command{
		Name: "complete", Usage: "acknowledge that a decision is carried out", ArgsUsage: "DECISION",
		Description: "All before it count as carried out too. Doing it again changes nothing.\n\n   plimsoll planner client complete 4",
		Flags:       clientFlags(virtual.DefaultTimeout, "give up after this `TIME`"),
		Action: withClient(func(ctx context.Context, c *cli.Context, client *virtual.Client) error {
			id, err := strconv.ParseInt(c.Args().First(), 10, 64)
			if err != nil || id < 0 {
				return field.Errorf("decision %q: want its number", c.Args().First()).Hint("plimsoll planner client get shows it")
			}
			if err := client.Complete(ctx, id); err != nil {
				return err
			}
			if c.String("format") == "json" {
				return printJSON(c.App.Writer, map[string]int64{"scaled_decision_id": id})
			}
			_, err = fmt.Fprintf(c.App.Writer, "Acknowledged decision %d\n", id)
			return err
		}),
	}
}

func clientFlags(timeout time.Duration, usage string) []cli.Flag {
	return append(etcdFlags(), &cli.StringFlag{Name: "timeout", Value: timeout.String(), Usage: usage})
}

// withClient connects, and gives up after --timeout.
func withClient(do func(context.Context, *cli.Context, *virtual.Client) error) cli.ActionFunc {
	return func(c *cli.Context) (err error) {
		p := &parser{c: c}
		ctx, o, timeout := c.Context, etcdOptions(c), p.upTo("timeout", maxStartUp)
		if p.err != nil {
			return p.err
		}
		if err := o.Check(); err != nil {
			return field.Errorf("%v", err)
		}
		if timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, timeout)
			defer cancel()
			o.Timeout = min(timeout, virtual.DefaultTimeout)
		}
		client, err := virtual.NewClient(o)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, client.Close()) }()
		return do(ctx, c, client)
	}
}

func printStatus(c *cli.Context, s virtual.Status) error {
	if c.String("format") == "json" {
		return printJSON(c.App.Writer, s)
	}
	line := s.String()
	_, err := fmt.Fprintln(c.App.Writer, strings.ToUpper(line[:1])+line[1:])
	return err
}
