package sweep

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

// hanging is a launcher of engines that answer for so many loads, and then never again.
type hanging struct {
	*lab
	loads int
}

func (h *hanging) Launch(ctx context.Context, cfg engine.Config) (*Instance, error) {
	in, err := h.lab.Launch(ctx, cfg)
	if err != nil {
		return nil, err
	}
	measure, climb := in.Measurer, in.Climb
	in.Measurer = measurerFunc(func(ctx context.Context, w profile.Workload) (Measurement, error) {
		if h.hangs(ctx) {
			return Measurement{Requests: []profile.Request{{Failure: profile.FailCanceled}}}, nil
		}
		return measure.Measure(ctx, w)
	})
	if climb != nil {
		in.Climb = func(ctx context.Context, w profile.Workload) (Stairs, error) {
			s, err := climb(ctx, w)
			return &hangingStairs{s, h}, err
		}
	}
	return in, nil
}

// hangs takes a load, and waits for its end where the engine answers no more.
func (h *hanging) hangs(ctx context.Context) bool {
	if h.loads--; h.loads >= 0 {
		return false
	}
	<-ctx.Done()
	return true
}

type hangingStairs struct {
	Stairs
	h *hanging
}

func (s *hangingStairs) Level(ctx context.Context, n, tokens int) (Measurement, error) {
	if s.h.hangs(ctx) {
		return Measurement{Void: "a stream ended"}, nil
	}
	return s.Stairs.Level(ctx, n, tokens)
}

type measurerFunc func(context.Context, profile.Workload) (Measurement, error)

func (f measurerFunc) Measure(ctx context.Context, w profile.Workload) (Measurement, error) {
	return f(ctx, w)
}

// A point under way ends with the time allowed. What was measured before is kept and
// picked from, nothing of the point is, and a resumed run measures the rest.
func TestDeadlineEndsThePointUnderWay(t *testing.T) {
	for name, change := range map[string]func(*law){"on stairs": func(*law) {}, "alone": func(l *law) { l.unstable = true }} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { deadlineEndsThePoint(t, change) })
		})
	}
}

func deadlineEndsThePoint(t *testing.T, change func(*law)) {
	const allowed = 20 * time.Second
	laws := changed(change)
	o := options(newLab(laws), 1)
	o.Now = time.Now
	var whole notes
	if _, err := Run(t.Context(), o, newLab(laws), &whole, Known{}, nil); err != nil {
		t.Fatal(err)
	}
	b, began, n := newLab(laws), time.Now(), &notes{}
	o.Deadline = began.Add(allowed)
	res, err := Run(t.Context(), o, &hanging{b, 25}, n, Known{}, nil)
	if err != nil || b.running != 0 {
		t.Fatalf("%v, %d engines left running", err, b.running)
	}
	if took := time.Since(began); took != allowed {
		t.Errorf("took %v of the %v allowed", took, allowed)
	}
	last := n.Points[len(n.Points)-1]
	if res.Partial != "the time allowed ran out" || len(res.Discarded) > 0 || last.Phase != profile.Decode || last.Invalid != "" {
		t.Errorf("partial %q, discarded %+v, the last point %+v", res.Partial, res.Discarded, last)
	}
	o.Deadline = time.Time{}
	again := &notes{}
	if res, err = Run(t.Context(), o, newLab(laws), again, n.Known, nil); err != nil || res.Partial != "" {
		t.Errorf("resumed: %v, partial %q", err, res.Partial)
	}
	got, want := slices.Sorted(slices.Values(append(ids(n.Points), ids(again.Points)...))), slices.Sorted(slices.Values(ids(whole.Points)))
	if !slices.Equal(got, want) {
		t.Errorf("measured\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Both phases are swept before a surface takes time: without a decode point a run has no
// answer at all.
func TestDeadlineSweepsBothPhasesFirst(t *testing.T) {
	var both, surfaces int
	for allowed := 2 * time.Second; allowed < 60*time.Second; allowed += 2 * time.Second {
		b := newLab(three())
		o, n := options(b, 1), &notes{}
		o.Deadline = b.now.Add(allowed)
		_, err := Run(t.Context(), o, b, n, Known{}, nil)
		surface := slices.ContainsFunc(n.Points, func(p profile.Point) bool { return p.Stage == profile.StageSurface })
		if surface && err != nil {
			t.Errorf("%v allowed: %v, with surface points", allowed, err)
		}
		if err == nil {
			both++
		}
		if surface {
			surfaces++
		}
	}
	if both == surfaces || surfaces == 0 {
		t.Errorf("%d runs had an answer, %d surface points: this shows nothing", both, surfaces)
	}
}

// No more time is said to be left than is allowed.
func TestDeadlineBoundsTheTimeLeft(t *testing.T) {
	b := newLab(three())
	o := options(b, 1, 2, 4)
	o.Deadline = b.now.Add(24 * time.Second)
	said := 0
	_, err := Run(t.Context(), o, b, &notes{}, Known{}, func(p Progress) {
		if p.Remaining > 0 {
			said++
		}
		if left := o.Deadline.Sub(b.now); p.Remaining > max(left, 0) {
			t.Errorf("%s: %v left of %v", p.Text, p.Remaining, left)
		}
	})
	if err != nil || said == 0 {
		t.Errorf("%v, said %d times", err, said)
	}
}

func ids(ps []profile.Point) (out []string) {
	for _, p := range ps {
		out = append(out, p.ID)
	}
	return out
}

// A noisy engine's long prompts are not repeated until no time is left for other lengths.
func TestNoPointHogsTheTime(t *testing.T) {
	l := affine(1)
	l.ttft = func(isl int) time.Duration { return time.Duration(isl) * ms }
	b := newLab(map[string]law{"TP:1": l})
	o := options(b, 1)
	o.Deadline = b.now.Add(4 * time.Minute)
	noisy := launchFunc(func(ctx context.Context, cfg engine.Config) (*Instance, error) {
		in, err := b.Launch(ctx, cfg)
		measure := in.Measurer
		in.Measurer = measurerFunc(func(ctx context.Context, w profile.Workload) (Measurement, error) {
			m, err := measure.Measure(ctx, w)
			for i := range m.Requests { // of three, one is later
				m.Requests[i].First += time.Duration(i%3/2) * time.Duration(w.ISL) * ms / 10
			}
			return m, err
		})
		return in, err
	})
	r, s := newRunner(o, noisy, &notes{}, Known{}, nil), newTrial(profile.Prefill, o.Candidates[0])
	r.book.begin(s)
	s.stage = profile.StageSurface
	if err := r.launch(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	long, err := r.prefillPoint(t.Context(), s, "long", profile.StageSurface, 9000, 3)
	if err != nil || long.Requests != 3 {
		t.Errorf("%d requests of 9 s of 4 minutes, %v", long.Requests, err)
	}
	short, err := r.prefillPoint(t.Context(), s, "short", profile.StageSurface, 100, 3)
	if err != nil || short.Requests <= 3 {
		t.Errorf("%d requests of 0.1 s, %v", short.Requests, err)
	}
}
