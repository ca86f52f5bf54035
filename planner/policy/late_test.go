package policy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
)

// late is a fleet of which replicas start in 2 min, under 20 requests/s, as it is for
// so many minutes: two prefill replicas serve, others start, and a queue grows.
type late struct {
	p *Default
	s planner.Situation
}

func lateFleet(t testing.TB) *late {
	l := &late{p: standard(t, func(o *DefaultOptions) { o.Ahead = 2 * time.Minute })}
	l.s = loaded(promise(), planner.Replicas{Prefill: 3, Decode: 4}, 0, 0.2)
	l.s.Length = time.Minute
	l.s = busy(l.s, 20*60, 990, 100)
	l.s.ISL.Count, l.s.TTFT.Count, l.s.ITL.Count = 1200, 1200, 1200
	l.s.Pools[0].Ready, l.s.Pools[0].Starting = 2, 1
	return l
}

// minute decides on the fleet with what it is asked for as it was, its queue longer.
func (l *late) minute() planner.Decision {
	d := l.p.Propose(l.s)
	l.s.Start = l.s.End()
	l.s.TTFT.Mean = planner.Known(l.s.TTFT.Mean.Value + time.Second)
	l.s.Pools[0].QueueOpen, l.s.Pools[0].QueueEnd = l.s.Pools[0].QueueEnd, planner.Known(l.s.Pools[0].QueueEnd.Or(0)+50)
	return d
}

// One replica that crashed again and again, or had no place, counted as on its way for
// ever: the queue grew to 20 000 and TTFT to 200 s, nothing was asked for and nothing
// was said.
func TestReplicaThatNeverStartsIsNotWaitedFor(t *testing.T) {
	for name, pending := range map[string]int{"crashes": 0, "has no place": 1} {
		t.Run(name, func(t *testing.T) {
			l := lateFleet(t)
			l.s.Pools[0].Pending = pending
			for i := range 7 {
				if d := l.minute(); d.Want.Prefill != 3 || warned(d, "replicas_late") {
					t.Fatalf("after %d min: %+v", i, d)
				}
			}
			d := l.minute()
			if d.Want.Prefill <= 3 || !warned(d, "replicas_late") {
				t.Fatalf("after 3 times the start-up time: %+v", d)
			}
			// What is asked for now is waited for again.
			before := d.Want
			l.s.Have, l.s.Pools[0].Starting = before, before.Prefill-2
			if d = l.minute(); slices.Contains(ruledBy(d, engine.RolePrefill), "observed-breach") {
				t.Errorf("with %d more on their way: %+v", before.Prefill-3, d)
			}
		})
	}
}

// Those that came serve, and the one that never does is not what they are counted with:
// the pool does not go down to what holds with it.
func TestLateReplicaIsNoReasonToShrink(t *testing.T) {
	l := lateFleet(t)
	for range 8 {
		l.minute()
	}
	l.s.Have, l.s.Pools[0].Ready = planner.Replicas{Prefill: 6, Decode: 4}, 5
	var d planner.Decision
	for range 30 {
		l.s.TTFT.Mean, l.s.Pools[0].QueueEnd = planner.Known(100*ms), planner.Known(0.0)
		d = l.minute()
	}
	if !warned(d, "replicas_late") || l.p.late(l.s, engine.RolePrefill) != 1 {
		t.Fatalf("the replica is not late any more: %+v", d)
	}
	least, _, _ := l.p.engines(l.s.Deployment.SLA).least(engine.RolePrefill, l.p.demand(20))
	if d.Want.Prefill < least+1 || d.Want.Prefill >= 6 {
		t.Errorf("%d prefill replicas, of which one never serves, where %d are needed", d.Want.Prefill, least)
	}
	l.s.Pools[0].Ready, l.s.Pools[0].Starting = 6, 0
	if d = l.minute(); warned(d, "replicas_late") || len(l.p.m.Starts) > 0 {
		t.Errorf("it came: %+v", d)
	}
}

// Replicas that start all the time, each in its time, are never late.
func TestGrowingFleetIsNotLate(t *testing.T) {
	l := lateFleet(t)
	for i := range 60 {
		if i%2 == 1 { // one came, another was asked for
			l.s.Pools[0].Ready++
			l.s.Have.Prefill++
		}
		if d := l.minute(); warned(d, "replicas_late") {
			t.Fatalf("after %d min: %+v", i, d)
		}
	}
}

// How long replicas take to start is learned from those that were seen to, whichever
// pool's are slower, and not where it was said.
func TestStartUpIsSeen(t *testing.T) {
	for name, c := range map[string]struct {
		asked, minutes, pending int // replicas asked for, minutes in which one is seen starting, of them without a GPU
		want                    time.Duration
	}{
		"at once":          {asked: 1, want: time.Minute},
		"in 3 minutes":     {minutes: 3, want: 4 * time.Minute},
		"late":             {minutes: 10, want: 6 * time.Minute},
		"waited for a GPU": {minutes: 3, pending: 1},
		"was away":         {},
	} {
		l := lateFleet(t)
		l.s.Pools[0].Starting = 0
		l.s.Have = pd(3-c.asked, 4)
		l.minute()
		l.s.Have = pd(3, 4)
		for range c.minutes {
			l.s.Pools[0].Starting, l.s.Pools[0].Pending = 1, c.pending
			l.minute()
		}
		l.s.Pools[0].Starting, l.s.Pools[0].Pending, l.s.Pools[0].Ready = 0, 0, 3
		l.minute()
		if got := l.p.m.Took[engine.RolePrefill]; got != c.want {
			t.Errorf("%s: it took %v, want %v", name, got, c.want)
		}
	}
	l := lateFleet(t)
	for _, c := range []struct {
		prefill, decode time.Duration
		said            bool
		want            time.Duration
	}{
		{time.Minute, 0, false, 2 * time.Minute},
		{time.Minute, time.Second, false, time.Minute},
		{time.Minute, 5 * time.Minute, false, 5 * time.Minute},
		{time.Minute, time.Second, true, 2 * time.Minute},
	} {
		l.p.o.AheadSaid, l.p.m.Took = c.said, map[planner.Role]time.Duration{engine.RolePrefill: c.prefill, engine.RoleDecode: c.decode}
		if got := l.p.ahead(l.s); got != c.want {
			t.Errorf("%+v: a replica is taken to start in %v", c, got)
		}
	}
}

// A planner that starts again does not wait anew, and takes back no count that age
// cannot have left.
func TestLateReplicasSurviveARestart(t *testing.T) {
	l := lateFleet(t)
	for range 8 {
		l.minute()
	}
	state, err := l.p.Save()
	if err != nil {
		t.Fatal(err)
	}
	again := lateFleet(t)
	if err := again.p.Restore(state); err != nil || again.p.late(l.s, engine.RolePrefill) != 1 {
		t.Errorf("%+v (%v)", again.p.m.Starts, err)
	}
	for _, wrong := range []string{`"n":0`, `"n":-1`} {
		if err := again.p.Restore([]byte(strings.Replace(string(state), `"n":1`, wrong, 1))); err == nil {
			t.Errorf("taken back: %s", wrong)
		}
	}
}
