package serve

import (
	"fmt"

	"plimsoll/planner"
)

// Deployment is what is planned for now.
func (r *Runner) Deployment() planner.Deployment {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.o.Core.Deployment()
}

// Reset changes bounds, budget and SLA, and whether decisions are carried out, in
// force from the next decision on; after an error nothing is changed.
func (r *Runner) Reset(d planner.Deployment, advise bool) error {
	r.mu.Lock()
	was, advised := r.o.Core.Deployment(), r.status.Advise
	err := r.o.Core.SetDeployment(d)
	if err == nil {
		r.status.Advise = advise
	}
	r.mu.Unlock()
	if err != nil {
		return err
	}
	r.emit(Changed, changes(was, d, advised, advise), nil, nil)
	return nil
}

// changes names what differs.
func changes(was, now planner.Deployment, advised, advise bool) string {
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
	note("advice alone", advised, advise)
	if text == "" {
		return "nothing changed"
	}
	return text[2:]
}
