package policy

import (
	"fmt"
	"slices"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
	"plimsoll/profile"
)

// Article is the autoscaler of an article on capacity planning for disaggregated
// serving (read in 2026), to compare with. Of each pool by itself:
//
//	4 GPUs more   utilisation > 0.85, or 100 requests or more wait, or 1 % or more of
//	              the interval's requests missed the SLO; 8 where more than 5 % did
//	4 GPUs fewer  utilisation < 0.40, fewer than 10 requests wait and none missed
//	as it is      otherwise, and for 120 s after each scaling
//
// Utilisation is the requests served over those that fill the ready replicas, 1 at most.
// TTFT is missed by what prefills and ITL by what decodes. Of both, 1 % or more is a p99 above
// the limit and more than 5 % a p95 above it. Percentiles do not show fewer misses than
// 1 %, so that they count as none.
//
// Replicas are whole: more GPUs are rounded up, so that no step adds less than the
// article's, and fewer are rounded down, so that none takes more, but to one replica
// at least. One replica remains.
type Article struct {
	full   []PoolTarget
	last   wanted                     // what there was at the last decision
	scaled map[planner.Role]time.Time // when each pool was last scaled
}

const articleCooldown = 120 * time.Second

var _ planner.Policy = (*Article)(nil)

// NewArticle makes the policy. Full are the requests served that fill a replica of each
// pool, MetricRunning; pools without one stay as they are.
func NewArticle(full []PoolTarget) *Article {
	return &Article{full: full, scaled: map[planner.Role]time.Time{}}
}

// Propose holds each pool's figures against the thresholds.
func (a *Article) Propose(s planner.Situation) planner.Decision {
	for _, p := range s.Deployment.Pools {
		if !a.last.At.IsZero() && a.last.Replicas.Of(p.Role) != s.Have.Of(p.Role) {
			a.scaled[p.Role] = a.last.At
		}
	}
	if !s.Warmup {
		a.last = wanted{s.End(), s.Have}
	}
	f, _ := byPool(s, func(f *draft, n *figures, p planner.Pool, seen planner.PoolObservation) {
		have := s.Have.Of(p.Role)
		full := slices.IndexFunc(a.full, func(t PoolTarget) bool { return t.Role == p.Role })
		if full < 0 || have == 0 {
			f.step("hold", p.Role, have, "the pool has no full load, or is switched off")
			return
		}
		by, why := n.article(s, p, seen, a.full[full])
		rule, to := "hold", max(1, have+by)
		switch since := s.End().Sub(a.scaled[p.Role]); {
		case to == have:
		case since < articleCooldown:
			rule, to, why = "cooldown", have, fmt.Sprintf("%s, but the last scaling was %v ago, less than %v", why, since, articleCooldown)
		case to > have:
			rule = "up"
		default:
			rule = "down"
		}
		f.step(rule, p.Role, to, "%s", why)
	})
	return f.d
}

// article is how many replicas the thresholds add to a pool or take away.
func (n *figures) article(s planner.Situation, p planner.Pool, seen planner.PoolObservation, full PoolTarget) (by int, why string) {
	used := min(1, n.value(s, seen, full)/full.Value)
	waiting := n.value(s, seen, PoolTarget{Role: p.Role, Metric: MetricWaiting, As: InAll})
	missed := 0
	if p.Role != engine.RoleDecode {
		missed = n.missed(s, "TTFT", s.TTFT, s.Deployment.SLA.TTFT)
	}
	if p.Role != engine.RolePrefill {
		missed = max(missed, n.missed(s, "ITL", s.Promised(s.Deployment.SLA), s.Deployment.SLA.ITL))
	}
	switch {
	case missed == 2:
		by = (8 + p.GPUs - 1) / p.GPUs
	case used > 0.85 || waiting >= 100 || missed == 1:
		by = (4 + p.GPUs - 1) / p.GPUs
	case used < 0.40 && waiting < 10:
		by = -max(1, 4/p.GPUs)
	}
	return by, fmt.Sprintf("utilisation is %.2f, %.0f requests wait, %s missed the SLO", used, waiting, []string{"less than 1 %", "1 % or more", "more than 5 %"}[missed])
}

// missed is 1 where 1 % or more of the requests missed a limit, 2 where more than 5 %
// did, and 0 where fewer or none did. Of no request none did, where it is known how
// many came.
func (n *figures) missed(s planner.Situation, name string, of planner.Spread[time.Duration], limit time.Duration) int {
	if limit == 0 || of.Count == 0 && s.Arrivals.Known {
		return 0
	}
	p95, p99 := n.need(planner.Milliseconds(of.P95.Figure), "p95 "+name), n.need(planner.Milliseconds(of.P99.Figure), "p99 "+name)
	switch most := profile.Milliseconds(limit); {
	case p95 > most:
		return 2
	case p99 > most:
		return 1
	}
	return 0
}
