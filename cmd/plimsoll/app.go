package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"plimsoll/capacity"
	"plimsoll/engine/catalog"
	"plimsoll/engine/field"
)

// Exit codes: what a script can tell from them is a contract.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInfeasible  = 4 // done, but nothing meets the SLA
	exitInterrupted = 130
)

// version is set by the linker in releases; otherwise build info tells.
var version string //nolint:gochecknoglobals // the linker can set nothing else

// streams are the three standard streams of one run.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// argumentsKey is where the command line, without credentials, lies among the app's
// metadata.
const argumentsKey = "arguments"

// run is the whole program but for the process around it: it returns the exit
// code, and every message it printed went to s.
func run(ctx context.Context, args []string, s streams) int {
	hidden := credentialsIn(args, os.Environ())
	s.out, s.err = &screen{s.out, hidden}, &screen{s.err, hidden}
	app := newApp(s)
	own, extra := splitArguments(args)
	own = flagsFirst(app.Commands, own)
	app.Metadata = map[string]any{extraKey: extra, argumentsKey: hidden.words(args), credentialsKey: hidden}
	err := app.RunContext(ctx, own)
	if err == nil {
		return exitDone
	}
	return report(ctx, s.err, err)
}

// report prints err with its hints and gives the exit code.
func report(ctx context.Context, w io.Writer, err error) int {
	var usage *field.Error
	var hinted *field.Failure
	if err = besideInfeasible(err); err == nil {
		return exitInfeasible // its own report is printed already
	}
	code, text := exitFailed, oneLine(err)
	switch {
	case ctx.Err() != nil:
		code = exitInterrupted
		if text = "interrupted: " + text; errors.Is(err, context.Canceled) {
			text = "interrupted"
		}
	case errors.Is(err, capacity.ErrTooLarge):
		err = field.WithHint(err, "check the units of rate, lengths and SLO")
		code = exitUsage
	case errors.As(err, &usage):
		code = exitUsage
	}
	say(w, "error", "%s", text)
	var unknown *catalog.UnknownError
	if errors.As(err, &unknown) && unknown.What == "model" {
		say(w, "hint", "plimsoll capacity catalog lists the models; --model takes the config.json of any other, as Hugging Face has it")
	}
	if errors.As(err, &usage) {
		hints(w, usage.Hints)
	}
	switch {
	case errors.As(err, &hinted):
		hints(w, hinted.Hints)
	case diskFull(err):
		say(w, "hint", "make room where that is written")
	}
	return code
}

func hints(w io.Writer, hs []string) {
	for _, h := range hs {
		say(w, "hint", "%s", h)
	}
}

// oneLine keeps the lines of a multi-line error readable under one prefix.
func oneLine(err error) string {
	return strings.ReplaceAll(err.Error(), "\n", "\nplimsoll: error: ")
}

// infeasibleError says that the job is done and nothing meets the SLA: exit 4.
type infeasibleError struct{ msg string }

func (e *infeasibleError) Error() string { return e.msg }

// besideInfeasible is err without the infeasibleError in it: what failed beside an
// answer that nothing meets the SLA, nil where nothing did.
func besideInfeasible(err error) error {
	if !errors.As(err, new(*infeasibleError)) {
		return err
	}
	switch e := err.(type) { //nolint:errorlint // each level is looked at
	case interface{ Unwrap() []error }:
		var rest []error
		for _, part := range e.Unwrap() {
			rest = append(rest, besideInfeasible(part))
		}
		return errors.Join(rest...)
	case interface{ Unwrap() error }:
		return besideInfeasible(e.Unwrap())
	}
	return nil
}

func newApp(s streams) *cli.App {
	app := &cli.App{
		Name: "plimsoll", Usage: "how much load an LLM deployment may carry within its latency SLA",
		Version: buildVersion(), Reader: s.in, Writer: s.out, ErrWriter: s.err,
		EnableBashCompletion: true, DisableSliceFlagSeparator: true, // a header may hold commas
		OnUsageError:    usageFromFlags,
		ExitErrHandler:  func(*cli.Context, error) {}, // leave exiting to main
		CommandNotFound: nil,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return unknownCommand(c)
			}
			return cli.ShowAppHelp(c)
		},
		Commands: commands(),
	}
	for _, c := range app.Commands {
		finish(c)
	}
	app.Commands = append(app.Commands, helpCommand())
	app.Flags = append(app.Flags, cli.HelpFlag, helpAll()) // urfave/cli adds it with a help command of its own only
	return app
}

