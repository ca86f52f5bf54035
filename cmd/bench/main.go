// Command bench measures the whole product and prints one Markdown table: what
// was measured, beside what it is compared with in the same run, and the machine.
// It runs benchmarks of the packages, which rows lists; `make bench` runs it.
// It judges nothing: a slow machine is no failure, a benchmark that fails is.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr) //nolint:forbidigo // a command of its own
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: error: %v\n", err) //nolint:forbidigo // a command of its own
		os.Exit(1)                                        //nolint:forbidigo // a command of its own
	}
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(progress)
	only := flags.String("only", "", "measure the rows whose area or text this regular expression matches")
	rounds := flags.Int("rounds", 3, "how often each benchmark is run; a figure is the median")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return fmt.Errorf("reading the flags: %w", err)
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if *rounds < 1 {
		return fmt.Errorf("-rounds is %d, want at least 1", *rounds)
	}
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	m, begin := thisMachine(), time.Now()
	s, err := newSuite(progress)
	if err != nil {
		return err
	}
	defer s.remove()
	measured, err := s.measure(ctx, chosen, *rounds)
	if err != nil {
		return err
	}
	m.CPU, m.Took = measured.cpu, time.Since(begin)
	if _, err := io.WriteString(out, table(chosen, measured, m)); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	return measured.failed()
}

// choose are the rows that a regular expression matches.
func choose(only string) ([]row, error) {
	re, err := regexp.Compile(only)
	if err != nil {
		return nil, fmt.Errorf("-only: %w", err)
	}
	var chosen []row
	for _, r := range rows() {
		if re.MatchString(r.area + " " + r.what) {
			chosen = append(chosen, r)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("-only %q matches no row", only)
	}
	return chosen, nil
}
