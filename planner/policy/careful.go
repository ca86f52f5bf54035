package policy

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
	"plimsoll/profile"
)

// react grows a pool that breaks its promise although nothing is on the way:
// whatever the profile says, what is observed counts. It grows by the share of the
// fleet that the breach is of the promise: of 200 replicas one more mends nothing.
func (p *Default) react(s planner.Situation, seen demand, want planner.Replicas, d *planner.Decision) planner.Replicas {
	for _, pool := range s.Pools {
		if pool.Changed || p.coming(s, pool) || pool.Ready == 0 {
			continue // figures of another fleet, or help is coming
		}
		short, why := p.breach(s, seen, pool)
		if why == "" {
			continue
		}
		have, profiled := s.Have.Of(pool.Role), want.Of(pool.Role)
		late := p.late(s, pool.Role)
		n := have + int(math.Ceil(min(short, mostShort)*float64(max(1, have-late))))
		if most := late + profiled + max(leastReaction, mostReaction*profiled); n > most {
			n = most
		}
		if n <= have {
			d.Warnings = append(d.Warnings, profile.Warnf("breach_unmended", "%s with %[3]d %[2]s replicas, although the profile asks for only %[4]d. More replicas do not seem to help; check the engines, or profile them again", why, pool.Role, have, profiled))
			continue
		}
		if profiled < n {
			d.Steps = append(d.Steps, planner.Step{Rule: "observed-breach", Role: pool.Role, From: profiled, To: n, Why: why})
			want = want.With(pool.Role, n)
		}
	}
	return want
}

// breach is what a pool is short of, above 0 as a share of it, and why; without a
// reason it is not.
func (p *Default) breach(s planner.Situation, seen demand, pool planner.PoolObservation) (short float64, why string) {
	e, sla := p.engines(s.Deployment.SLA), s.Deployment.SLA
	ttft, itl := s.TTFT.At(sla.Stat), s.Promised(sla)
	switch {
	case pool.Role != engine.RoleDecode && s.TTFT.Count >= enoughRequests && p.breaksTTFT(s, seen):
		m, _ := p.missedTTFT(s, seen)
		short, why = m.least, fmt.Sprintf("TTFT (%s) was %v, above %v", stat(sla.Stat), ttft, sla.TTFT)
	case pool.Role != engine.RolePrefill && itl.Count >= enoughRequests && breaksITL(s) && e.mendsITL(seen):
		short, why = itlMissed(s).least, fmt.Sprintf("ITL (%s) was %v, above %v", stat(sla.Stat), itl.At(sla.Stat), sla.ITL)
	case pool.Role != engine.RolePrefill && pool.KVMost.Known && pool.KVMost.Value > p.o.KVHigh:
		short = pool.KVMost.Value/p.o.KVHigh - 1
		why = fmt.Sprintf("KV use of the fullest replica was %.0f %%, above %.0f %%", 100*pool.KVMost.Value, 100*p.o.KVHigh)
	}
	shrinks := usable(pool.QueueOpen) && usable(pool.QueueEnd) && pool.QueueEnd.Value < pool.QueueOpen.Value
	if !(short > 0) || shrinks { // a mean says only that there is a breach; and a queue that shrinks is being served
		short = leastShort
	}
	return short, why
}

// breaksTTFT reports whether TTFT's promise was broken, as far as replicas can mend
// it, and not by chance: a percentile is above its limit half of the time where the
// fleet is just large enough. Broken is twice the share that may be above, if that is
// three standard deviations off.
func (p *Default) breaksTTFT(s planner.Situation, seen demand) bool {
	sla := s.Deployment.SLA
	if !s.TTFT.At(sla.Stat).Above(sla.TTFT) {
		return false
	}
	m, may := p.missedTTFT(s, seen)
	if sla.Stat.Quantile() == 0 || !m.known() {
		return p.engines(sla).longPrompt(seen) < p.engines(sla).ttftLimit()
	}
	return surelyMore(m.least, may, s.TTFT.Count)
}

// surelyMore reports whether a share of n requests is not by chance above what it may be.
func surelyMore(missed, may, n float64) bool {
	return missed > 2*may && missed*n > may*n+3*math.Sqrt(may*n)
}

// breaksITL is breaksTTFT for ITL. It allows nothing for chance, because there are many gaps.
func breaksITL(s planner.Situation) bool {
	sla := s.Deployment.SLA
	itl := s.Promised(sla)
	if !itl.At(sla.Stat).Above(sla.ITL) {
		return false
	}
	m := itlMissed(s)
	return sla.Stat.Quantile() == 0 || !m.known() || surelyMore(m.least, 1-sla.Stat.Quantile(), itl.Count)
}

