package main

import (
	"context"
	"sync/atomic"

	"github.com/urfave/cli/v2"
)

// The first signal ends every command. A command that keeps or stops something says so
// by endsItself, and ends by its context from then on. Every other one is abandoned: what
// is under way ends with the program.

// endingKey is where the context of a command has who ends it, an *atomic.Bool: true once
// the command or the signal has taken it.
type endingKey struct{}

// endsItself says that a command ends by its context from now on. The error is for one
// that a signal was faster than.
func endsItself(ctx context.Context) error {
	if taken, ok := ctx.Value(endingKey{}).(*atomic.Bool); ok && !taken.CompareAndSwap(false, true) {
		return ctx.Err()
	}
	return nil
}

// endedBySignal is a command's action, which a signal ends.
func endedBySignal(action cli.ActionFunc) cli.ActionFunc {
	return func(c *cli.Context) error {
		ctx, taken := c.Context, new(atomic.Bool)
		c.Context = context.WithValue(ctx, endingKey{}, taken)
		done := make(chan error, 1)
		go func() { done <- action(c) }()
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
		}
		if !taken.CompareAndSwap(false, true) {
			return <-done
		}
		if f, ok := terminalOf(c); ok {
			_, _ = f.WriteString("\r\x1b[K") // the progress that it showed
		}
		return ctx.Err()
	}
}
