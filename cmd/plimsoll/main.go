// Command plimsoll profiles an LLM inference engine, and plans capacity and
// scaling on what it measured. This package turns flags into options, wires
// the others together and prints; it alone knows terminals and exit codes.
package main

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"

	"plimsoll/engine/process"
)

func main() {
	process.Main()
	configureCLI()
	os.Exit(run(interruptible(), os.Args, streams{os.Stdin, os.Stdout, os.Stderr}))
}

// configureCLI sets what urfave/cli keeps in variables of its own.
func configureCLI() {
	cli.HelpPrinter = helpPrinter
	cli.HelpFlag = sharedFlag{&cli.BoolFlag{Name: "help", Aliases: []string{"h"}, Usage: "show help", DisableDefaultText: true}}
	cli.VersionFlag = sharedFlag{&cli.BoolFlag{Name: "version", Aliases: []string{"v"}, Usage: "print the version", DisableDefaultText: true}}
}

// sharedFlag is a flag of every command. Commands that are parsed at the same time each
// apply a copy.
type sharedFlag struct{ *cli.BoolFlag }

// Apply defines the flag in a set.
func (f sharedFlag) Apply(set *flag.FlagSet) error {
	own := *f.BoolFlag
	return own.Apply(set)
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