// What a breach adds to what the profile asks for: up to mostReaction times as many,
// leastReaction in small fleets. What still breaks its promise then does so for another
// reason, such as a slow frontend, and would take the whole budget. At once it is at
// least one and mostShort of the fleet at most.
const (
	mostReaction  = 2
	leastReaction = 4
	mostShort     = 0.5
	leastShort    = 0.02
)

// mendsITL reports whether one request alone keeps the ITL, without which no replica more
// helps. That engines are faster than the formulas where prompts and answers share them says
// nothing of it.
func (e engines) mendsITL(need demand) bool {
	e.slower.Decode = max(1, e.slower.Decode)
	return e.decode.BestThroughput(duration(e.itlLimit()), need.context()).Feasible
}

// mix counts for how many intervals in a row a pool's replicas came, or went and
// came back. Those that only went leave no cold engine behind.
func (p *Default) mix(s planner.Situation) {
	for _, pool := range s.Pools {
		n := 0
		if pool.Changed && pool.Ready >= p.m.Ready.Of(pool.Role) {
			n = p.m.Mixed.Of(pool.Role) + 1
		}
		p.m.Mixed, p.m.Ready = p.m.Mixed.With(pool.Role, n), p.m.Ready.With(pool.Role, pool.Ready)
	}
}

// mixed reports whether the figures of a pool are also of cold engines. A replica
// that dies and comes back for ever does not keep the others for ever.
func (p *Default) mixed(s planner.Situation, role planner.Role) bool {
	n := p.m.Mixed.Of(role)
	return n > 0 && time.Duration(n-1)*s.Length < max(p.o.StableFor, s.Length)
}

// remember keeps what was wanted for as long as going down looks back. A clock
// that was set back leaves instants that are to come; they go.
func (p *Default) remember(s planner.Situation, want planner.Replicas) {
	p.m.Wanted = slices.DeleteFunc(p.m.Wanted, func(w wanted) bool { return w.At.After(s.End()) })
	p.m.Wanted = append(p.m.Wanted, wanted{s.End(), want})
	// The newest of those that are old enough stays: it shows that the window is
	// covered.
	old := 0
	for old+1 < len(p.m.Wanted) && s.End().Sub(p.m.Wanted[old+1].At) >= p.hold(s) {
		old++
	}
	p.m.Wanted = slices.Delete(p.m.Wanted, 0, old)
}

// careful lets pools grow at once, in steps, and shrink only where everything
// agrees: the wish has lasted, the figures are whole and within the SLA, and the
// replicas that stay would carry the load that was observed (dynamo#9294 went
// from 2 to 1 and back for ever).
func (p *Default) careful(s planner.Situation, seen demand, want planner.Replicas, d *planner.Decision) planner.Replicas {
	for _, pool := range s.Deployment.Pools {
		have, n := s.Have.Of(pool.Role), want.Of(pool.Role)
		note := func(rule string, to int, why string) {
			d.Steps = append(d.Steps, planner.Step{Rule: rule, Role: pool.Role, From: n, To: to, Why: why})
			n = to
		}
		if most := have + cmp.Or(p.o.MostUp, max(4, have)); n > most {
			note("step-limit", most, fmt.Sprintf("at most %d more at a time", most-have))
		}
		if at := p.m.Swings[pool.Role].DownAt; n < have && !at.IsZero() && s.End().Sub(at) < p.o.Every && !at.After(s.End()) {
			note("adjustment", have, fmt.Sprintf("it went down %v ago, less than %v", s.End().Sub(at).Round(10*time.Millisecond), p.o.Every))
		}
		if n < have {
			if stable, covered := p.stable(s, pool.Role); !covered {
				note("stabilization", have, fmt.Sprintf("not yet observed for %v", p.hold(s)))
			} else if stable > n {
				note("stabilization", min(stable, have), fmt.Sprintf("%d were wanted within the last %v", stable, p.hold(s)))
			}
		}
		if n < have {
			if least := have - cmp.Or(p.o.MostDown, max(1, have/2)); n < least {
				note("step-limit", least, fmt.Sprintf("at most %d fewer at a time", have-least))
			}
			if to, why := p.consent(s, seen, pool.Role, n); why != "" {
				note("hold", to, why)
			}
			if to, why := p.m.flaps(s.End(), pool.Role, n); to > n {
				note("flapping", min(to, have), why)
			}
		}
		want = want.With(pool.Role, n)
	}
	return want
}

// hold is how long what was wanted counts. Whoever goes down by mistake is short of
// replicas for as long as they start.
func (p *Default) hold(s planner.Situation) time.Duration {
	if p.o.StableFor == 0 {
		return 0
	}
	return max(p.o.StableFor, 2*p.ahead(s))
}

