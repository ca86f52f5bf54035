package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/planner"
	"plimsoll/planner/policy"
	"plimsoll/planner/serve"
	"plimsoll/profile"
)

func plannerCommand() *cli.Command {
	return &cli.Command{
		Name: "planner", Usage: "keep a deployment within its SLA",
		Subcommands: []*cli.Command{plannerServeCommand(), plannerReplayCommand(), plannerClientCommand(), plannerManifestCommand()},
	}
}

func plannerServeCommand() *cli.Command {
	return &cli.Command{
		Name: "serve", Usage: "an autoscaler: observes, decides by a profile, scales, and says why",
		Description: "Every interval it looks at the deployment's traffic, forecasts, and asks for the replicas that keep the SLA\n" +
			"within the GPU budget. With --no-operation it only says what it would do. SIGHUP reads --config again: SLA,\n" +
			"bounds, budget and no-operation change at once, other keys with a restart.\n\n" +
			"   plimsoll planner serve --profile profiling_results --environment kubernetes --deployment my-graph --prometheus-endpoint http://prometheus:9090 --no-operation\n" +
			"   plimsoll planner serve --config planner.yaml",
		Flags:  plannerFlags(),
		Action: servePlanner,
	}
}

// plannerUnit is one deployment being planned for.
type plannerUnit struct {
	settings plannerSettings
	runner   *serve.Runner
	run      []func(context.Context) error // beside the runner: what its target and source need
	close    []func() error
	// elect runs the runner while this process leads; nil: there is no election.
	elect func(ctx context.Context, run func(context.Context) error) error
	lease string // by which; empty: none
	reads bool   // its target cannot scale
}

func servePlanner(c *cli.Context) error {
	file, err := readPlannerFile(c.String("config"))
	if err != nil {
		return err
	}
	contexts, err := file.contexts(c)
	if err != nil {
		return err
	}
	if err := endsItself(c.Context); err != nil {
		return err
	}
	whole := contexts[0] // whose flags of the whole process are those of any
	out, err := openOutputs(whole)
	if err != nil {
		return err
	}
	defer out.close()
	var settings []plannerSettings
	for _, one := range contexts {
		s, err := parsePlanner(one)
		if err != nil {
			return err
		}
		settings = append(settings, s)
	}
	var shared *serve.Budget
	if gpus, ok, err := file.sharedGPUs(c, settings); err != nil {
		return err
	} else if ok {
		shared = serve.NewBudget(gpus)
	}
	var units []*plannerUnit
	defer func() {
		for _, u := range units {
			for _, f := range u.close {
				out.complain(f())
			}
		}
	}()
	for i, one := range contexts {
		u, err := newPlannerUnit(one, settings[i], shared, out)
		if u != nil {
			units = append(units, u)
		}
		if err != nil {
			return err
		}
	}
	if err := namesDiffer(units); err != nil {
		return err
	}
	site, err := openSite(whole, units, out)
	if err != nil {
		return err
	}
	return runPlanner(c, units, shared, site, out)
}

// sharedGPUs is the budget of several deployments: the file's, or where it gives none that of
// local workers, all devices that these may have. It refuses one that leaves a deployment
// without a working pair. ok is false where there is none.
func (f plannerFile) sharedGPUs(c *cli.Context, settings []plannerSettings) (gpus int, ok bool, err error) {
	gpus, given, err := f.sharedBudget(c)
	if err != nil || len(f.deployments) == 0 || given && gpus < 0 {
		return 0, false, err
	}
	bad, hint := "max-gpu-budget", "a larger max-gpu-budget, or fewer deployments"
	var names, devices []string
	var of []planner.Deployment
	for _, s := range settings {
		names, of, devices = append(names, s.name), append(of, s.deployment), append(devices, s.devices()...)
		if !given && len(s.devices()) == 0 {
			return 0, false, nil
		}
	}
	if !given {
		slices.Sort(devices)
		gpus = len(slices.Compact(devices))
		bad, hint = "the deployments share the GPUs of this machine", "more of --slots or --gpus, or fewer deployments; or max-gpu-budget beside deployments"
	}
	if err := planner.PairsFit(gpus, names, of); err != nil {
		return 0, false, field.Errorf("%s: %v", bad, err).Hint("%s", hint)
	}
	return gpus, true, nil
}

