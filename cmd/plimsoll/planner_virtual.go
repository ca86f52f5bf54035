package main

import (
	"log/slog"

	"plimsoll/engine/field"
	"plimsoll/planner"
	"plimsoll/planner/connect/virtual"
)

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
