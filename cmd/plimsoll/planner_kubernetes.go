package main

import (
	"context"
	"log/slog"

	"plimsoll/engine/field"
	"plimsoll/engine/kube/cluster"
	"plimsoll/planner"
	"plimsoll/planner/connect/kubernetes"
)

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
