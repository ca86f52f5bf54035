package policy

import (
	"fmt"

	"plimsoll/engine"
	"plimsoll/planner"
)

// Propose compares an interval with the thresholds.
func (l *Load) Propose(s planner.Situation) planner.Decision {
	f := begin(s)
	if why := pause(s); why != "" {
		return f.hold("pause", "%s", why)
	}
	var n figures
	prefills, decodes, compare := engine.RolePrefill, engine.RoleDecode, l.disaggregated
	if s.Deployment.Aggregated() {
		prefills, decodes, compare = engine.RoleAggregated, engine.RoleAggregated, l.aggregated
	}
	prefill, _ := s.Pool(prefills)
	decode, _ := s.Pool(decodes)
	seen := n.waiting(prefill)
	seen.kv = n.cache(decode)
	if len(n.missing) > 0 {
		return f.without(n.missing)
	}
	compare(f, seen)
	l.grace = max(0, l.grace-1)
	return f.d
}

// pause is why an interval is not decided on.
func pause(s planner.Situation) string {
	if s.Warmup {
		return "a trace has only requests, not load"
	}
	if s.Scaling != "" {
		return "a scaling is under way: " + s.Scaling
	}
	for _, p := range s.Pools {
		if p.Changed {
			return fmt.Sprintf("the number of %s replicas changed within the interval, so its figures are mixed", p.Role)
		}
	}
	return ""
}

func (l *Load) disaggregated(f *draft, seen pressure) {
	queue := fmt.Sprintf("%.3g requests wait per prefill replica", seen.queue)
	kv := fmt.Sprintf("KV use with what waits is %.3g", seen.kv)
	if seen.queue < l.o.QueueDown {
		f.one("down", engine.RolePrefill, -1, "%s, below %.3g", queue, l.o.QueueDown)
	}
	if seen.kv < l.o.KVDown {
		l.shrink(f, engine.RoleDecode, fmt.Sprintf("%s, below %.3g", kv, l.o.KVDown))
	}
	if seen.queue > l.o.QueueUp {
		if seen.ahead > l.o.QueueUp {
			f.one("up", engine.RolePrefill, +1, "%s, above %.3g, and %.3g expected in %d intervals", queue, l.o.QueueUp, seen.ahead, queueAhead)
		} else {
			f.step("trend", engine.RolePrefill, f.d.Want.Prefill, "%s, above %.3g, but the queue goes away: %.3g expected in %d intervals", queue, l.o.QueueUp, seen.ahead, queueAhead)
		}
	}
	if seen.kv > l.o.KVUp {
		l.grow(f, engine.RoleDecode, fmt.Sprintf("%s, above %.3g", kv, l.o.KVUp))
	}
	f.rest(engine.RolePrefill, "%s, within %.3g to %.3g", queue, l.o.QueueDown, l.o.QueueUp)
	f.rest(engine.RoleDecode, "%s, within %.3g to %.3g", kv, l.o.KVDown, l.o.KVUp)
}

func (l *Load) aggregated(f *draft, seen pressure) {
	why := fmt.Sprintf("KV use with what waits is %.3g and %.3g requests wait per replica, %.3g expected in %d intervals", seen.kv, seen.queue, seen.ahead, queueAhead)
	if seen.kv < l.o.KVDown && seen.queue < l.o.QueueDown {
		l.shrink(f, engine.RoleAggregated, fmt.Sprintf("%s: below %.3g and %.3g", why, l.o.KVDown, l.o.QueueDown))
	}
	if seen.kv > l.o.KVUp || seen.queue > l.o.QueueUp && seen.ahead > l.o.QueueUp {
		l.grow(f, engine.RoleAggregated, fmt.Sprintf("%s: above %.3g or %.3g", why, l.o.KVUp, l.o.QueueUp))
	}
	f.rest(engine.RoleAggregated, "%s: neither above %.3g or %.3g nor both below %.3g and %.3g", why, l.o.KVUp, l.o.QueueUp, l.o.KVDown, l.o.QueueDown)
}

// shrink takes a replica that decodes away, unless one was just added.
func (l *Load) shrink(f *draft, role planner.Role, why string) {
	if l.grace > 0 {
		f.step("grace", role, f.d.Want.Of(role), "%s, but a replica was just added. It stays for %s more", why, engine.Count(l.grace, "interval"))
		return
	}
	f.one("down", role, -1, "%s", why)
}

// grow adds a replica that decodes, and begins its grace.
func (l *Load) grow(f *draft, role planner.Role, why string) {
	if f.one("up", role, +1, "%s", why) {
		l.grace = graceIntervals
	}
}

// one adds a replica or takes one away, within the pool's bounds and, upwards,
// within the budget; it reports whether it did.
func (f *draft) one(rule string, role planner.Role, by int, format string, args ...any) bool {
	pool, n := f.dep.Pool(role), f.d.Want.Of(role)
	why := fmt.Sprintf(format, args...)
	switch more := f.dep.GPUs(f.d.Want) + pool.GPUs; {
	case by < 0 && n <= pool.Min:
		f.step("bounds", role, n, "%s, but %d is the minimum", why, pool.Min)
	case by > 0 && pool.Max > 0 && n >= pool.Max:
		f.step("bounds", role, n, "%s, but %d is the maximum", why, pool.Max)
	case by > 0 && f.dep.Budget.Max >= 0 && more > f.dep.Budget.Max:
		f.step("budget", role, n, "%s, but one more needs %s (budget %d)", why, engine.Count(more, "GPU"), f.dep.Budget.Max)
	default:
		f.step(rule, role, n+by, "%s", why)
		return true
	}
	return false
}

// rest leaves a pool of which nothing was said as it is.
func (f *draft) rest(role planner.Role, why string, args ...any) {
	for _, s := range f.d.Steps {
		if s.Role == role {
			return
		}
	}
	f.step("hold", role, f.d.Want.Of(role), why, args...)
}
