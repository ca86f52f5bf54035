package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/field"
	"plimsoll/interpolation"
	"plimsoll/profile"
	"plimsoll/profile/store"
	"plimsoll/recommend"
	"plimsoll/sweep"
)

// profileName is the command's.
const profileName = "profile-sla"

func profileCommand() *cli.Command {
	return &cli.Command{
		Name:  profileName,
		Usage: "measure which layout of an engine carries most load per GPU within an SLA",
		Description: "Launches the engine at each layout (TP; for mixtures of experts TEP and DEP), sweeps TTFT and ITL, picks the best\n" +
			"throughput per GPU under the SLA, writes NPZ surfaces, plots and recommendation.json. What follows -- goes to\n" +
			"the engine's own program.\n\n" +
			"   plimsoll profile-sla --isl 3000 --osl 150 --ttft 200 --itl 20\n" +
			"   plimsoll profile-sla --engine vllm --model Qwen/Qwen3-8B --isl 3000 --osl 150 --ttft 200 --itl 20 \\\n" +
			"     -- --max-model-len 8192\n" +
			"   plimsoll profile-sla --model Qwen/Qwen3-8B --isl 3000 --osl 150 --ttft 200 --itl 20 \\\n" +
			"     --command 'vllm serve {{.Model}} --tensor-parallel-size {{.TP}} --port {{.Port}}'\n" +
			"\n--config takes a file of these flags, or a graph or DynamoGraphDeployment of Dynamo's.\n\n" +
			"Exit status: 0 done, 1 failed, 2 wrong usage, 4 nothing meets the SLA, 130 interrupted.",
		Flags:       profileFlags(),
		Action:      profileAction,
		Subcommands: []*cli.Command{importCommand(), profileManifestCommand()},
	}
}

func profileAction(c *cli.Context) error {
	o, err := parseProfile(c)
	if err != nil {
		return err
	}
	cat, err := catalog.Load(o.catalog)
	if err != nil {
		return err
	}
	if err := o.checkResults(); err != nil {
		return err
	}
	dep, err := resolve(&o, cat, localGPUs(c.Context))
	if err != nil {
		return err
	}
	if err := dep.refuseFlags(c); err != nil {
		return err
	}
	if err := dep.checkContext(o); err != nil {
		return err
	}
	cands, skips, err := dep.candidates(o)
	if err != nil {
		return err
	}
	if cands, err = dep.withChunks(o, cands); err != nil {
		return err
	}
	dep.warnings = slices.Concat(dep.warnings, dep.kvWarnings(o, cands), dep.layoutWarnings(cands))
	ui := newConsole(c, o)
	ui.deployment(dep)
	so := sweepOptions(o, dep, cands)
	ui.quickPlan(o, dep, so)
	ui.preflight(dep.preflight(o))
	if o.dryRun {
		return ui.plan(o, dep, so, skips)
	}
	if err := endsItself(c.Context); err != nil {
		return err
	}
	return profileRun(c.Context, o, dep, so, skips, ui)
}

