package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"plimsoll/engine"
	"plimsoll/profile"
	"plimsoll/sweep"
)

// console prints what a profile has to say: results on out, everything else on
// err as "plimsoll: note: …". A progress bar appears on a terminal only.
type console struct {
	out, err io.Writer
	opts     profileOptions
	terminal bool
}

func newConsole(c *cli.Context, o profileOptions) *console {
	u := &console{out: c.App.Writer, err: c.App.ErrWriter, opts: o}
	if f, ok := u.err.(*os.File); ok {
		u.terminal = term.IsTerminal(int(f.Fd())) //nolint:gosec // a file descriptor is small
	}
	return u
}

func (u *console) notef(format string, args ...any) {
	if !u.opts.quiet {
		fmt.Fprintf(u.err, "plimsoll: note: "+format+"\n", args...)
	}
}

func (u *console) verbosef(format string, args ...any) {
	if u.opts.verbose {
		u.notef(format, args...)
	}
}

func (u *console) warn(ws []profile.Warning) {
	for _, w := range ws {
		fmt.Fprintf(u.err, "plimsoll: warning: %s\n", w.Message)
	}
}

// deployment says what will be profiled, and loudly so where it is not real.
func (u *console) deployment(d deployment) {
	for _, n := range d.notes {
		u.notef("%s", n)
	}
	u.warn(d.warnings)
	if d.provenance != profile.Measured {
		// Never silent, not even with --quiet: such a number may cost somebody GPUs.
		fmt.Fprintf(u.err, "plimsoll: warning: %s: no GPU is measured; the numbers are those of %s\n",
			strings.ToUpper(d.provenance.String()), d.describe())
	}
}

// describe is the deployment in one phrase.
func (d deployment) describe() string {
	what := "the engine at the endpoint"
	switch d.kind {
	case engine.KindSim:
		what = "the embedded engine"
	case engine.KindCommand:
		what = "the engine"
	}
	name := d.modelName
	if name == "" {
		name = "its model"
	}
	gpu := d.gpuName
	if gpu == "" {
		gpu = "GPU"
	}
	return fmt.Sprintf("%s, %s on %d × %s", what, name, d.gpuCount, gpu)
}

// quickNote says in what the embedded engine's default plan is smaller than the
// full one; empty where it is not.
func quickNote(o profileOptions, d deployment, so sweep.Options) string {
	if d.kind != engine.KindSim {
		return ""
	}
	var parts, flags []string
	if o.islPoints == 0 {
		parts = append(parts, fmt.Sprintf("%d of 16 prompt lengths", so.PrefillGranularity))
		flags = append(flags, "--prefill-interpolation-granularity 16")
	}
	if o.cells == 0 {
		parts = append(parts, fmt.Sprintf("%d × %d of 6 × 6 decode points", so.DecodeGranularity, so.DecodeGranularity))
		flags = append(flags, "--decode-interpolation-granularity 6")
	}
	if o.maxContext == 0 && so.MaxContext < d.model.MaxContext {
		parts = append(parts, fmt.Sprintf("contexts up to %d of %d tokens", so.MaxContext, d.model.MaxContext))
		flags = append(flags, fmt.Sprintf("--max-context-length %d", d.model.MaxContext))
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("the embedded engine's surfaces have fewer points: %s (all: %s)", strings.Join(parts, ", "), strings.Join(flags, " "))
}

func (u *console) quickPlan(o profileOptions, d deployment, so sweep.Options) {
	if n := quickNote(o, d, so); n != "" {
		u.notef("%s", n)
	}
}

// progress gives the sweep's callback and what ends the bar.
func (u *console) progress() (report func(sweep.Progress), stop func()) {
	if u.opts.quiet || !u.terminal {
		return u.logProgress(), func() {}
	}
	bar := progressbar.NewOptions(1000,
		progressbar.OptionSetWriter(u.err), progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false),
		progressbar.OptionSetWidth(16), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetRenderBlankState(true), progressbar.OptionSetDescription("starting"))
	report = func(p sweep.Progress) {
		bar.Describe(describeProgress(p))
		ignoreTerminal(bar.Set(int(p.Share * 999)))
	}
	return report, func() { ignoreTerminal(bar.Finish()) }
}