func namesDiffer(units []*plannerUnit) error {
	seen, files, leases := map[string]bool{}, map[string]string{}, map[string]string{}
	for _, u := range units {
		name, file := u.settings.name, u.settings.stateFile
		if seen[name] {
			return field.Errorf("two deployments are of the namespace %q: each needs its own", name)
		}
		if other, ok := files[file]; ok && file != "" && file != "none" {
			return field.Errorf("--state-file %s is of both %s and %s: each deployment needs its own", file, other, name).
				Hint("without --state-file each has one")
		}
		if other, ok := leases[u.lease]; ok && u.lease != "" {
			return field.Errorf("%s and %s have the same --lease %s, so only one of them would act", other, name, u.lease).
				Hint("lease: among each deployment's own keys")
		}
		seen[name], files[file], leases[u.lease] = true, name, name
	}
	return nil
}

// scalingTimeout is how long a blocking planner waits for a scaling.
const scalingTimeout = 30 * time.Minute

// newPlannerUnit wires one deployment. The unit is to be closed after an error,
// too, where there is one.
func newPlannerUnit(c *cli.Context, s plannerSettings, shared *serve.Budget, out *plannerOutputs) (*plannerUnit, error) {
	switch {
	case s.surfaces.dir != "":
	case !s.advise && !c.IsSet("policy"):
		which := "thresholds"
		if s.load == policy.DefaultLoad() {
			which = "default thresholds"
		}
		say(out.err, "warning", "%s: no --profile: replicas follow the %s of --policy load, on queue (%g, %g) and KV use (%g, %g), and no SLA", s.name, which, s.load.QueueUp, s.load.QueueDown, s.load.KVUp, s.load.KVDown)
		say(out.err, "hint", "give --profile DIR of profile-sla, or --policy load to choose this")
	case !out.quiet:
		say(out.err, "note", "%s: without --profile the policy is load: it scales by thresholds on queue (%g, %g) and KV use (%g, %g), and knows no SLA", s.name, s.load.QueueUp, s.load.QueueDown, s.load.KVUp, s.load.KVDown)
	}
	for _, w := range profile.Implausible(s.surfaces.caveats(s.deployment.SLA.Stat)) {
		say(out.err, "warning", "%s: %s", s.name, w.Message)
	}
	if sla := s.deployment.SLA; s.promise != "" && s.policy != "load" && !out.quiet {
		say(out.err, "note", "%s: keeps TTFT %g ms and ITL %g ms: %s", s.name, profile.Milliseconds(sla.TTFT), profile.Milliseconds(sla.ITL), s.promise)
	}
	if s.policy == "default" && !out.quiet {
		say(out.err, "note", "%s: %s", s.name, s.startUpWords(c.IsSet("startup-time")))
	}
	if s.allDevices && !out.quiet {
		say(out.err, "note", "%s: at most %s, all that its workers may have. --max-gpu-budget sets another bound", s.name, engine.Count(s.deployment.Budget.Max, "GPU"))
	}
	core, err := s.core(time.Now())
	if err != nil {
		return nil, err
	}
	path, err := s.statePath()
	if err != nil {
		return nil, err
	}
	u := &plannerUnit{settings: s}
	target, err := u.target(c, out)
	if err != nil {
		return u, err
	}
	source, err := u.source(c, out)
	if err != nil {
		return u, err
	}
	pace := s.pace()
	o := serve.Options{
		Name: s.name, Model: s.model, Source: source, Target: target, Core: core, Profile: s.surfaces.id, Interval: pace.Every, Pull: s.pull, Blocking: pace.Blocking, Steady: pace.Steady,
		ScalingTimeout: pace.Timeout, CallTimeout: min(30*time.Second, max(s.pull, 10*time.Second)), StartTimeout: s.startTimeout,
		Budget: shared, Priority: s.priority, Weight: s.weight, Advise: s.advise, StatePath: path, On: out.take, Lead: u.elect,
	}
	if u.runner, err = serve.New(o); err != nil {
		return u, field.Errorf("%v", err)
	}
	return u, nil
}

// statePath is where the deployment remembers, checked before anything is begun;
// empty: nowhere.
func (s plannerSettings) statePath() (string, error) {
	path, err := s.stateName()
	if err != nil || path == "" {
		return "", err
	}
	if err := serve.CheckState(path, s.name); err != nil {
		return "", field.Errorf("--state-file: %v", err).Hint("%s; or a FILE in a folder that can be written", stateAdvice)
	}
	return path, nil
}