// sweepOptions fills in what the kind of engine decides: an endpoint is never
// overloaded.
func sweepOptions(o profileOptions, d deployment, cands []engine.Config) sweep.Options {
	so := sweep.Options{
		Candidates: cands, ISL: o.isl, OSL: o.osl, SLA: o.sla, Rank: o.rank, Search: o.search,
		PrefillRequests: sweep.SamplesFor(o.sla.Stat), PrefillWarmups: 2, SurfaceRequests: 3,
		PrefillGranularity: cmp.Or(o.prefillGranularity, 16), DecodeGranularity: cmp.Or(o.decodeGranularity, 6),
		SurfaceOSL: 100, MaxContext: o.maxContext, MaxInFlight: o.maxInFlight,
		RequestTimeout: o.requestTimeout, Seed: o.seed, Now: time.Now, Expect: d.expect,
		Open: o.openLoop(d), Failing: d.failing,
	}
	if d.modelled() {
		so.MaxContext, so.Virtual, so.VirtualSurfaces = simContext(o, *d.model), d.kind == engine.KindEstimate, o.surfacesVirtually(d.kind)
	}
	if so.MaxContext == 0 && d.model != nil {
		so.MaxContext = d.model.MaxContext
	}
	if d.kind == engine.KindEndpoint && o.maxContext == 0 && o.search == sweep.Adaptive {
		so.MostContext = max(quickReach, o.isl+max(o.osl, 100))
	}
	if d.gpu != nil {
		so.GPUMemory = d.gpu.MemoryBytes
	}
	if d.model != nil && d.gpu != nil {
		so.Peak = func(c engine.Config) float64 {
			flops, _ := d.gpu.FLOPS(c.Weights)
			return interpolation.PeakTokens(interpolation.Facts{Params: float64(d.model.ActiveParams), PeakFLOPS: flops})
		}
	}
	if o.maxTime > 0 {
		so.Deadline = time.Now().Add(o.maxTime)
	}
	return so
}

// profileRun sweeps into an output folder and leaves it complete.
func profileRun(ctx context.Context, o profileOptions, dep deployment, so sweep.Options, skips []profile.Skip, ui *console) (err error) {
	defer func() { err = withRoom(err, o.dir) }()
	l := launcherOf(o, dep, ui)
	if dep.kind == engine.KindEndpoint { // before a folder is taken for it
		if state, err := store.Inspect(o.dir); err == nil && state == store.OurRun && !o.force && !o.resume {
			return folderError(fmt.Errorf("%s: %w", o.dir, store.ErrOtherRun))
		}
		if so.Candidates[0].Parallelism, err = o.tryServer(ctx, newLauncher(o, dep, ui.verbosef), so); err != nil {
			return err
		}
	}
	j, err := openJob(o, dep)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.close()) }()
	ui.resumed(j)
	progress, stopBar := ui.progress()
	res, err := sweep.Run(ctx, so, l, j, j.known, progress)
	stopBar()
	res.Skips = append(append([]profile.Skip{}, skips...), res.Skips...)
	stopped := err != nil && ctx.Err() != nil && res.Settled
	if err != nil && !stopped {
		return j.abandon(ctx, res, err, ui)
	}
	out, err := j.finish(res, so)
	if err != nil {
		return err
	}
	if stopped {
		return errors.Join(ui.result(out), stoppedAfter(res, o.sla))
	}
	if err := errors.Join(ui.result(out), o.publish(ctx, ui)); err != nil {
		return err
	}
	if ch := res.Aggregated; ch.Open(o.sla) {
		return undecidedRate(res, o)
	}
	return unmet(out.rec)
}

// undecidedRate is the error of a search that could neither name a rate nor rule all out.
func undecidedRate(res sweep.Result, o profileOptions) error {
	err, b := errors.New(res.Aggregated.Why), *res.Aggregated.Picked.Bracket
	if recommend.Silent(res.Points) != "" {
		return err
	}
	needs, how := max(b.Needs(o.sla.Stat), time.Minute), "--resume"
	if o.maxTime > 0 {
		how += " --max-time " + shortTime(o.maxTime+needs)
	}
	if b.Failures > 0 {
		return field.WithHint(err, "see the server's log for why requests fail, then run the same command with %s; or allow more of them: --force --max-failures SHARE", how)
	}
	return field.WithHint(err, "about %s of load would decide: the same command with %s", shortTime(needs), how)
}

// shortTime is a time in whole minutes as flags take it: 12m.
func shortTime(d time.Duration) string {
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}

