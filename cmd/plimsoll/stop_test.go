package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/urfave/cli/v2"
)

// A signal ends every command, whatever it is at.
func TestASignalEndsEveryCommand(t *testing.T) {
	var names []string
	var never chan struct{}
	var stall func(path string, cs []*cli.Command)
	stall = func(path string, cs []*cli.Command) {
		for _, c := range cs {
			stall(path+c.Name+" ", c.Subcommands)
			if c.Action != nil {
				names = append(names, path+c.Name)
				c.Action = func(*cli.Context) error { <-never; return nil }
			}
		}
	}
	all := commands()
	stall("", all)
	for _, c := range all {
		finish(c)
	}
	for _, name := range []string{"plot", "report", "gpus", "calibrate", "profile-sla import", "planner manifest", "engine simulate"} {
		if !slices.Contains(names, name) {
			t.Errorf("%s is not among the commands: %q", name, names)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		never = make(chan struct{})
		for _, name := range names {
			app := newApp(streams{strings.NewReader(""), &buffer{}, &buffer{}})
			app.Commands = all
			ctx, stop := context.WithCancel(t.Context())
			stop()
			if err := app.RunContext(ctx, append([]string{"plimsoll"}, strings.Fields(name)...)); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", name, err)
			}
		}
		close(never)
	})
}

// A command that ends itself is waited for, and one that comes too late with that is
// told so, whichever is first.
func TestACommandEndsItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cleaned := errors.New("cleaned up")
		run := func(action func(*cli.Context) error) (context.CancelFunc, <-chan error) {
			ctx, stop := context.WithCancel(t.Context())
			c, ended := cli.NewContext(cli.NewApp(), nil, nil), make(chan error, 1)
			c.Context = ctx
			go func() { ended <- endedBySignal(action)(c) }()
			synctest.Wait()
			return stop, ended
		}
		clean := make(chan struct{})
		stop, ended := run(func(c *cli.Context) error {
			if err := endsItself(c.Context); err != nil {
				return err
			}
			<-c.Done()
			<-clean
			return cleaned
		})
		stop()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Errorf("ended while it cleaned up: %v", err)
		default:
		}
		close(clean)
		if err := <-ended; !errors.Is(err, cleaned) {
			t.Errorf("ended by %v", err)
		}
		late, told := make(chan struct{}), make(chan error, 1)
		stop, ended = run(func(c *cli.Context) error {
			<-late
			told <- endsItself(c.Context)
			return nil
		})
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("abandoned with %v", err)
		}
		close(late)
		if err := <-told; !errors.Is(err, context.Canceled) {
			t.Errorf("told %v once it was abandoned", err)
		}
	})
}
