package policy

import (
	"math"
	"slices"
	"testing"
	"time"

	"plimsoll/planner"
	"plimsoll/profile"
)

// A prefix cache makes prompts cheaper, in sizing as in learning; what decodes has
// all of its context all the same.
func TestCacheHitsSizePrefill(t *testing.T) {
	have := pd(4, 2)
	hits := func(share float64) planner.Situation {
		return minute(20, have, func(s *planner.Situation) { s.CacheHit = planner.Known(share) })
	}
	cold, warm := standard(t, off).Propose(hits(0)), standard(t, off).Propose(hits(0.8))
	if a, b := demanded(cold), demanded(warm); a != pd(3, 2) || b != pd(1, 2) {
		t.Errorf("without hits %s, with 80 %% %s", a, b)
	}
	p := standard(t)
	same := hits(0.8)
	same.Pools[1].Running = planner.Known(20.0)
	same.TTFT.Mean = planner.Known(duration(0.0298 + queue{rate: 20, mean: 0.0298, cv2: 1}.wait(4, 0)))
	same.ITL.Mean = planner.Known(12 * ms)
	if d := after(p, repeat(20, same)...); math.Abs(d.Correction.Prefill.Value-1) > 0.01 || math.Abs(d.Correction.Decode.Value-1) > 0.01 {
		t.Errorf("a fleet as its profile says with cache hits: %+v", d.Correction)
	}
}

// demanded is what the profile asked for, before anything was careful.
func demanded(d planner.Decision) planner.Replicas {
	var r planner.Replicas
	for _, s := range d.Steps {
		if s.Rule == "demand" {
			r = r.With(s.Role, s.To)
		}
	}
	return r
}

// What waits is to be served once: 420 requests within a minute are 7 a second.
func TestBacklogCountsOnce(t *testing.T) {
	backlog := minute(0, pd(1, 1), func(s *planner.Situation) { s.Waiting = planner.Known(420.0) })
	got, want := standard(t, off).Propose(backlog), standard(t, off).Propose(minute(7, pd(1, 1)))
	if demanded(got) != demanded(want) {
		t.Errorf("a backlog of 7/s: %s, a rate of 7/s: %s", demanded(got), demanded(want))
	}
}

// A forecaster that erred long ago keeps a margin; it does not keep replicas that
// nobody has called for IdleFor.
func TestMarginDoesNotKeepTheIdle(t *testing.T) {
	p := standard(t, off, func(o *DefaultOptions) { o.Rate = &last{} })
	idle := minute(0, pd(1, 1), func(s *planner.Situation) {
		s.Deployment.Pools = []planner.Pool{{Role: "prefill", GPUs: 1}, {Role: "decode", GPUs: 1}}
		s.TTFT, s.ITL = planner.Spread[time.Duration]{}, planner.Spread[time.Duration]{}
	})
	if d := after(p, repeat(9, idle)...); d.Want != pd(1, 1) {
		t.Errorf("after 9 minutes: %s", d.Want)
	}
	if d := after(p, repeat(8, idle)...); d.Want != pd(0, 0) {
		t.Errorf("after 17 minutes: %s: %+v", d.Want, d.Steps)
	}
}

// A correction that is too large makes the fleet look saturated by the profile;
// a TTFT below what one prompt would take then shows that it is not. It stayed at
// 4 for ever, and with it four times the replicas.
func TestCorrectionsComeDownAtAnyLoad(t *testing.T) {
	p := standard(t)
	p.m.Slower = correction{Prefill: 4, Decode: 4, Tail: 1}
	well := minute(12, pd(2, 2), func(s *planner.Situation) {
		s.TTFT.Mean = planner.Known(duration(0.109 + queue{rate: 12, mean: 0.109, cv2: 1}.wait(2, 0)))
		s.ITL.Mean = planner.Known(12 * ms)
	})
	d := after(p, repeat(30, well)...)
	if d.Correction.Prefill.Value > 2 || d.Correction.Decode.Value > 1.3 {
		t.Errorf("%+v", d.Correction)
	}
}

// One interval's TTFT of a minute, of requests that piled up, is no slow engine.
func TestOneOutlierTeachesLittle(t *testing.T) {
	p := standard(t)
	piled := minute(2, pd(1, 1), func(s *planner.Situation) { s.TTFT.Mean = planner.Known(time.Minute) })
	if d := p.Propose(piled); d.Correction.Prefill.Value > 1.25 {
		t.Errorf("after one interval: %+v", d.Correction)
	}
	p = standard(t)
	piled.Pools[0].Queue = planner.Known(30.0)
	if d := after(p, repeat(9, piled)...); d.Correction.Prefill.Value != 1 {
		t.Errorf("while requests wait: %+v", d.Correction)
	}
}

