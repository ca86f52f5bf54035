package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"regexp"
	"strings"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/command"
	"plimsoll/engine/field"
	"plimsoll/engine/kube/cluster"
	"plimsoll/engine/redact"
	"plimsoll/planner"
	"plimsoll/planner/connect/kubernetes"
	"plimsoll/planner/connect/local"
	"plimsoll/planner/connect/virtual"
	"plimsoll/profile/store"
)

// target makes where the deployment's replicas live, and what has to run or be
// closed with it.
func (u *plannerUnit) target(c *cli.Context, out *plannerOutputs) (planner.Target, error) {
	p := &parser{c: c}
	where := p.choice("environment", "local", "kubernetes", "virtual")
	only := func(environment string, flags ...string) {
		p.needs(where == environment, "with --environment "+environment, flags...)
	}
	only("local", "prefill-command", "decode-command", "aggregated-command", "env-from", "ready-path", "ready-timeout", "stop-grace", "idle-after", "gpus", "slots", "prefill-component", "decode-component", "drains-on-term", "stop-workers")
	only("kubernetes", "kubeconfig", "context", "kube-namespace", "deployment", "target", "lease")
	only("virtual", "scaling-max-wait")
	if p.err != nil {
		return nil, p.err
	}
	switch where {
	case "kubernetes":
		return u.kubernetes(p, out)
	case "virtual":
		return u.virtual(p, out)
	default:
		return u.local(p, out)
	}
}

// kubernetes makes the pools of a DynamoGraphDeployment, or objects with a scale
// subresource.
func (u *plannerUnit) kubernetes(p *parser, out *plannerOutputs) (planner.Target, error) {
	config, namespace, err := cluster.Connection{Kubeconfig: p.name("kubeconfig"), Context: p.name("context"), Namespace: p.name("kube-namespace")}.Config()
	if err != nil {
		return nil, field.Errorf("%v", err)
	}
	targets, err := kubeTargets(p.c.StringSlice("target"))
	if err != nil {
		return nil, err
	}
	t, err := kubernetes.New(config, kubernetes.Options{
		Namespace: namespace, Deployment: p.name("deployment"), Targets: targets, Least: u.settings.deployment.Least(),
		Log: slog.New(slog.NewTextHandler(out.err, nil)),
	})
	if err != nil {
		return nil, field.Errorf("%v", err)
	}
	if lease := p.name("lease"); lease != "" {
		u.lease = namespace + "/" + lease
		u.elect = func(ctx context.Context, run func(context.Context) error) error {
			return kubernetes.Election{Namespace: namespace, Name: lease, Log: slog.New(slog.NewTextHandler(out.err, nil))}.Lead(ctx, config, run)
		}
	}
	return t, nil
}

// virtual makes the pools that somebody else scales by what etcd says.
func (u *plannerUnit) virtual(p *parser, out *plannerOutputs) (planner.Target, error) {
	o := virtual.PlannerOptions{
		Options:    etcdOptions(p.c),
		Aggregated: u.settings.deployment.Aggregated(), MaxWait: p.duration("scaling-max-wait"),
		Advise: func() bool { return u.runner.Status().Advise },
		Log:    slog.New(slog.NewTextHandler(out.err, nil)),
	}
	if p.err != nil {
		return nil, p.err
	}
	t, err := virtual.NewPlanner(o)
	if err != nil {
		return nil, field.Errorf("%v", err)
	}
	u.close = append(u.close, t.Close)
	return t, nil
}

