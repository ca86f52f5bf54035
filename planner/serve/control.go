package serve

import (
	"fmt"

	"plimsoll/planner"
)

// Pause makes decisions advice only, until it is called with false.
func (r *Runner) Pause(paused bool) {
	was := false
	r.set(func(s *Status) { was, s.Paused = s.Paused, paused })
	if was == paused {
		return
	}
	what := "resumed"
	if paused {
		what = "paused: decisions are not carried out"
	}
	r.emit(Changed, what, nil, nil)
}

// Deployment is what is planned for now.
func (r *Runner) Deployment() planner.Deployment {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.o.Core.Deployment()
}

// Change edits bounds, budget and SLA, in force from the next decision on; after
// an error nothing is changed.
func (r *Runner) Change(edit func(planner.Deployment) (planner.Deployment, error)) error {
	was, now, err := r.edit(edit)
	if err != nil {
		return err
	}
	r.emit(Changed, changes(was, now), nil, nil)
	return nil
}

func (r *Runner) edit(edit func(planner.Deployment) (planner.Deployment, error)) (was, now planner.Deployment, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	was = r.o.Core.Deployment()
	if now, err = edit(was); err != nil {
		return was, now, err
	}
	return was, now, r.o.Core.SetDeployment(now)
}

// changes names what differs.
func changes(was, now planner.Deployment) string {
	text := ""
	note := func(what string, a, b any) {
		if a != b {
			text += fmt.Sprintf(", %s %v became %v", what, a, b)
		}
	}
	note("TTFT", was.SLA.TTFT, now.SLA.TTFT)
	note("ITL", was.SLA.ITL, now.SLA.ITL)
	note("the statistic", was.SLA.Stat, now.SLA.Stat)
	note("the most GPUs", was.Budget.Max, now.Budget.Max)
	note("the least GPUs", was.Budget.Min, now.Budget.Min)
	for i, p := range now.Pools {
		note("the least "+string(p.Role)+" replicas", was.Pools[i].Min, p.Min)
		note("the most "+string(p.Role)+" replicas", was.Pools[i].Max, p.Max)
	}
	if text == "" {
		return "nothing changed"
	}
	return text[2:]
}

// Reset makes d what is planned for, in force from the next decision on; after an
// error nothing is changed.
func (r *Runner) Reset(d planner.Deployment) error {
	return r.Change(func(planner.Deployment) (planner.Deployment, error) { return d, nil })
}