// The 99th percentile of TTFT is also that of long prompts, which no replica makes
// faster: the fleet neither grows for them nor stays large.
func TestLongPromptsAreNotMendedByReplicas(t *testing.T) {
	long := minute(2, pd(4, 4), func(s *planner.Situation) {
		s.Deployment.SLA.Stat = profile.P99
		s.ISL.Count, s.ISL.P99 = 120, planner.Exactly(7000.0) // 710 ms alone
		s.TTFT.P99, s.ITL.P99 = planner.Exactly(800*ms), planner.Exactly(15*ms)
	})
	d := after(standard(t, off), repeat(7, long)...)
	if d.Want.Prefill >= 4 || !warned(d, "ttft_unreachable") {
		t.Errorf("%s: %+v", d.Want, d)
	}
	long = minute(4, pd(1, 1), func(s *planner.Situation) {
		s.Deployment.SLA.Stat = profile.P99
		s.ISL.Count, s.ISL.P99 = 120, planner.Exactly(4000.0) // 410 ms: 90 are left for a mean wait
		s.TTFT.P99, s.ITL.P99 = planner.Exactly(450*ms), planner.Exactly(15*ms)
	})
	if d := standard(t, off).Propose(long); demanded(d).Prefill != 2 || d.Capacity[0].Latency.Value < 410 {
		t.Errorf("%s: %+v", demanded(d), d.Capacity)
	}
}

// Prompts that are all alike wait half as long as exponential ones.
func TestEqualPromptsDoNotVary(t *testing.T) {
	equal := minute(7.5, pd(1, 1), func(s *planner.Situation) { s.ISL.Count, s.ISL.P99 = 450, planner.Exactly(s.ISL.Mean.Value) })
	if a, b := demanded(standard(t, off).Propose(equal)), demanded(standard(t, off).Propose(minute(7.5, pd(1, 1)))); a != pd(1, 1) || b != pd(2, 1) {
		t.Errorf("equal prompts %s, unknown ones %s", a, b)
	}
}

// A breach that replicas do not mend, such as a slow frontend's, took the budget.
func TestBreachDoesNotTakeTheBudget(t *testing.T) {
	p, have := standard(t, off), pd(1, 1)
	var d planner.Decision
	for i := range 100 {
		s := minute(2, have, func(s *planner.Situation) { s.TTFT.Mean = planner.Known(time.Second) })
		s.Start = time.Unix(int64(60*i), 0)
		d = p.Propose(s)
		have = d.Want
	}
	if have.Prefill > 5 || !warned(d, "breach_unmended") {
		t.Errorf("%s: %v", have, d.Warnings)
	}
}

// Replicas that come make figures of a mixture; one that dies and comes back for
// ever does not keep the others for ever, and what only goes holds nothing.
func TestReplicasThatComeHoldForAWhile(t *testing.T) {
	p := standard(t, off)
	calm, came := minute(2, pd(4, 4)), minute(2, pd(4, 4))
	came.Pools[0].Changed = true
	if d := after(p, append(repeat(6, calm), came)...); d.Want.Prefill != 4 {
		t.Errorf("replicas came: %s", d.Want)
	}
	if d := after(standard(t, off), repeat(12, came)...); d.Want.Prefill != 2 {
		t.Errorf("a replica comes and goes: %s", d.Want)
	}
	went := minute(2, pd(3, 4))
	went.Pools[0].Changed = true
	if d := after(standard(t, off), append(repeat(6, calm), went)...); d.Want.Prefill >= 3 {
		t.Errorf("a replica went: %s", d.Want)
	}
}

// Means do not say what a percentile is: nothing shrinks, and somebody is told.
func TestMeansAreNoPercentile(t *testing.T) {
	means := minute(2, pd(4, 4), func(s *planner.Situation) { s.Deployment.SLA.Stat = profile.P99 })
	if d := after(standard(t, off), repeat(9, means)...); d.Want != pd(4, 4) || !warned(d, "statistic_unseen") {
		t.Errorf("%s: %v", d.Want, d.Warnings)
	}
}

// A clock that was set back by a day does not keep replicas for one.
func TestClockSetBack(t *testing.T) {
	p := standard(t, off)
	for i := range 3 {
		s := minute(20, pd(4, 4))
		s.Start = time.Unix(86400+int64(60*i), 0)
		p.Propose(s)
	}
	if d := after(p, repeat(7, minute(2, pd(4, 4)))...); d.Want.Prefill >= 4 {
		t.Errorf("%s: %+v", d.Want, d.Steps)
	}
}

// An interval without length has no rate.
func TestNoLengthIsMissing(t *testing.T) {
	s := minute(2, pd(1, 1))
	s.Length = 0
	if d := standard(t).Propose(s); len(d.Missing) == 0 || d.Want != s.Have {
		t.Errorf("%+v", d)
	}
}

func TestRestoreRefusesWhatNobodySaved(t *testing.T) {
	for _, edit := range []func(*defaultMemory){
		func(m *defaultMemory) { m.Slower.Tail = 1e9 }, func(m *defaultMemory) { m.ISL = -1 },
		func(m *defaultMemory) { m.CacheHit = 2 }, func(m *defaultMemory) { m.Idle = -1 },
		func(m *defaultMemory) { m.Margin.Decode = 9 }, func(m *defaultMemory) { m.Slower.Extra = -1 },
		func(m *defaultMemory) { m.Prompts.Past = []foreseen{{Forecast: -1}} }, func(m *defaultMemory) { m.Answers.Open = []foreseen{{Highest: -1}} },
	} {
		p := standard(t)
		edit(&p.m)
		b, err := p.Save()
		if err != nil {
			t.Fatal(err)
		}
		q := standard(t)
		if err := q.Restore(b); err == nil || !slices.Equal(q.m.Wanted, standard(t).m.Wanted) {
			t.Errorf("%s was taken", b)
		}
	}
}