// local makes worker processes of this machine.
func (u *plannerUnit) local(p *parser, out *plannerOutputs) (planner.Target, error) {
	if u.settings.advise && !p.anyWorkerCommand() {
		u.reads = true
		return u.reader(out)
	}
	o := local.Options{
		Namespace: u.settings.name, GPUs: u.settings.gpus, Slots: u.settings.slots, Pools: u.localPools(p), IdleAfter: p.duration("idle-after"), Secrets: append(p.fromEnvironment("env-from"), credentialsOf(p.c).all()...),
		Log: func(format string, args ...any) {
			if !out.quiet {
				say(out.err, "local", format, args...)
			}
		},
	}
	if u.settings.unseen != nil {
		return nil, u.settings.unseen
	}
	if u.startable(p, o.Pools, out); p.err != nil {
		return nil, p.err
	}
	if p.c.IsSet("etcd-endpoints") {
		leases, err := virtual.NewLeases(etcdOptions(p.c))
		if err != nil {
			return nil, field.Errorf("%v", err)
		}
		o.Leases, u.close = leases, append(u.close, leases.Close)
	}
	t, err := local.New(o)
	if err != nil {
		return nil, field.Errorf("%v", err)
	}
	run := t.Run
	if p.c.Bool("stop-workers") {
		run = t.RunAndStop
	}
	u.run, u.close = append(u.run, run), append(u.close, t.Close)
	return t, nil
}

// startable refuses a program that is not there, where actions do not make it, and warns of
// engines that do not keep what --drains-on-term says.
func (u *plannerUnit) startable(p *parser, pools []local.Pool, out *plannerOutputs) {
	vllm := false
	for _, pool := range pools {
		spec, err := pool.Template.Spec(pool.Config, engine.Launch{Port: 1})
		if err != nil {
			continue // New says it
		}
		if first := strings.Fields(pool.Template.Argv)[0]; !strings.Contains(first, "{{") {
			if _, err := exec.LookPath(spec.Argv[0]); err != nil {
				p.fail(field.Errorf("--%s-command: its program cannot be started: %s", pool.Config.Role, redact.Text(err.Error())).
					Hint("install it, or give its full path"))
			}
		}
		vllm = vllm || pool.DrainsOnTERM && isVLLM.MatchString(strings.Join(spec.Argv, " "))
	}
	if vllm {
		say(out.err, "warning", "%s: --drains-on-term, but vLLM does not finish its requests after TERM: open streams may get neither a token nor an error", u.settings.name)
		say(out.err, "hint", "without --drains-on-term vLLM gets TERM when it has no request")
	}
}

var isVLLM = regexp.MustCompile(`(^|[\s/])vllm serve(\s|$)|\s-m vllm[.\s]`)

// anyWorkerCommand reports whether a flag says how a worker is started.
func (p *parser) anyWorkerCommand() bool {
	return p.c.IsSet("prefill-command") || p.c.IsSet("decode-command") || p.c.IsSet("aggregated-command")
}