// stateAdvice is for a state file that cannot be taken up.
const stateAdvice = "move it away to start over; --state-file none keeps no state"

// stateName is --state-file, or one of the deployment's own in the user's state
// folder.
func (s plannerSettings) stateName() (string, error) {
	switch s.stateFile {
	case "none":
		return "", nil
	case "":
	default:
		return s.stateFile, nil
	}
	base := os.Getenv("XDG_STATE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", field.Errorf("there is no home directory for the state file: %v", err).Hint("--state-file FILE, or --state-file none")
		}
		base = filepath.Join(home, ".local", "state")
	}
	dir := filepath.Join(base, "plimsoll")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", field.WithHint(fmt.Errorf("the folder of the state file: %w", err), "--state-file FILE, or --state-file none")
	}
	return filepath.Join(dir, "planner-"+s.name+".json"), nil
}

// runPlanner runs everything until the first failure or a signal; replicas stay.
func runPlanner(c *cli.Context, units []*plannerUnit, shared *serve.Budget, site *plannerSite, out *plannerOutputs) error {
	ctx, cancel := context.WithCancelCause(c.Context)
	defer cancel(nil)
	var all sync.WaitGroup
	launch := func(run func(context.Context) error) {
		all.Go(func() {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				cancel(err)
			}
		})
	}
	for _, u := range units {
		launch(u.runner.Run)
		for _, f := range u.run {
			launch(f)
		}
	}
	if site != nil {
		launch(site.serve)
	}
	launch(func(ctx context.Context) error { return reloads(ctx, c, units, shared, out) })
	<-ctx.Done()
	all.Wait()
	err := context.Cause(ctx)
	if errors.As(err, new(*serve.StateFileError)) {
		return field.Errorf("--state-file: %v", err).Hint(stateAdvice)
	}
	if !errors.Is(err, context.Canceled) {
		return err
	}
	return nil // told to stop: replicas stay as they are, which is not a failure
}

// reloads reads the configuration again at every SIGHUP.
func reloads(ctx context.Context, c *cli.Context, units []*plannerUnit, shared *serve.Budget, out *plannerOutputs) error {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hup:
			if err := reload(c, units, shared); err != nil {
				out.complain(fmt.Errorf("the configuration is unchanged: %w", err))
			}
		}
	}
}

// reload checks all deployments before it changes the first.
func reload(c *cli.Context, units []*plannerUnit, shared *serve.Budget) error {
	file, err := readPlannerFile(c.String("config"))
	if err != nil {
		return err
	}
	if file.path != "" && len(file.common)+len(file.deployments) == 0 { // an editor that is about to write it leaves it so for a moment
		return fmt.Errorf("--config %s says nothing: all settings would become the defaults", file.path)
	}
	contexts, err := file.contexts(c)
	if err != nil {
		return err
	}
	if len(contexts) != len(units) {
		return fmt.Errorf("%d deployments became %d, which needs a restart", len(units), len(contexts))
	}
	var now []plannerSettings
	for i, one := range contexts {
		s, err := parsePlanner(one)
		if err != nil {
			return err
		}
		if s.name != units[i].settings.name {
			return fmt.Errorf("deployment %d is %s, was %s, which needs a restart", i, s.name, units[i].settings.name)
		}
		if had := units[i].settings.devices(); !slices.Equal(s.devices(), had) {
			return fmt.Errorf("%s: its workers may have %d GPUs or slots, were %d, which needs a restart", s.name, len(s.devices()), len(had))
		}
		if units[i].reads && !s.advise {
			return fmt.Errorf("%s: its workers are only observed. To scale them, restart with commands that start them", s.name)
		}
		now = append(now, s)
	}
	gpus, ok, err := file.sharedGPUs(c, now)
	if err != nil {
		return err
	}
	if ok != (shared != nil) {
		return errors.New("the shared budget was added or removed, which needs a restart")
	}
	for i, u := range units {
		if err := u.runner.Reset(now[i].deployment, now[i].advise); err != nil {
			return err
		}
	}
	if ok {
		shared.Set(gpus)
	}
	return nil
}
