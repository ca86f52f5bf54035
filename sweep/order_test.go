package sweep

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

// What answers comes first: both picks, the rates that they hold, a coarse surface of each
// phase, and then the rest: the rates for 95 % of requests, and finer surfaces.
func TestAnswersComeFirst(t *testing.T) {
	b := newLab(three())
	o := openOptions(b, Disaggregated, 1)
	_, n, err := run(t, b, o, Known{})
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, p := range n.Points {
		if at := string(p.Stage) + " " + string(p.Phase); len(order) == 0 || order[len(order)-1] != at {
			order = append(order, at)
		}
	}
	const want = "sweep prefill, sweep decode, verify prefill, verify decode, surface prefill, surface decode, " +
		"verify prefill, verify decode, surface prefill, surface decode"
	if got := strings.Join(order, ", "); got != want {
		t.Errorf("measured in the order\n%s, want\n%s", got, want)
	}
}

// A journal whose points are of another configuration under this one's names ends with an
// error, not with the same question for ever.
func TestResumeOfOtherPointsEnds(t *testing.T) {
	b := newLab(three())
	o := options(b, 1)
	_, n, err := run(t, b, o, Known{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n.Points {
		if n.Points[i].Stage == profile.StageSurface {
			n.Points[i].Config.Limits.MaxModelLen = 7
		}
	}
	if _, err := Run(t.Context(), o, newLab(three()), &notes{}, n.Known, nil); err == nil || !strings.Contains(err.Error(), "surface/prefill") {
		t.Errorf("got %v", err)
	}
}

// The time that is left counts the launches that are still to come, as long as the last
// one took.
func TestTimeLeftCountsLaunches(t *testing.T) {
	l := ledger{now: time.Now, progress: func(Progress) {}, loading: time.Minute, meter: meter{
		planned: map[step]time.Duration{
			{profile.StageSweep, profile.Prefill, "TP:1"}: time.Second,
			{profile.StageSweep, profile.Decode, "TP:1"}:  time.Second,
			{profile.StageSweep, profile.Decode, "TP:2"}:  time.Second,
			{stage: profile.StageSurface}:                 time.Second,
		},
		expected: time.Second, actual: time.Second,
	}}
	if got := l.at("").Remaining; got != 2*time.Minute+4*time.Second {
		t.Errorf("%v are left of two launches and four points", got)
	}
	s := newTrial(profile.Decode, engine.Config{Parallelism: engine.TP(1)})
	s.inst = &Instance{}
	l.trials = []*trial{s}
	if got := l.at("").Remaining; got != time.Minute+4*time.Second {
		t.Errorf("%v are left beside an engine that runs", got)
	}
}

// stopped is a run that is canceled after so many points.
func stopped(t *testing.T, b *lab, o Options, points int) (Result, *notes) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := &notes{}
	n.after = func() {
		if len(n.Points) == points {
			cancel()
		}
	}
	res, err := Run(ctx, o, b, n, Known{}, nil)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("stopped after %d points: %v", points, err)
	}
	return res, n
}

// A run that is stopped gives its picks where they stand, and otherwise what it knows so far.
func TestStoppedRunsSayWhatTheyKnow(t *testing.T) {
	b := newLab(three())
	_, whole, err := run(t, b, options(b, 1), Known{})
	if err != nil {
		t.Fatal(err)
	}
	settled, before := 0, 0
	for stop := 1; stop < len(whole.Points); stop++ {
		b := newLab(three())
		res, n := stopped(t, b, options(b, 1), stop)
		surfaces := slices.ContainsFunc(n.Points, func(p profile.Point) bool { return p.Stage == profile.StageSurface })
		switch {
		case res.Settled:
			if settled++; !res.Prefill.Feasible || !res.Decode.Feasible || len(res.PrefillSurface.Samples) == 0 || res.Partial == "" {
				t.Errorf("stopped after %d points: settled without picks: partial %q", stop, res.Partial)
			}
		case surfaces:
			t.Errorf("stopped after %d points, with surfaces, and nothing stands", stop)
		default:
			if before++; res.Prefill.SoFar(profile.SLA{}) == "" {
				t.Errorf("stopped after %d points: nothing is said", stop)
			}
		}
	}
	if settled == 0 || before == 0 {
		t.Errorf("%d stops after the picks, %d before", settled, before)
	}
}
