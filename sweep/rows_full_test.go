//go:build full

package sweep

import (
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/engine/enginetest"
	"plimsoll/profile"
)

// Rows at one ISL and two OSL have ids of their own: a resumed run has the same surface,
// also from a journal whose ids leave the OSL out.
func TestDefectRowsShareIDs(t *testing.T) {
	modes := map[Mode][]int{Disaggregated: {150}}
	if enginetest.Full {
		modes = map[Mode][]int{Disaggregated: {150, 300, 1024}, Aggregated: {500}}
	}
	for mode, osls := range modes {
		for _, osl := range osls {
			of := func(b *lab) Options {
				o := openOptions(b, mode, 1)
				o.ISL, o.OSL, o.SurfaceOSL, o.DecodeGranularity = 100, osl, 100, 6
				return o
			}
			b := newLab(three())
			res, notes, err := run(t, b, of(b), Known{})
			if err != nil {
				t.Fatal(err)
			}
			seen := map[string]bool{}
			for _, p := range res.Points {
				if seen[p.ID] {
					t.Errorf("%s, OSL %d: %s twice", mode, osl, p.ID)
				}
				seen[p.ID] = true
			}
			old := Known{Engines: res.Engines}
			for _, p := range res.Points {
				p.ID = strings.Replace(p.ID, "/osl100/", "/", 1)
				if i := slices.IndexFunc(old.Points, func(q profile.Point) bool { return q.ID == p.ID }); i >= 0 {
					old.Points[i] = p
					continue
				}
				old.Points = append(old.Points, p)
			}
			for name, known := range map[string]Known{"resumed": notes.Known, "resumed from old ids": old} {
				b := newLab(three())
				again, _, err := run(t, b, of(b), known)
				contexts, _ := rowsOf(again.DecodeSurface)
				want, _ := rowsOf(res.DecodeSurface)
				if err != nil || !slices.Equal(contexts, want) || len(again.DecodeSurface.Samples) != len(res.DecodeSurface.Samples) {
					t.Errorf("%s, OSL %d: %s: %v, rows at %v of %d samples, want %v of %d", mode, osl, name, err, contexts, len(again.DecodeSurface.Samples), want, len(res.DecodeSurface.Samples))
				}
				if name == "resumed" && !slices.Equal(again.DecodeSurface.Samples, res.DecodeSurface.Samples) {
					t.Errorf("%s, OSL %d: %s: another surface", mode, osl, name)
				}
			}
		}
	}
}

// The same of whole runs on an engine whose figures vary.
func TestRowsOfANoisyEngineAreApart(t *testing.T) {
	for itl := 20; itl < 60; itl += 4 {
		l := saturating()
		l.noise = 0.05
		b := newLab(map[string]law{"TP:1": l})
		o := options(b, 1)
		o.SLA.ITL = time.Duration(itl) * ms
		o.Candidates[0].Limits.MaxNumSeqs = 1024
		res, _, err := run(t, b, o, Known{})
		if err != nil {
			t.Fatal(err)
		}
		_, rows := rowsOf(res.DecodeSurface)
		for c, r := range rows {
			n := inFlight(res.DecodeSurface, r)
			for k := 1; k < len(n); k++ {
				if n[k] < sameLoad*n[k-1] {
					t.Errorf("ITL %d ms, context %g: %v", itl, c, n)
				}
			}
		}
	}
}
