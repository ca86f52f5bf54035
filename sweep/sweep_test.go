package sweep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/profile"
)

func TestRunPicksAndFillsSurfaces(t *testing.T) {
	b := newLab(three())
	res, _, err := run(t, b, options(b, 1, 2, 4), Known{})
	if err != nil {
		t.Fatal(err)
	}
	if got := res.Prefill.Picked.Label(); got != "TP:1" {
		t.Errorf("prefill pick %s, want TP:1", got)
	}
	// ITL at TP:1 is 8 ms + n·(0.01 + 0.184725) ms <= 20 ms up to n = 61.
	if got := res.Decode.Picked; got.Label() != "TP:1" || got.Point.Asked < 59 || got.Point.Asked > 61 {
		t.Errorf("decode pick %s n=%d, want TP:1 n=59..61", got.Label(), got.Point.Asked)
	}
	if n := len(res.PrefillSurface.Samples); n < fewestISLs || n > 7 {
		t.Errorf("%d prefill samples, want 5 to 7", n)
	}
	contexts := map[float64]int{}
	for _, s := range res.DecodeSurface.Samples {
		contexts[s.Context]++
	}
	if len(contexts) < 3 {
		t.Errorf("decode rows %v, want at least 3 contexts", contexts)
	}
	if res.DecodeSurface.Provenance != profile.Simulated || res.DecodeSurface.MaxKVTokens != 400_000 {
		t.Errorf("surface %v, %d KV tokens", res.DecodeSurface.Provenance, res.DecodeSurface.MaxKVTokens)
	}
	want := []string{"TP:1 cache=true", "TP:2 cache=true"} // TP:4 cannot win, and the surfaces need no launch
	if !slices.Equal(b.launches, want) {
		t.Errorf("launches %v, want %v", b.launches, want)
	}
	if res.Cost.Launches != 2 || res.Cost.Requests == 0 || res.Cost.GPUSeconds <= res.Cost.EngineSeconds {
		t.Errorf("cost %+v", res.Cost)
	}
}

// Upstream's config edits for prefill leaked into the config decode started from.
func TestDefectPrefillEditsLeakIntoDecode(t *testing.T) {
	b := newLab(three())
	o := options(b, 1)
	if _, _, err := run(t, b, o, Known{}); err != nil {
		t.Fatal(err)
	}
	if o.Candidates[0].PrefixCaching || o.Candidates[0].Role != "" {
		t.Errorf("candidate changed: %+v", o.Candidates[0])
	}
}

