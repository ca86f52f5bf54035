// Command plimsoll profiles an LLM inference engine, and plans capacity and
// scaling on what it measured. This package turns flags into options, wires
// the others together and prints; it alone knows terminals and exit codes.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"

	"plimsoll/engine/process"
)

func main() {
	process.Main()
	cli.HelpPrinter = helpPrinter // urfave/cli has no other place for it
	os.Exit(run(interruptible(), os.Args, streams{os.Stdin, os.Stdout, os.Stderr}))
}

// interruptible is a context that the first Ctrl-C or TERM cancels; the second
// quits at once. It does not leave that to the default handling, which is to do
// nothing where a script started the program in the background.
func interruptible() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(exitInterrupted)
	}()
	return ctx
}