// ignoreTerminal drops an error of drawing the bar: a broken terminal must not
// end a measurement.
func ignoreTerminal(error) {}

// logProgress prints a line per point with --verbose where there is no terminal.
func (u *console) logProgress() func(sweep.Progress) {
	return func(p sweep.Progress) { u.verbosef("%s", describeProgress(p)) }
}

func describeProgress(p sweep.Progress) string {
	s := p.Text
	if p.Remaining > 0 {
		s += fmt.Sprintf(", about %s left", p.Remaining.Round(time.Second))
	}
	return s
}

func (u *console) skips(skips []profile.Skip) {
	for _, s := range skips {
		phase := ""
		if s.Phase != "" {
			phase = string(s.Phase) + " "
		}
		fmt.Fprintf(u.err, "plimsoll: warning: %s%s: %s\n", phase, s.Label, strings.ReplaceAll(s.Reason, "\n", "\n    "))
	}
}

// planJSON is a plan as --format json prints it.
type planJSON struct {
	Provenance profile.Provenance `json:"provenance"`
	Deployment string             `json:"deployment"`
	Steps      []stepJSON         `json:"steps"`
	LeftOut    []profile.Skip     `json:"left_out"`
	Output     string             `json:"output"`
}

type stepJSON struct {
	Stage    profile.Stage `json:"stage"`
	Phase    profile.Phase `json:"phase"`
	Label    string        `json:"label,omitempty"` // empty for the pick's
	Points   int           `json:"max_points"`
	Requests int           `json:"max_requests"`
	Expected float64       `json:"expected_seconds,omitempty"` // 0 = unknown
}

func newPlanJSON(d deployment, steps []sweep.Step, skips []profile.Skip, output string) planJSON {
	p := planJSON{Provenance: d.provenance, Deployment: d.describe(), LeftOut: append([]profile.Skip{}, skips...), Output: output}
	for _, s := range steps {
		j := stepJSON{Stage: s.Stage, Phase: s.Phase, Label: s.Label, Points: s.Points, Requests: s.Requests}
		if s.Known {
			j.Expected = s.Expected.Seconds()
		}
		p.Steps = append(p.Steps, j)
	}
	return p
}

// plan prints what would be done, and starts nothing.
func (u *console) plan(o profileOptions, d deployment, so sweep.Options, skips []profile.Skip) error {
	steps := sweep.Plan(so)
	output, err := outputState(o.dir)
	if err != nil {
		return usagef("--output-dir %s: %v", o.dir, err)
	}
	if o.format == "json" {
		return printJSON(u.out, newPlanJSON(d, steps, skips, output))
	}
	fmt.Fprintf(u.out, "Plan for %s (%s): nothing is started\n\n", d.describe(), d.provenance)
	t := newTable("stage", "phase", "configuration", "launches", "points ≤", "requests ≤", "time about")
	points, requests, total, known := 0, 0, time.Duration(0), true
	for _, s := range steps {
		label, cost := s.Label, "unknown"
		if label == "" {
			label = "the pick"
		}
		if s.Known {
			cost = s.Expected.Round(100 * time.Millisecond).String()
		}
		t.row(string(s.Stage), string(s.Phase), label, "1", itoa(s.Points), itoa(s.Requests), cost)
		points, requests, total, known = points+s.Points, requests+s.Requests, total+s.Expected, known && s.Known
	}
	cost := "unknown: no latency model for this model and GPU"
	if known {
		cost = "about " + total.Round(time.Second).String() + " without the engines' own start-up (estimated)"
	}
	t.row("", "", "in all", itoa(len(steps)), itoa(points), itoa(requests), "")
	err = t.write(u.out, "")
	fmt.Fprintf(u.out, "\nTime: %s\n", cost)
	for _, s := range skips {
		fmt.Fprintf(u.out, "Left out: %s: %s\n", s.Label, s.Reason)
	}
	fmt.Fprintf(u.out, "Output: %s\n", output)
	return err
}