func commands() []*cli.Command {
	return []*cli.Command{
		profileCommand(), copyCommand(), gpusCommand(), plotCommand(), reportCommand(), engineCommand(), calibrateCommand(), accuracyCommand(), capacityCommand(), plannerCommand(), schemaCommand(), completionCommand(), manCommand(),
	}
}

// finish gives a command and its subcommands what all of them share: the
// output flags, errors on stderr, an end at a signal, and the refusal of left-over
// arguments.
func finish(c *cli.Command) {
	for _, sub := range c.Subcommands {
		finish(sub)
	}
	c.OnUsageError = usageFromFlags
	c.HideHelpCommand = true
	if c.Action == nil {
		c.Flags = append(c.Flags, helpAll()) // whose --help is all there is
		c.Action = func(ctx *cli.Context) error {
			if ctx.Args().Present() {
				return unknownCommand(ctx)
			}
			return cli.ShowSubcommandHelp(ctx)
		}
		return
	}
	c.Flags = append(c.Flags, append(outputFlags(c.Name), helpAll())...)
	action, allowed := c.Action, strings.Count(c.ArgsUsage, "]")+len(strings.Fields(strings.Split(c.ArgsUsage, "[")[0]))
	c.Action = endedBySignal(func(ctx *cli.Context) error {
		if showAll(ctx) {
			return nil
		}
		if args := ctx.Args().Slice(); len(args) > allowed {
			return field.Errorf("unexpected argument %q", args[allowed])
		}
		if f, formats := ctx.String("format"), formatsOf(ctx.Command.Name); !slices.Contains(formats, f) {
			return field.Errorf("--format %q: want %s", f, orList(formats))
		}
		return action(ctx)
	})
}

func usageFromFlags(c *cli.Context, err error, _ bool) error {
	e := field.Errorf("%v", err)
	if name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); ok {
		name = strings.TrimLeft(name, "-")
		e = field.Errorf("unknown flag --%s", name)
		if says, ok := upstreamFlags()[name]; ok && c.Command != nil && c.Command.Name == profileName {
			return e.Hint("%s", says)
		}
		if n := meantFlag(name, flagNames(c)); n != "" {
			return e.Hint("did you mean --%s?", n)
		}
		if says := insteadOf(name, flagNames(c)); says != "" {
			return e.Hint("%s", says)
		}
	}
	return e.Hint("see plimsoll %s--help", commandPath(c))
}

func commandPath(c *cli.Context) string {
	if c.Command == nil || c.Command.Name == "" || c.Command.Name == "plimsoll" {
		return ""
	}
	return strings.TrimPrefix(c.Command.HelpName, "plimsoll ") + " "
}

func flagNames(c *cli.Context) []string {
	var names []string
	if c.Command != nil {
		for _, f := range c.Command.Flags {
			names = append(names, f.Names()...)
		}
	}
	return names
}

// formatsOf are what a command prints its results as.
func formatsOf(command string) []string {
	if command == "compare" || command == "accuracy" { // whose result is a table
		return []string{"text", "json", "csv"}
	}
	return []string{"text", "json"}
}

func outputFlags(command string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "format", Value: "text", Usage: "results as `" + strings.Join(formatsOf(command), "|") + "`", Category: "output"},
		&cli.BoolFlag{Name: "quiet", Usage: "no progress and no notes on stderr", Category: "output"},
		&cli.BoolFlag{Name: "verbose", Usage: "say more on stderr", Category: "output"},
	}
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	return nil
}

// buildVersion is the release's version, or what the build knows: module
// version, or the revision with "-dirty".
func buildVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	rev, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			rev = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	if rev == "" {
		return "devel"
	}
	return rev + dirty
}
