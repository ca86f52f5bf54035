package policy

import (
	"math"
	"time"

	"plimsoll/planner"
)

// Behavior is the behavior block of Kubernetes' HorizontalPodAutoscaler
// (autoscaling/v2), or what holds without one. Start from DefaultBehavior or NoBehavior.
type Behavior struct {
	Up, Down  Scaling
	Tolerance float64 // of the ratio of metric to target, either way: no change within
	// Absent says that there is no such block: what was changed before limits nothing, and
	// the most recommended within Down.Window is gone up to, too.
	Absent bool
}

// Scaling is one direction of it. Of its two policies that which allows more holds,
// which is selectPolicy's default; both have one period here, as in all samples.
type Scaling struct {
	Window  time.Duration // of stabilization: the least change recommended within is made
	Pods    int           // more or fewer in a period at most
	Percent int           // of what there was at its start, likewise
	Least   int           // upwards it may always go to so many
	Period  time.Duration
}

// DefaultBehavior is what holds where a behavior block says nothing else: up at once, to
// twice as many or by 4 in 15 s, down to the most of 300 s, and a tolerance of 10 %
// (kubernetes v1.36.3, pkg/apis/autoscaling/v2/defaults.go and
// pkg/controller/podautoscaler/config/v1alpha1/defaults.go).
func DefaultBehavior() Behavior {
	return Behavior{
		Up:        Scaling{Pods: 4, Percent: 100, Period: 15 * time.Second},
		Down:      Scaling{Window: 300 * time.Second, Percent: 100, Period: 15 * time.Second},
		Tolerance: 0.1,
	}
}

// NoBehavior is what holds without the block, as in an HPA that has only metrics, and in
// the one that KEDA makes where nothing is said: up to twice as many or to 4 in each
// sync of 15 s, down to the most of 300 s (horizontal.go, stabilizeRecommendation and
// convertDesiredReplicasWithRules).
func NoBehavior() Behavior {
	b := DefaultBehavior()
	b.Absent, b.Up.Pods, b.Up.Least = true, 0, 4
	return b
}

// near reports whether a ratio of metric to target changes nothing; both ends are
// within, in floating point as there.
func (o Behavior) near(ratio float64) bool { return 1-o.Tolerance <= ratio && ratio <= 1+o.Tolerance }

// behavior is what a HorizontalPodAutoscaler remembers.
type behavior struct {
	Past   []wanted // recommendations within the windows, oldest first
	Scaled []wanted // changes within the periods, as differences
	Last   *wanted  // what it found the last time
}

// settle brings recommendations for pools about, as far as the behavior lets it
// (horizontal.go, stabilizeRecommendationWithBehaviors and
// convertDesiredReplicasWithBehaviorRate).
func (b *behavior) settle(f *draft, s planner.Situation, pools []planner.Pool, o Behavior) {
	want := f.d.Want
	b.remember(s, want, o)
	for _, p := range pools {
		have, n := s.Have.Of(p.Role), want.Of(p.Role)
		if to := b.stabilized(p.Role, s.End(), have, n, o); to != n {
			f.step("stabilization", p.Role, to, "within the last %v up and %v down other replicas than %d were recommended, too", o.Up.Window, o.Down.Window, n)
			n = to
		}
		d := o.Up
		if n < have {
			d = o.Down
		}
		if to := b.limited(p.Role, s, n, d, n > have); to != n {
			f.step("rate", p.Role, to, "at most %d or %d %% in %v", max(d.Pods, d.Least-have), d.Percent, d.Period)
		}
	}
}

// remember takes in what is recommended and what was changed since the last time.
func (b *behavior) remember(s planner.Situation, want planner.Replicas, o Behavior) {
	if len(b.Past) == 0 {
		b.Past = append(b.Past, wanted{s.Start, s.Have}) // what it finds is its first recommendation
	}
	b.Past = younger(append(b.Past, wanted{s.End(), want}), s.End().Add(-max(o.Up.Window, o.Down.Window)))
	if !o.Absent && b.Last != nil && b.Last.Replicas != s.Have {
		now, was := s.Have, b.Last.Replicas
		change := planner.Replicas{Prefill: now.Prefill - was.Prefill, Decode: now.Decode - was.Decode, Aggregated: now.Aggregated - was.Aggregated}
		b.Scaled = append(b.Scaled, wanted{b.Last.At, change})
	}
	b.Scaled = younger(b.Scaled, s.End().Add(-max(o.Up.Period, o.Down.Period)))
	b.Last = &wanted{s.End(), s.Have}
}

// younger are those that are younger than an instant; the newest of all is the last.
func younger(all []wanted, t time.Time) []wanted {
	for len(all) > 0 && !all[0].At.After(t) {
		all = all[1:]
	}
	return all
}

// stabilized is what the recommendations within the windows leave of the newest.
func (b *behavior) stabilized(role planner.Role, now time.Time, have, n int, o Behavior) int {
	low, high := n, n
	for _, r := range younger(b.Past, now.Add(-o.Up.Window)) {
		low = min(low, r.Replicas.Of(role))
	}
	for _, r := range younger(b.Past, now.Add(-o.Down.Window)) {
		high = max(high, r.Replicas.Of(role))
	}
	if o.Absent {
		return high
	}
	return min(max(have, low), high)
}

// limited is what the policies of a direction leave of a change to n. An interval
// of several periods has the change of each.
func (b *behavior) limited(role planner.Role, s planner.Situation, n int, d Scaling, up bool) int {
	have := s.Have.Of(role)
	at := have // at the start of the period
	for _, c := range younger(b.Scaled, s.End().Add(-d.Period)) {
		at -= c.Replicas.Of(role)
	}
	for range max(1, s.Length/d.Period) {
		if up {
			at = max(at+d.Pods, int(math.Ceil(float64(at)*(1+float64(d.Percent)/100))), d.Least)
		} else {
			at = min(at-d.Pods, int(float64(at)*(1-float64(d.Percent)/100)))
		}
		if up && at >= n || !up && at <= n {
			return n
		}
	}
	if up {
		return max(have, at)
	}
	return min(have, at)
}