// stable is the most that was wanted within StableFor, and whether the planner
// has been looking for that long.
func (p *Default) stable(s planner.Situation, role planner.Role) (most int, covered bool) {
	for _, w := range p.m.Wanted {
		age := s.End().Sub(w.At)
		covered = covered || age >= p.hold(s)
		if age < p.hold(s) || p.hold(s) == 0 {
			most = max(most, w.Replicas.Of(role))
		}
	}
	return most, covered
}

// gives are the figures of a pool that a source has given. One that never did is planned
// without; one that does not any more has lost them.
type gives struct {
	Running bool `json:"running"`
	KV      bool `json:"kv"`
	Queue   bool `json:"queue"`
}

// missing names a figure without which a pool may be busier than it looks; empty where
// there is none.
func (p *Default) missing(s planner.Situation, pool planner.PoolObservation) string {
	now, ever := gives{usable(pool.Running), usable(pool.KVMost), usable(pool.Queue)}, p.m.Gives[pool.Role]
	ended := s.Finished.Or(1) > 0
	switch {
	case !p.waits(s, pool.Role).Known:
		return "the number of requests that wait is missing"
	case ever.Running && !now.Running:
		return "the number of running requests is missing"
	case ever.KV && !now.KV:
		return "KV use is missing"
	case ever.Queue && !now.Queue:
		return "the queue is missing"
	case ended && p.m.ISL > 0 && !usable(s.ISL.Mean):
		return "ISL is missing"
	case ended && p.m.OSL > 0 && !usable(s.OSL.Mean):
		return "OSL is missing"
	case ended && p.m.CacheHit > 0 && !usable(s.CacheHit):
		return "the share of cache hits is missing"
	}
	return ""
}

// note remembers which figures of pools a source gives.
func (m *defaultMemory) note(s planner.Situation) {
	if m.Gives == nil {
		m.Gives = map[planner.Role]gives{}
	}
	for _, pool := range s.Pools {
		ever := m.Gives[pool.Role]
		m.Gives[pool.Role] = gives{ever.Running || usable(pool.Running), ever.KV || usable(pool.KVMost), ever.Queue || usable(pool.Queue)}
	}
}

// consent is the replicas that a pool may go down to, n or more, and why not n.
func (p *Default) consent(s planner.Situation, seen demand, role planner.Role, n int) (int, string) {
	have := s.Have.Of(role)
	pool, _ := s.Pool(role)
	sla := s.Deployment.SLA
	ttft, itl := s.TTFT.At(sla.Stat), s.Promised(sla).At(sla.Stat)
	e, busy := p.engines(sla), seen.rate > 0 || p.m.InSystem.Or(1) > 0 // what is not known may be busy
	missing := p.missing(s, pool)
	switch {
	case !busy:
		return n, ""
	case missing != "":
		return have, missing + ", which does not mean that it is low"
	case p.mixed(s, role):
		return have, "replicas came within the interval, so its figures are mixed"
	case s.Finished.Or(1) > 0 && role != engine.RoleDecode && (!ttft.Known || ttft.Open && !ttft.Above(sla.TTFT)):
		return have, fmt.Sprintf("TTFT (%s) is %v, which does not mean that it is well", stat(sla.Stat), ttft)
	case s.Finished.Or(1) > 0 && role != engine.RolePrefill && (!itl.Known || itl.Open && !itl.Above(sla.ITL)):
		why := "which does not mean that it is well"
		if s.ITL.At(sla.Stat).Known {
			why = "the metrics have only single gaps, not requests' means. Plan by the mean"
		}
		return have, fmt.Sprintf("ITL (%s) is %v, %s", stat(sla.Stat), itl, why)
	case role != engine.RoleDecode && p.breaksTTFT(s, seen):
		return have, fmt.Sprintf("TTFT (%s) was %v, above %v", stat(sla.Stat), ttft, sla.TTFT)
	case role != engine.RolePrefill && breaksITL(s) && e.mendsITL(seen):
		return have, fmt.Sprintf("ITL (%s) was %v, above %v", stat(sla.Stat), itl, sla.ITL)
	}
	least, why, _ := e.least(role, seen)
	if role != engine.RolePrefill && pool.KVMost.Known {
		if kv := int(math.Ceil(pool.KVMost.Value * float64(pool.Ready) / p.o.KVHigh)); kv > least {
			least, why = kv, fmt.Sprintf("KV use of the fullest of %s was %.0f %%", engine.Count(pool.Ready, "replica"), 100*pool.KVMost.Value)
		}
	}
	if least += p.late(s, role); least > n { // which of them go is not the planner's choice
		return min(least, have), "fewer could not carry the observed load: " + why
	}
	return n, ""
}