// reader looks at the workers that other programs run here, for advice alone.
func (u *plannerUnit) reader(out *plannerOutputs) (planner.Target, error) {
	path, err := local.Path(u.settings.name)
	if err != nil {
		return nil, field.Errorf("%v", err)
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && !out.quiet {
		say(out.err, "note", "%s: no state file at %s. Decisions wait until it lists workers", u.settings.name, path)
	}
	r := local.Reader{Path: path}
	for _, pool := range u.settings.deployment.Pools {
		r.Roles = append(r.Roles, pool.Role)
	}
	return r, nil
}

// localPools are the commands that start the workers of each pool.
func (u *plannerUnit) localPools(p *parser) []local.Pool {
	var pools []local.Pool
	var missing, ofPools []string
	template := command.Template{ReadyPath: p.name("ready-path"), ReadyTimeout: p.duration("ready-timeout"), Grace: p.duration("stop-grace")}
	for _, pool := range u.settings.deployment.Pools {
		component := p.name("decode-component")
		if pool.Role == engine.RolePrefill {
			component = p.name("prefill-component")
		}
		flag := string(pool.Role) + "-command"
		template.Argv = p.name(flag)
		if template.Argv == "" {
			missing, ofPools = append(missing, "--"+flag), append(ofPools, string(pool.Role))
			continue
		}
		credentialsOf(p.c).add(template.Secrets()...)
		warnLiteral(p.c, "--"+flag, template.Secrets(), "--env-from NAME: workers take the variable from the planner's own environment")
		pools = append(pools, local.Pool{
			Component: component, DrainsOnTERM: p.c.Bool("drains-on-term"),
			Config: u.settings.engineConfig(pool), Template: template,
		})
	}
	if len(missing) > 0 {
		without := "--no-operation observes without a command"
		if u.settings.advise {
			without = "--no-operation needs no command: leave out the other worker commands too"
		}
		p.fail(field.Errorf("%s: how %s workers are started", areMissing(missing), strings.Join(ofPools, " and ")).
			Hint("%s 'vllm serve {{.Model}} --port {{.Port}} --tensor-parallel-size {{.TP}}'", missing[0]).
			Hint("%s", without))
	}
	return pools
}

// fromEnvironment are the values of the variables that a flag names: workers inherit
// them, and nothing else may hold them. Each has to be there, since a worker without
// its token fails later and elsewhere.
func (p *parser) fromEnvironment(flag string) []string {
	var values []string
	for _, name := range fields(p.c.String(flag)) {
		value := os.Getenv(name)
		if value == "" {
			p.fail(field.Errorf("--%s: the variable %q of the environment is not set, or empty", flag, redact.Text(name)).
				Hint("export %s=… before the planner starts, or leave it out of --%s", redact.Text(name), flag))
			return nil
		}
		values = append(values, value)
	}
	credentialsOf(p.c).add(values...)
	return values
}

// parseDevices reads what local workers may have: the GPUs named, or all that are visible
// unless workers take slots and none. They are the budget, unless that is given. A replay
// runs where there are none.
func (s *plannerSettings) parseDevices(p *parser) {
	if p.c.String("environment") != "local" || !p.anyWorkerCommand() {
		return
	}
	s.slots = p.integer("slots", 0, 4096, 0)
	s.gpus, s.unseen = p.workerGPUs(s.slots)
	if !p.c.IsSet("max-gpu-budget") && s.unseen == nil {
		s.deployment.Budget.Max, s.allDevices = len(s.devices()), true
	}
}

// devices are what local workers may have; none where there are no such workers.
func (s plannerSettings) devices() []string {
	if len(s.gpus)+s.slots == 0 {
		return nil
	}
	return local.Options{GPUs: s.gpus, Slots: s.slots}.Devices()
}

// workerGPUs are the GPUs named, or without slots those that are visible.
func (p *parser) workerGPUs(slots int) ([]string, error) {
	var ids []string
	if list := p.name("gpus"); list != "" && p.err == nil {
		var err error
		if ids, err = local.ParseGPUs(list); err != nil {
			p.fail(field.Errorf("--gpus: %v", err))
		}
	}
	if p.err != nil || len(ids) > 0 || slots > 0 {
		return ids, p.err
	}
	ids, err := visibleGPUs(p.c.Context)
	if err != nil {
		return nil, field.WithHint(fmt.Errorf("finding this machine's GPUs: %w", err), "--gpus 0-7 names them; --slots N runs workers that need none")
	}
	return ids, nil
}

// engineConfig is one engine of a pool: as profiled, or TP over its GPUs.
func (s plannerSettings) engineConfig(pool planner.Pool) engine.Config {
	c := engine.Config{Kind: engine.KindCommand, Model: cmp.Or(s.surfaces.rec.Model, s.model), Role: pool.Role, Parallelism: engine.TP(pool.GPUs)}
	pick := map[engine.Role]*store.Pick{
		engine.RolePrefill: s.surfaces.rec.Prefill, engine.RoleDecode: s.surfaces.rec.Decode, engine.RoleAggregated: s.surfaces.rec.Aggregated,
	}[pool.Role]
	if pick != nil && pick.GPUs == pool.GPUs {
		c.Parallelism = pick.Parallelism()
	}
	return c
}

// visibleGPUs are this machine's, as a worker's CUDA_VISIBLE_DEVICES names them.
func visibleGPUs(ctx context.Context) ([]string, error) {
	cat, err := catalog.Load("")
	if err != nil {
		return nil, err
	}
	all, err := localGPUs(ctx)(cat)
	if err != nil {
		return nil, err
	}
	return deviceIDs(all.Devices), nil
}
