package policy

import (
	"fmt"
	"time"

	"plimsoll/planner"
)

// behavior is what Kubernetes' HorizontalPodAutoscaler makes of recommendations
// (autoscaling/v2 defaults, kubernetes.io as read in 2026): downwards the highest
// of the last 300 s, upwards to twice as many or 4 more in 15 s, whichever is more.
type behavior struct {
	Past []wanted `json:"past"` // within the window, oldest first
}

const (
	hpaWindow = 300 * time.Second
	hpaPeriod = 15 * time.Second // of its loop, and of the limit upwards
	hpaPods   = 4
	hpaNear   = 0.1 // tolerance of the ratio of metric to target
	mostPast  = 1_000_000
)

// settle brings recommendations for pools about, as far as the rules let it.
func (b *behavior) settle(f *draft, s planner.Situation, pools []planner.Pool) {
	want := f.d.Want
	if len(b.Past) == 0 {
		b.Past = append(b.Past, wanted{s.Start, s.Have}) // what it finds is its first recommendation
	}
	b.Past = append(b.Past, wanted{s.End(), want})
	first := 0
	for first < len(b.Past) && s.End().Sub(b.Past[first].At) >= hpaWindow {
		first++
	}
	b.Past = b.Past[first:]
	for _, p := range pools {
		have, n := s.Have.Of(p.Role), want.Of(p.Role)
		most := n
		for _, r := range b.Past {
			most = max(most, r.Replicas.Of(p.Role))
		}
		switch limit := grown(have, n, s.Length); {
		case n > limit:
			f.step("rate", p.Role, limit, "at most twice as many or %d more in %v", hpaPods, hpaPeriod)
		case n < have && most > n:
			f.step("stabilization", p.Role, min(have, most), "%d was recommended within the last %v", most, hpaWindow)
		}
	}
}

// grown is the most replicas after an interval, at most n.
func grown(have, n int, interval time.Duration) int {
	for range max(1, interval/hpaPeriod) {
		if have = max(2*have, have+hpaPods); have >= n {
			return n
		}
	}
	return have
}

// check refuses a memory that no behavior can have.
func (b behavior) check() error {
	if len(b.Past) > mostPast {
		return fmt.Errorf("it holds %d recommendations: want at most %d", len(b.Past), mostPast)
	}
	for _, r := range b.Past {
		if r.Replicas.Prefill < 0 || r.Replicas.Decode < 0 || r.Replicas.Aggregated < 0 {
			return fmt.Errorf("it holds the recommendation %s: want replicas of 0 or more", r.Replicas)
		}
	}
	return nil
}
