package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/engine/gpu"
	"plimsoll/engine/kube"
	"plimsoll/profile"
	"plimsoll/sweep"

	"plimsoll/engine/catalog"
)

// What an engine has in its pod.
const (
	kubePort = 8000 // nobody else listens there
	kubeDir  = "/etc/plimsoll"
)

// kubeLauncher starts engines for the sweep on a cluster.
type kubeLauncher struct {
	*launcher
	run *kube.Run
}

// untilHangup ends a run when its terminal is closed, since nothing else would
// delete its engines; under nohup it goes on.
func untilHangup(ctx context.Context) (context.Context, context.CancelFunc) {
	if signal.Ignored(syscall.SIGHUP) {
		return ctx, func() {}
	}
	return signal.NotifyContext(ctx, syscall.SIGHUP)
}

// launchOnKube begins a run on the cluster.
func launchOnKube(ctx context.Context, o profileOptions, d deployment, ui *console) (*kubeLauncher, error) {
	config, namespace, err := o.kube.connection.Config()
	if err != nil {
		return nil, field.Errorf("%v", err)
	}
	engines := o.kube.engines
	engines.Note = ui.verbosef
	if d.kind == engine.KindSim && !o.kube.gpus {
		engines.GPUResource = ""
	}
	if d.gpuCount > d.perNode && engines.GPUsPerNode == 0 { // else no engine spans nodes
		engines.GPUsPerNode = d.perNode
	}
	about := fmt.Sprintf("profile-sla of %s with %s", d.modelName, kindWord(d.kind))
	run, err := kube.Begin(ctx, config, namespace, about, engines)
	if err != nil {
		return nil, err
	}
	ui.verbosef("run %s in namespace %s", run.ID(), run.Namespace())
	found, err := kube.Find(ctx, config, namespace)
	if err != nil {
		return nil, errors.Join(err, run.Close(context.WithoutCancel(ctx)))
	}
	ui.warn(remains(found, namespace))
	l := newLauncher(o, d, ui.verbosef)
	if o.kube.model != "" {
		l.dep.modelName = o.kube.model
	}
	return &kubeLauncher{launcher: l, run: run}, nil
}

// remains says what runs that were killed left behind in the namespace.
func remains(runs []kube.Found, namespace string) []profile.Warning {
	var ws []profile.Warning
	for _, r := range runs {
		if !r.Lives(time.Now()) {
			ws = append(ws, profile.Warnf("kube_remains",
				"run %s in namespace %s ended without cleaning up: %d pods may hold GPUs: plimsoll profile-sla cleanup --kube-namespace %s deletes them", r.ID, namespace, r.Pods, namespace))
		}
	}
	return ws
}

// Close deletes what is left of the run.
func (l *kubeLauncher) Close(ctx context.Context) error { return l.run.Close(ctx) }

// Launch implements sweep.Launcher. Its errors may quote an engine's log.
func (l *kubeLauncher) Launch(ctx context.Context, cfg engine.Config) (*sweep.Instance, error) {
	in, err := l.launch(ctx, cfg)
	return in, l.opts.hidden.clean(err)
}

func (l *kubeLauncher) launch(ctx context.Context, cfg engine.Config) (*sweep.Instance, error) {
	spec, err := l.spec(cfg)
	if err != nil {
		return nil, err
	}
	l.note("starting %s: %s", spec.Name, strings.Join(l.opts.redacted(spec.Argv), " "))
	e, err := l.run.Start(ctx, kube.Launch{Spec: spec, Kind: cfg.Kind, GPUs: cfg.GPUs(), EntryPoint: cfg.Kind == engine.KindSim})
	if err != nil {
		return nil, err
	}
	in, err := l.attach(ctx, e.URL(), cfg, e)
	if err != nil {
		return nil, errors.Join(err, died(ctx, e), e.Stop(context.WithoutCancel(ctx)))
	}
	in.Facts.Command = l.opts.redacted(spec.Argv)
	if l.opts.kube.engines.Access == kube.ByPortForward {
		in.Facts.Warnings = append(in.Facts.Warnings, profile.Warnf("port_forward",
			"requests went through a port-forward: every chunk passes the API server, which adds to TTFT and ITL and limits the load: plimsoll profile-sla manifest runs the profile inside the cluster"))
		in.Measurer, in.Play = forwarded{Measurer: in.Measurer, way: e}, forwardedPlay(in.Play, e)
		if in.Climb != nil {
			in.Climb = (&forwardedStairs{way: e}).over(in.Climb)
		}
	}
	return in, nil
}

// spec is the engine to start in a pod.
func (l *kubeLauncher) spec(cfg engine.Config) (engine.Spec, error) {
	name := l.opts.launchName(cfg)
	if l.opts.kube.model != "" {
		cfg.Model = l.opts.kube.model
	}
	spec, err := l.dep.server.Spec(cfg, engine.Launch{Host: "0.0.0.0", Port: kubePort, Dir: kubeDir})
	spec.Name, spec.LogPath = name, l.opts.engineLog(name)
	if cfg.Kind == engine.KindSim {
		spec.ReadyTimeout = kubeReady
	}
	return spec, err
}

// clusterGPUs lists the GPUs of the nodes that engines may run on.
func clusterGPUs(ctx context.Context, o profileOptions) gpuLister {
	return func(cat catalog.Catalog) (gpu.Inventory, error) {
		var inv gpu.Inventory
		if o.saysGPUs() {
			return inv, nil // listing nodes may not be permitted
		}
		config, _, err := o.kube.connection.Config()
		if err != nil {
			return inv, err
		}
		nodes, err := kube.Nodes(ctx, config, o.kube.engines)
		if err != nil {
			return inv, fmt.Errorf("%w (hint: with --gpu NAME --gpu-count N nothing is asked of the nodes)", err)
		}
		products, parts := map[string]bool{}, ""
		for _, n := range nodes {
			sku, _ := cat.GPUByDeviceName(n.Product) // else the nodes do not tell, or the catalog does not know
			products[n.Product] = true
			if n.Parts {
				parts = n.Product
			}
			for i := range n.GPUs {
				inv.Devices = append(inv.Devices, gpu.Device{Index: i, UUID: fmt.Sprintf("%s/%d", n.Name, i), Name: n.Product, SKU: sku.Name})
			}
		}
		if len(products) > 1 {
			inv.Warnings = append(inv.Warnings, "the nodes have different GPUs: --node-selector nvidia.com/gpu.product=NAME keeps to one kind")
		}
		if parts != "" {
			inv.Warnings = append(inv.Warnings, fmt.Sprintf("the nodes give out parts of GPUs (%s): an engine is no faster than its neighbours leave it, and --gpu-count counts parts", parts))
		}
		return inv, nil
	}
}