// stoppedAfter is the error of a run that was stopped, with what is known unless a card says it.
func stoppedAfter(res sweep.Result, sla profile.SLA) error {
	text := "stopped after " + engine.Count(len(res.Points), "point")
	for _, c := range []recommend.Choice{res.Prefill, res.Decode, res.Aggregated} {
		if far := c.SoFar(sla); far != "" && !res.Settled {
			text += "; " + far
		}
	}
	if len(res.Points) == 0 {
		return errors.New(text)
	}
	return field.WithHint(errors.New(text), "the same command with --resume continues from there")
}

// unmet is the error of a profile without an answer: nothing was seen to hold, or what
// did missed under load at every rate that was tried.
func unmet(rec store.Recommendation) error {
	if rec.Feasible {
		return nil
	}
	for _, a := range rec.Verified.All() {
		if !a.Holds {
			return &infeasibleError{msg: "no rate found at which the pick holds the SLA under load"}
		}
	}
	return &infeasibleError{msg: "nothing meets the SLA"}
}

// launcherOf is what starts engines of the deployment's kind.
func launcherOf(o profileOptions, d deployment, ui *console) sweep.Launcher {
	if d.kind == engine.KindEstimate {
		return estimator{opts: o, dep: d}
	}
	return newLauncher(o, d, ui.verbosef)
}

// abandon keeps what is known of a run that did not end, and says how to go on.
func (j *job) abandon(ctx context.Context, res sweep.Result, cause error, ui *console) error {
	if errors.Is(cause, sweep.ErrOtherEngine) { // nothing of it is kept
		return field.Errorf("--resume: %v", cause).Hint("resume with the same engine, or start over with --force, which moves this run aside")
	}
	leave, resume := func() error { return j.leave(res, ctx.Err() != nil) }, " with --resume"
	if len(res.Points) == 0 && j.dep.kind == engine.KindEndpoint { // there is nothing to go on from, nor an engine's log
		leave, resume = j.dir.Clear, ""
	}
	if err := leave(); err != nil {
		return errors.Join(cause, err)
	}
	switch {
	case ctx.Err() != nil:
		return stoppedAfter(res, j.opts.sla)
	case errors.Is(cause, sweep.ErrNothing) && res.Partial != "":
		ui.unusable(res)
		return field.WithHint(cause, "choose a longer --max-time and run the same command%s (kept: %s)", resume, engine.Count(len(res.Points), "point"))
	case errors.Is(cause, sweep.ErrNothing):
		ui.unusable(res)
		ui.warn(pointCaveats(res.Points)) // why they cannot be picked
		if errors.Is(cause, recommend.ErrUndecided) {
			return field.WithHint(cause, "raise --osl for more samples, or choose a lower percentile or the mean (--sla-stat)")
		}
		if j.dep.kind == engine.KindEstimate { // nothing to mend
			return cause
		}
		if j.dep.kind == engine.KindEndpoint { // its logs are elsewhere
			return field.WithHint(cause, "fix the server, then run the same command%s", resume)
		}
		logs := fmt.Sprintf("engine logs are in %s/engines; fix the cause, then continue with --resume", j.dir.Path)
		return &field.Failure{Err: cause, Hints: append([]string{logs}, startHints(j.dep.kind, res.Skips)...)}
	case errors.Is(cause, sweep.ErrGone), errors.Is(cause, sweep.ErrOverload):
		return field.WithHint(cause, "%s (%s kept)", j.opts.failingHint(cause), engine.Count(len(res.Points), "point"))
	}
	return cause
}

// assumptions are printed and stored with every result.
func assumptions(o profileOptions, kind engine.Kind) []string {
	as := []string{
		fmt.Sprintf("every request has ISL %d and OSL %d", o.isl, o.osl),
		"every prompt is new to the engine (no KV reuse)",
		"prefill and decode run on separate engines",
		"TTFT covers prefill only, without KV transfer and the first decode step",
		"sustained prefill load: Poisson arrivals at one engine's queue (M/G/1); waiting prompts share a step if that was measured",
	}
	if o.surfacesVirtually(kind) {
		as = append(as, "surfaces are those of the same engine in virtual time")
	}
	return as
}
