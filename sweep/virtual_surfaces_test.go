package sweep

import (
	"context"
	"testing"

	"plimsoll/engine"
	"plimsoll/profile"
)

// twins launch engines that have a like in virtual time.
type twins struct{ real, virtual *lab }

func (t twins) Launch(ctx context.Context, cfg engine.Config) (*Instance, error) {
	in, err := t.real.Launch(ctx, cfg)
	if err == nil {
		in.Surfaces, err = t.virtual.Launch(ctx, cfg)
	}
	return in, err
}

// Surfaces are measured on the engine's like in virtual time where it has one, and what
// decides, on the engine itself.
func TestSurfacesInVirtualTime(t *testing.T) {
	for _, search := range []Search{Adaptive, Grid} {
		l := twins{newLab(three()), newLab(three())}
		o := options(l.real, 1, 2)
		o.Search, o.VirtualSurfaces = search, true
		res, err := Run(t.Context(), o, l, &notes{}, Known{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(res.PrefillSurface.Samples) < 3 || len(res.DecodeSurface.Samples) < 3 {
			t.Errorf("%s: surfaces of %d and %d points", search, len(res.PrefillSurface.Samples), len(res.DecodeSurface.Samples))
		}
		far := func(ws []profile.Workload) (n int) {
			for _, w := range ws {
				if !near(w.ISL, o.ISL) {
					n++
				}
			}
			return n
		}
		if n := far(l.real.measured); n > 0 {
			t.Errorf("%s: %d loads of other lengths than the target's on the engine in real time", search, n)
		}
		if far(l.virtual.measured) == 0 || len(l.real.measured) == 0 {
			t.Errorf("%s: %d loads in real time, %d of a surface in virtual time", search, len(l.real.measured), far(l.virtual.measured))
		}
		plan := Plan(o)
		was := o
		was.VirtualSurfaces = false
		for i, s := range Plan(was) {
			if less := plan[i].Expected < s.Expected && plan[i].Cost.EngineSeconds < s.Cost.EngineSeconds; s.Known && less != (s.Stage == profile.StageSurface) {
				t.Errorf("%s: %s %s is expected to take %v, and %v without virtual time", search, s.Stage, s.Phase, plan[i].Expected, s.Expected)
			}
		}
	}
}
