package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"plimsoll/engine"
	"plimsoll/profile"
	"plimsoll/profile/store"
	"plimsoll/sweep"
)

// console prints what a profile has to say: results on out, everything else on
// err as "plimsoll: note: …". A progress bar appears on a terminal only.
type console struct {
	out, err io.Writer
	opts     profileOptions
	terminal bool
	notes    []string // for --details
}

func newConsole(c *cli.Context, o profileOptions) *console {
	_, terminal := terminalOf(c)
	return &console{out: c.App.Writer, err: c.App.ErrWriter, opts: o, terminal: terminal}
}

func (u *console) notef(format string, args ...any) {
	if !u.opts.quiet {
		say(u.err, "note", format, args...)
	}
}

// say prints one message to stderr. A failure there has nowhere to be told.
func say(w io.Writer, kind, format string, args ...any) {
	_, _ = fmt.Fprintf(w, "plimsoll: %s: %s\n", kind, fmt.Sprintf(format, args...))
}

// later keeps a note for --details.
func (u *console) later(format string, args ...any) {
	u.notes = append(u.notes, fmt.Sprintf(format, args...))
	u.verbosef(format, args...)
}

func (u *console) verbosef(format string, args ...any) {
	if u.opts.verbose {
		u.notef(format, args...)
	}
}

func (u *console) warn(ws []profile.Warning) {
	if u.opts.quiet {
		return
	}
	for _, w := range ws {
		say(u.err, "warning", "%s", w.Message)
	}
}

// deployment says what will be profiled, and loudly so where it is not real. What is to
// be heeded comes with the answer; before a run that takes long it comes first, too.
func (u *console) deployment(d deployment) {
	for _, n := range d.notes {
		u.notef("%s", n)
	}
	if d.weights.Note != "" {
		u.later("%s", d.weights.Note)
	}
	if u.opts.dryRun || !d.modelled() {
		u.warn(d.warnings)
	}
	if d.provenance != profile.Measured && !u.opts.quiet {
		say(u.err, "warning", "%s: no GPU is measured. The numbers come from %s",
			strings.ToUpper(d.provenance.String()), d.describe())
	}
}

// describe is the deployment in one phrase.
func (d deployment) describe() string {
	what := map[engine.Kind]string{
		engine.KindSim: "the embedded engine", engine.KindEstimate: "the latency model", engine.KindEndpoint: "the engine at the endpoint",
	}[d.kind]
	return fmt.Sprintf("%s, %s on %d × %s", cmp.Or(what, "the engine"), cmp.Or(d.modelName, "its model"), d.gpuCount, cmp.Or(d.gpuName, "GPU"))
}

// quickPlan says how far surfaces reach where that may be less than the model's context.
func (u *console) quickPlan(o profileOptions, d deployment, so sweep.Options) {
	if so.MostContext > 0 {
		u.later("the surfaces hold contexts up to %d tokens (more: --max-context-length)", so.MostContext)
	}
	if d.modelled() && o.maxContext == 0 && so.MaxContext < d.model.MaxContext {
		u.later("the surfaces hold contexts up to %d of %d tokens (all: --max-context-length %d)", so.MaxContext, d.model.MaxContext, d.model.MaxContext)
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

// logProgress says where a long run stands in a log: now and then, or with --verbose at
// each point.
func (u *console) logProgress() func(sweep.Progress) {
	last := time.Now()
	return func(p sweep.Progress) {
		if now := time.Now(); now.Sub(last) >= time.Minute && !u.opts.verbose {
			last = now
			u.notef("at %s", describeProgress(p))
			return
		}
		u.verbosef("%s", describeProgress(p))
	}
}

func describeProgress(p sweep.Progress) string {
	s := p.Text
	if p.Remaining > 0 {
		s += fmt.Sprintf(", about %s left", p.Remaining.Round(time.Second))
	}
	return s
}

// unusable says why there is nothing to pick from.
func (u *console) unusable(res sweep.Result) {
	for _, s := range res.Skips {
		say(u.err, "warning", "%s: %s", strings.TrimSpace(string(s.Phase)+" "+s.Label), strings.ReplaceAll(s.Reason, "\n", "\n    "))
	}
	for _, r := range append(res.Prefill.Rejected, res.Decode.Rejected...) {
		say(u.err, "warning", "%s %s at %.0f in flight: %s", r.Phase, r.Label, r.InFlight, r.Reason)
	}
}

// resumed says what a resumed run starts from.
func (u *console) resumed(j *job) {
	for _, n := range j.damaged {
		say(u.err, "warning", "%s:%d is damaged and will be measured again", filepath.Join(j.dir.Path, store.JournalFile), n)
	}
	n := 0
	for _, p := range j.known.Points {
		if p.Discarded == "" {
			n++
		}
	}
	if n > 0 {
		u.notef("resuming: %s known", engine.Count(n, "point"))
	}
}

// progressLine is a line on stderr that says what is under way; none where nobody
// watches.
func progressLine(c *cli.Context) (say func(what string), done func()) {
	f, ok := terminalOf(c)
	if !ok || c.Bool("quiet") {
		return func(string) {}, func() {}
	}
	bar := progressbar.NewOptions(-1, progressbar.OptionSetWriter(f), progressbar.OptionClearOnFinish(),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetElapsedTime(false))
	say = func(what string) {
		if c.Err() != nil {
			return // the command may be abandoned, and its line cleared
		}
		bar.Describe(what)
		ignoreTerminal(bar.Add(1))
	}
	return say, func() { ignoreTerminal(bar.Finish()) }
}

// terminalOf is the terminal behind stderr, if there is one.
func terminalOf(c *cli.Context) (*os.File, bool) {
	f, ok := fileOf(c.App.ErrWriter)
	return f, ok && term.IsTerminal(int(f.Fd())) //nolint:gosec // a file descriptor is small
}
