package sweep

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"plimsoll/profile"
)

// A load that is sent again is kept under its attempt with why, and nothing is made
// of it; a resumed run still has it.
func TestDiscardedLoadsAreKept(t *testing.T) {
	l := affine(4)
	l.busyPlays = [2]int{2, 4} // the first two of the first rate: the one before asked one at a time
	b := newLab(map[string]law{"TP:4": l})
	o := openOptions(b, Aggregated, 4)
	res, n, err := run(t, b, o, Known{})
	if err != nil {
		t.Fatal(err)
	}
	isDiscarded := func(p profile.Point) bool { return p.Discarded != "" }
	if slices.ContainsFunc(res.Points, isDiscarded) || len(res.Discarded) < 2 {
		t.Fatalf("%d discarded loads, want two; or one is among the points", len(res.Discarded))
	}
	for i, p := range res.Discarded[:2] {
		id, attempt, _ := strings.Cut(p.ID, "/attempt")
		counts := slices.IndexFunc(res.Points, func(q profile.Point) bool { return q.ID == id })
		if attempt != []string{"1", "2"}[i] || counts < 0 || p.Discarded != "the client was the bottleneck: no processor time" {
			t.Errorf("%s: %q, beside point %d", p.ID, p.Discarded, counts)
		}
		if q := res.Points[max(counts, 0)]; p.Config != q.Config || p.Stage != q.Stage || p.Phase != q.Phase || p.Rate != q.Rate || p.Load == nil || p.Elapsed <= 0 {
			t.Errorf("%s is %+v, the one that counts %+v", p.ID, p, q)
		}
		if !slices.ContainsFunc(n.Points, func(q profile.Point) bool { return q.ID == p.ID && q.Discarded != "" }) {
			t.Errorf("%s is in no file", p.ID)
		}
	}
	sent := b.plays
	again, m, err := run(t, b, o, n.Known)
	if err != nil || b.plays != sent || len(m.Points) > 0 {
		t.Fatalf("resumed: %v, %d loads more", err, b.plays-sent)
	}
	if len(again.Discarded) != len(res.Discarded) || len(again.Points) != len(res.Points) || again.Aggregated.Picked.RPS != res.Aggregated.Picked.RPS {
		t.Errorf("resumed: %d points and %d discarded, before %d and %d", len(again.Points), len(again.Discarded), len(res.Points), len(res.Discarded))
	}
}

// So is a load whose judged part began before the engine was as full as it gets.
func TestLoadsOfLongerStaysAreKept(t *testing.T) {
	b := newLab(map[string]law{"TP:1": affine(1)})
	o := openOptions(b, Aggregated, 1)
	o.SLA.TTFT, o.SLA.ITL = 3600e9, 3600e9
	n := &notes{}
	r := newRunner(o, b, n, Known{}, nil)
	s := newTrial(profile.Aggregated, o.Candidates[0])
	r.book.begin(s)
	p, err := r.openPoint(t.Context(), s, openLoad{stage: profile.StageSweep, id: "x", rate: 0.5, residence: 10 * ms, seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.stop(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	if len(n.Points) != 2 || n.Points[0].ID != "x/attempt1" || !strings.HasPrefix(n.Points[0].Discarded, "requests took ") || n.Points[1].ID != "x" || p.Discarded != "" {
		t.Errorf("kept %+v", n.Points)
	}
}

// A load that Ctrl-C cut short says nothing: it is not sent again, nor kept as one that
// had too few requests or whose requests stayed too long.
func TestCutShortIsNotDiscarded(t *testing.T) {
	b := newLab(map[string]law{"TP:1": affine(1)})
	o := openOptions(b, Aggregated, 1)
	o.SLA.Stat = profile.P99
	n := &notes{}
	r := newRunner(o, b, n, Known{}, nil)
	s := newTrial(profile.Aggregated, o.Candidates[0])
	r.book.begin(s)
	ctx, cancel := context.WithCancel(t.Context())
	if err := r.launch(ctx, s); err != nil {
		t.Fatal(err)
	}
	play, plays := s.inst.Play, 0
	s.inst.Play = func(ctx context.Context, script profile.Script, _ func(profile.Request) bool) (Measurement, error) {
		plays++
		m, err := play(ctx, script, nil)
		for i, q := range m.Requests {
			if i > 400 {
				m.Requests[i] = profile.Request{Index: i, ISL: q.ISL, OSL: q.OSL, Due: q.Due, Failure: profile.FailCanceled, CachedTokens: -1}
			}
		}
		cancel()
		return m, err
	}
	_, err := r.openPoint(ctx, s, openLoad{stage: profile.StageSweep, id: "x", rate: 0.5, residence: 2000 * ms, settle: 4000 * ms, seed: 1})
	if !errors.Is(err, context.Canceled) || plays != 1 || len(n.Points) > 0 {
		t.Errorf("%v after %d loads, kept %+v", err, plays, n.Points)
	}
}
