package sweep

import (
	"slices"
	"testing"

	"plimsoll/profile"
)

// changed are the laws of three sizes, each changed.
func changed(change func(*law)) map[string]law {
	laws := three()
	for label, l := range laws {
		change(&l)
		laws[label] = l
	}
	return laws
}

// Windows that are void each time make a point that is kept and used for nothing.
func TestVoidLevelsAreNeverUsed(t *testing.T) {
	const from = 32
	b := newLab(changed(func(l *law) { l.voidAt = from }))
	res, notes, err := run(t, b, options(b, 1, 2, 4), Known{})
	if err != nil {
		t.Fatal(err)
	}
	void := 0
	for _, p := range res.Points {
		if p.Phase == profile.Decode && p.Asked >= from {
			if void++; p.Invalid == "" || !slices.Contains(codes(p.Warnings), "void") {
				t.Errorf("%s: invalid %q, warnings %v", p.ID, p.Invalid, codes(p.Warnings))
			}
			for _, before := range []string{"/attempt1", "/attempt2"} {
				if !slices.ContainsFunc(notes.Points, func(q profile.Point) bool { return q.ID == p.ID+before && q.Discarded == "2 preemptions" }) {
					t.Errorf("%s%s is in no file", p.ID, before)
				}
			}
		}
	}
	if void == 0 {
		t.Error("no level was void: this shows nothing")
	}
	if n := res.Decode.Picked.Point.Asked; n >= from || !res.Decode.Feasible {
		t.Errorf("picked %d in flight, feasible %v", n, res.Decode.Feasible)
	}
	for _, s := range res.DecodeSurface.Samples {
		if n := s.KVUsage * float64(res.DecodeSurface.MaxKVTokens) / s.Context; n > from-0.5 {
			t.Errorf("the surface holds %.1f in flight at context %.0f", n, s.Context)
		}
	}
}

// Streams that never have tokens left, and engines that cannot climb: each count
// is measured by itself, and the pick is the same.
func TestWithoutStairsEachCountIsMeasuredAlone(t *testing.T) {
	for name, change := range map[string]func(*law){
		"no tokens left": func(l *law) { l.grown = true },
		"cannot climb":   func(l *law) { l.unstable = true },
	} {
		t.Run(name, func(t *testing.T) {
			b := newLab(changed(change))
			res, _, err := run(t, b, options(b, 1, 2, 4), Known{})
			if err != nil {
				t.Fatal(err)
			}
			if p := res.Decode.Picked; p.Label() != "TP:1" || p.Point.Asked < 59 || p.Point.Asked > 61 {
				t.Errorf("decode pick %s at %d, want TP:1 at 59 to 61", p.Label(), p.Point.Asked)
			}
			alone := slices.ContainsFunc(b.measured, func(w profile.Workload) bool { return w.SharedPrompts && !w.Warmup && w.OSL == 150 && w.InFlight > 1 })
			if !alone {
				t.Error("no count was measured with the whole output")
			}
		})
	}
}

// An engine that does not say what came from its prefix cache has prefill measured
// on one that has none.
func TestUnprovenPrefillHasItsOwnEngine(t *testing.T) {
	b := newLab(changed(func(l *law) { l.silent = true }))
	if _, _, err := run(t, b, options(b, 1, 2, 4), Known{}); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(b.launches, "TP:1 cache=false") || !slices.Contains(b.launches, "TP:1 cache=true") {
		t.Errorf("launches %v", b.launches)
	}
	cached := newLab(three())
	if _, _, err := run(t, cached, options(cached, 1, 2, 4), Known{}); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(cached.launches, "TP:1 cache=false") {
		t.Errorf("proven, and launched apart: %v", cached.launches)
	}
}
