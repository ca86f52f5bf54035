// Command plimsoll profiles an LLM inference engine, and plans capacity and
// scaling on what it measured. This package turns flags into options, wires
// the others together and prints; it alone knows terminals and exit codes.
package main

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/engine/process"
	"plimsoll/profile/store"
)

func main() {
	process.Main()
	configureCLI()
	end := ending{exit: os.Exit}
	code := run(interruptible(&end), os.Args, streams{os.Stdin, os.Stdout, os.Stderr})
	end.with(func() int {
		if code == exitInterrupted { // a command that was abandoned may be writing
			store.Settle()
		}
		return code
	})
}

// ending ends the program once: what is killed lets its command return, too, whose exit
// code is not the program's any more.
type ending struct {
	exit func(code int)
	once sync.Once
}

// with exits with what code gives, unless that was begun before: then it waits.
func (e *ending) with(code func() int) { e.once.Do(func() { e.exit(code()) }) }

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

// interruptible is a context that the first Ctrl-C or TERM cancels; a later one ends the
// program with all its engines. It does not leave that to the default handling, which is
// to do nothing where a script started the program in the background.
func interruptible(end *ending) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go heed(signals, func() {
		cancel()
		time.AfterFunc(oneSignal, func() { say(os.Stderr, "note", "stopping; another signal kills all engines at once") })
	}, func() {
		end.with(func() int {
			within, stop := context.WithTimeout(context.Background(), killPatience)
			defer stop()
			process.KillAll(within)
			say(os.Stderr, "error", "killed by a second signal; what was finished before is kept")
			return exitInterrupted
		})
	})
	return ctx
}

const (
	// oneSignal is how long after a signal another is the same one: GNU timeout sends two.
	oneSignal = time.Second
	// killPatience is how long engines may take to go once they were killed.
	killPatience = 15 * time.Second
)

// heed stops at the first signal and quits at one that comes a second or more later.
func heed(signals <-chan os.Signal, stop, quit func()) {
	<-signals
	first := time.Now()
	stop()
	for range signals {
		if time.Since(first) >= oneSignal {
			quit()
			return
		}
	}
}