// Upstream used the loop's last TP size for the surfaces instead of the pick.
func TestDefectSurfaceAtLastSizeNotPick(t *testing.T) {
	b := newLab(three())
	res, _, err := run(t, b, options(b, 1, 2, 4), Known{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range res.Points {
		if p.Stage == profile.StageSurface && p.Config.Parallelism != engine.TP(1) {
			t.Errorf("surface point %s at %s", p.ID, p.Config.Parallelism.Label())
		}
	}
}

// One engine that would not start ended upstream's whole sweep and leaked.
func TestDefectOneFailureEndsTheSweep(t *testing.T) {
	laws := three()
	two, four := laws["TP:2"], laws["TP:4"]
	two.dieAt, four.launchErr = 30, errors.New("not ready after 2s")
	laws["TP:2"], laws["TP:4"] = two, four
	b := newLab(laws)
	res, _, err := run(t, b, options(b, 1, 2, 4), Known{})
	if err != nil {
		t.Fatal(err)
	}
	if res.Decode.Picked.Label() != "TP:1" {
		t.Errorf("picked %s", res.Decode.Picked.Label())
	}
	want := []string{"TP:2: engine ended at sweep/decode/tp2/isl3000/n32: exit code 137", "TP:4: not ready after 2s"}
	var got []string
	for _, s := range res.Skips {
		if s.Phase == profile.Decode {
			got = append(got, fmt.Sprintf("%s: %s", s.Label, s.Reason))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("skips %q, want %q", got, want)
	}
	for _, p := range res.Decode.All {
		if p.Label() == "TP:2" {
			t.Error("a configuration whose engine died may not be compared")
		}
	}
}

func TestRunNothingWorks(t *testing.T) {
	bad := law{launchErr: errors.New("exit code 3")}
	b := newLab(map[string]law{"TP:1": bad})
	o := options(b, 1)
	o.Expect = nil
	res, _, err := run(t, b, o, Known{})
	if !errors.Is(err, ErrNothing) || len(res.Skips) != 1 {
		t.Errorf("err %v, skips %v", err, res.Skips)
	}
}

// Stopped after a point, each fifth of them and under the tag full every one, a resumed run
// measures only the rest, and ends with the same picks; on the grid with the same of all.
func TestResumeContinuesExactly(t *testing.T) {
	for _, search := range []Search{Grid, Adaptive} {
		resumes(t, search)
	}
}

func resumes(t *testing.T, search Search) {
	of := func(b *lab) Options {
		o := options(b, 1, 2, 4)
		o.Search = search
		return o
	}
	b := newLab(three())
	whole, all, err := run(t, b, of(b), Known{})
	if err != nil {
		t.Fatal(err)
	}
	stripped := func(ps []profile.Point) (out []string) {
		for _, p := range ps {
			out = append(out, fmt.Sprintf("%s %v %v %v", p.ID, p.InFlight, p.TTFT.Mean, p.ITL.Mean))
		}
		return out
	}
	each := 5
	if enginetest.Full {
		each = 1
	}
	for stop := 1; stop < len(all.Points); stop += each {
		b := newLab(three())
		_, n := stopped(t, b, of(b), stop)
		if b.running != 0 {
			t.Fatalf("stop %d: %d engines left running", stop, b.running)
		}
		again := newLab(three())
		res, rest, err := run(t, again, of(again), n.Known)
		if err != nil {
			t.Fatal(err)
		}
		known := map[string]bool{}
		for _, p := range n.Points {
			known[p.ID] = true
		}
		for _, p := range rest.Points {
			if known[p.ID] {
				t.Fatalf("stop %d: %s was measured again", stop, p.ID)
			}
		}
		if samePicks(t, res, whole); res.Cost.Launches < whole.Cost.Launches {
			t.Fatalf("stop %d: cost %+v, undisturbed %+v", stop, res.Cost, whole.Cost)
		}
		if search == Adaptive {
			continue // stairs begun anew are at other contexts
		}
		if !slices.Equal(stripped(res.Points), stripped(whole.Points)) || !slices.Equal(res.DecodeSurface.Samples, whole.DecodeSurface.Samples) {
			t.Fatalf("stop %d: another result than undisturbed", stop)
		}
		if res.Cost.Requests != whole.Cost.Requests {
			t.Fatalf("stop %d: cost %+v, undisturbed %+v", stop, res.Cost, whole.Cost)
		}
	}
}

func TestRunStopsOverloadingAServer(t *testing.T) {
	l := affine(1)
	l.failEvery = 3
	b := newLab(map[string]law{"TP:1": l})
	o := options(b, 1)
	o.Failing = &Failing{SLA: profile.SLA{MaxFailures: 0.01}}
	b.failing = o.Failing
	_, n, err := run(t, b, o, Known{})
	if !errors.Is(err, ErrOverload) {
		t.Fatalf("err %v", err)
	}
	failed := 0
	for _, p := range n.Points[:len(n.Points)-1] {
		failed += p.Failures
	}
	if failed > 3 { // of at most 80 requests
		t.Errorf("went on after %d requests failed", failed)
	}
}

// What was measured of a server that had ended is measured again when the run is resumed.
func TestRunKeepsNothingOfADeadServer(t *testing.T) {
	b := newLab(map[string]law{"TP:1": affine(1)})
	o := options(b, 1)
	o.Failing = &Failing{SLA: profile.SLA{MaxFailures: 0.01}}
	r := newRunner(o, b, &notes{}, Known{}, nil)
	s := newTrial(profile.Prefill, o.Candidates[0])
	r.book.begin(s)
	_, err := r.timed(t.Context(), s, profile.StageSweep, "a point", 0, 0, func(context.Context) (profile.Point, []profile.Request, error) {
		o.Failing.Begin(3, func() {})
		for range 3 {
			o.Failing.Done(profile.Request{Failure: profile.FailConnect})
		}
		return profile.Point{Requests: 3, Failures: 3}, nil, nil
	})
	if kept, gone := r.book.points(), r.book.allDiscarded(); !errors.Is(err, ErrOverload) || len(kept) > 0 || len(gone) != 1 {
		t.Errorf("%v: %d points, %d discarded", err, len(kept), len(gone))
	}
	if err := r.stop(t.Context(), s); err != nil {
		t.Error(err)
	}
}

// One request that fails leaves no mark on what somebody's server is said to do: its load
// is measured again.
func TestOneFailedRequestIsMeasuredAgain(t *testing.T) {
	l := affine(1)
	l.failOnce = 2
	b := newLab(map[string]law{"TP:1": l})
	o := options(b, 1)
	o.Failing = &Failing{SLA: profile.SLA{MaxFailures: 0.01}}
	b.failing = o.Failing
	res, _, err := run(t, b, o, Known{})
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Discarded) == 0 {
		t.Error("nothing was measured again")
	}
	for _, p := range res.Points {
		if p.Failures > 0 {
			t.Errorf("%s has %d failures", p.ID, p.Failures)
		}
	}
}

// What failed while a server was away, or when the client was busy, is measured
// again by the run that goes on, and everything else is not.
func TestWhatFailedIsMeasuredAgain(t *testing.T) {
	b := newLab(three())
	whole, n, err := run(t, b, options(b, 1), Known{})
	if err != nil {
		t.Fatal(err)
	}
	known := n.Known
	known.Points = slices.Clone(known.Points)
	failed, busy := &known.Points[0], &known.Points[len(known.Points)-1]
	failed.Failures, failed.TTFT, failed.ThroughputPerGPU = 2, profile.Distribution{}, 0
	busy.Invalid = "the client was the bottleneck: no processor time"
	again := newLab(three())
	res, notes, err := run(t, again, options(again, 1), known)
	if err != nil || len(notes.Points) != 2 {
		t.Fatalf("%d points measured again, err %v", len(notes.Points), err)
	}
	if res.Prefill.Picked.Point.ThroughputPerGPU != whole.Prefill.Picked.Point.ThroughputPerGPU || len(res.Points) != len(whole.Points) {
		t.Errorf("prefill %+v of %d points, undisturbed %+v of %d", res.Prefill.Picked.Point, len(res.Points), whole.Prefill.Picked.Point, len(whole.Points))
	}
}

func TestRunMaxInFlightIsNeverPassed(t *testing.T) {
	b := newLab(three())
	o := options(b, 1)
	o.MaxInFlight = 7
	if _, _, err := run(t, b, o, Known{}); err != nil {
		t.Fatal(err)
	}
	for _, w := range b.measured {
		if w.InFlight > 7 {
			t.Fatalf("%d in flight", w.InFlight)
		}
	}
}

func TestRunDeadlineKeepsWhatIsKnown(t *testing.T) {
	b := newLab(three())
	o := options(b, 1, 2, 4)
	o.Deadline = b.now.Add(24 * time.Second)
	res, _, err := run(t, b, o, Known{})
	if err != nil {
		t.Fatal(err)
	}
	if res.Partial == "" || len(res.Points) == 0 || res.Decode.Picked.Label() == "" {
		t.Errorf("partial %q, %d points", res.Partial, len(res.Points))
	}
	if b.now.After(o.Deadline.Add(5 * time.Second)) {
		t.Errorf("ran until %v, deadline %v", b.now, o.Deadline)
	}
}

func TestPlanStartsNothing(t *testing.T) {
	b := newLab(three())
	steps := Plan(options(b, 1, 2, 4))
	if len(b.launches) != 0 || len(steps) != 8 {
		t.Fatalf("%d launches, %d steps", len(b.launches), len(steps))
	}
	for _, s := range steps {
		if s.Points == 0 || s.Cost.Requests == 0 || s.Expected <= 0 || !s.Known {
			t.Errorf("step %+v", s)
		}
	}
}

func TestProgressReachesTheEnd(t *testing.T) {
	b := newLab(three())
	last := -1.0
	var final Progress
	_, err := Run(t.Context(), options(b, 1, 2, 4), b, &notes{}, Known{}, func(p Progress) { final = p; last = max(last, p.Share) })
	if err != nil {
		t.Fatal(err)
	}
	if final.Share < 0.95 || final.Remaining > 3*time.Second {
		t.Errorf("ended at %+v", final)
	}
}

// Where time ran out, sizes that were never reached are named, not beaten.
func TestDeadlineNamesWhatWasNotReached(t *testing.T) {
	b := newLab(three())
	o := options(b, 1, 2, 4)
	o.Deadline = b.now.Add(13 * time.Second)
	res, _, err := run(t, b, o, Known{})
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, s := range res.Skips {
		if s.Phase == profile.Decode && strings.HasPrefix(s.Reason, "not measured") {
			left = append(left, s.Label)
		}
	}
	if len(left) == 0 || !strings.Contains(res.Decode.Why, "before time ran out") || res.Partial != "what comes next would take longer than the 7s left" {
		t.Errorf("left out %v, why %q, partial %q", left, res.Decode.Why, res.Partial)
	}
}

// A resumed run tries again what failed before, and only what failed.
func TestResumeTriesAgain(t *testing.T) {
	laws := three()
	bad := laws["TP:2"]
	bad.launchErr = errors.New("not ready")
	laws["TP:2"] = bad
	b := newLab(laws)
	_, n, err := run(t, b, options(b, 1, 2), Known{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		laws  map[string]law
		fails bool
	}{{laws, true}, {three(), false}} {
		again := newLab(c.laws)
		res, _, err := run(t, again, options(again, 1, 2), n.Known)
		failed := slices.ContainsFunc(res.Skips, func(s profile.Skip) bool { return s.Reason == "not ready" })
		if err != nil || failed != c.fails || !slices.Equal(again.launches, []string{"TP:2 cache=true"}) {
			t.Errorf("err %v, skips %v, launched %v", err, res.Skips, again.launches)
		}
	}
}
