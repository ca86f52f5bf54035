// Command plimsoll profiles an LLM inference engine, and plans capacity and
// scaling on what it measured. This package turns flags into options, wires
// the others together and prints; it alone knows terminals and exit codes.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"plimsoll/engine/process"
)

func main() {
	process.Main()
	os.Exit(run(interruptible(), os.Args, streams{os.Stdin, os.Stdout, os.Stderr}))
}

// interruptible is a context that the first Ctrl-C or TERM cancels; the second
// quits at once, because the default handling is back by then.
func interruptible() context.Context {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx
}
