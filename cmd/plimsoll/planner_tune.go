package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"plimsoll/profile/store"
)

func plannerTuneCommand() *cli.Command {
	return &cli.Command{
		Name: "tune", Usage: "choose a policy's parameters on one part of a load, and say on another part what they are worth",
		Description: "Replays a policy with other settings, as planner replay does and with its flags, on the --fit-on part of a trace\n" +
			"(--trace) or of a generator (--rate …): the settings that take the fewest GPU-hours (or USD, with\n" +
			"--cost-per-gpu-hour) among those that hold --attainment, by the 95 % interval over --seeds runs; where none\n" +
			"does, those that attain most. Settings differ from the ones that were given only where that pays by more than\n" +
			"the interval of the differences seed by seed. Then both are replayed on the --report-on part, which the search has\n" +
			"not seen, and the new ones are recommended only where they are better there, too.\n\n" +
			"--output writes what is to be run: the new settings where they are recommended, the given ones otherwise. Exit\n" +
			"status 4 says that those do not hold --attainment on the report part. Ctrl-C shows what was found until then.\n\n" +
			"   plimsoll planner tune --trace azure.csv --to-rate 40 --profile profiling_results --max-gpu-budget 64 --output planner.yaml\n" +
			"   plimsoll planner tune --config planner.yaml --trace azure.csv --fit-on 0s..30m --report-on 30m..1h --tune headroom=0.5..3,scale-down-after=1m..15m --budget 100",
		Flags:  tuneFlags(),
		Action: tunePlanner,
	}
}

func tunePlanner(c *cli.Context) error {
	one, err := oneDeployment(c)
	if err != nil {
		return err
	}
	arguments, _ := c.App.Metadata[argumentsKey].([]string)
	o, err := parseTune(one, arguments)
	if err != nil {
		return err
	}
	say, done := progressLine(c)
	say("reading the load")
	t, err := newTuning(o)
	ctx := c.Context
	if err == nil {
		err = endsItself(ctx)
	}
	if err != nil {
		done()
		return err
	}
	err = t.run(ctx, say)
	done()
	if err != nil && (ctx.Err() == nil || t.found.Trials == 0) {
		return err
	}
	return t.show(c, err == nil)
}

// show prints what was found, and writes the settings where that was asked for.
func (t tuning) show(c *cli.Context, whole bool) error {
	file := t.file(whole)
	if !c.Bool("quiet") {
		for _, w := range file.Warnings {
			say(c.App.ErrWriter, "warning", "%s", w.Message)
		}
	}
	var b bytes.Buffer
	var err error
	if c.String("format") == "json" {
		err = printJSON(&b, file)
	} else {
		t.text(&b, file)
	}
	if err == nil {
		_, err = c.App.Writer.Write(b.Bytes())
	}
	switch {
	case err != nil:
		return fmt.Errorf("printing the result: %w", err)
	case !whole:
		return context.Canceled
	}
	if t.options.output != "" {
		if err := t.write(file); err != nil {
			return err
		}
		what := map[bool]string{true: "the tuned settings", false: "the default settings"}[file.Recommended]
		if err := sayWritten(c, t.options.output+": "+what); err != nil {
			return err
		}
	}
	if !file.Holds {
		return &infeasibleError{fmt.Sprintf("the settings do not hold %g %% on the report part", 100*t.options.target)}
	}
	return nil
}

// write writes the configuration file.
func (t tuning) write(file tuneFile) error {
	body, err := t.config(file)
	if err != nil {
		return err
	}
	return store.WriteFile(t.options.output, body)
}
