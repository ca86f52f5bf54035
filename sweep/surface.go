package sweep

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"plimsoll/engine"
	"plimsoll/profile"
)

// prefillSurfaceOf collects the usable prefill points of a configuration.
func prefillSurfaceOf(points []profile.Point, cfg engine.Config) profile.PrefillSurface {
	var s profile.PrefillSurface
	for _, p := range points {
		if p.Phase == profile.Prefill && p.Load == nil && p.Batch == 0 && p.Config == cfg && !p.FailsTooOften && p.Invalid == "" && p.TTFT.Mean > 0 {
			s.Samples = append(s.Samples, profile.PrefillSample{ISL: p.ISL, TTFT: p.TTFT.Mean, ThroughputPerGPU: p.ThroughputPerGPU})
			s.Provenance = profile.Weakest(s.Provenance, p.Provenance)
		}
	}
	slices.SortFunc(s.Samples, func(a, b profile.PrefillSample) int { return cmp.Compare(a.ISL, b.ISL) })
	return s
}

// decodeSurfaceOf collects the usable decode points of a configuration into rows of
// one context each, ordered by context and load. Points of one row were asked for at
// one length. Their streams grow, so the mean contexts seen differ by a few tokens:
// the row has the one that was meant, ISL + OSL/2, or the mean seen where that is
// further off than contextSeen, as of an engine that counts tokens of its own. Each
// sample has the in-flight count seen: x = n·y/max_kv, whatever the context, so that
// readers find n. With sliding windows max_kv is the largest capacity of any row, and
// x is at most 1. Of points at nearly one load
// and of rows at nearly one context one is taken, preferably that of the pick.
// What is left out stays in the journal. A grid's rows have every load that they were
// measured at.
func decodeSurfaceOf(points []profile.Point, cfg engine.Config, pick string, grid bool) profile.DecodeSurface {
	thin := apart
	if grid {
		thin = onceAsked
	}
	var s profile.DecodeSurface
	type lengths struct{ isl, osl int }
	rows := map[lengths][]profile.Point{} // by the lengths asked for
	for _, p := range points {
		if surfacePoint(p, cfg) {
			key := lengths{p.ISL, p.OSL}
			rows[key] = append(rows[key], p)
			if s.WindowedKV = p.WindowedKV; !p.WindowedKV.Known() {
				s.MaxKVTokens = p.MaxKV
			} else {
				s.MaxKVTokens = max(s.MaxKVTokens, p.KVTokensAt(float64(p.ISL+p.OSL)))
			}
			s.Provenance = profile.Weakest(s.Provenance, p.Provenance)
		}
	}
	var all []surfaceRow
	for at, row := range rows {
		r := surfaceRow{context: nominalContext(at.isl, at.osl), points: thin(row, pick)}
		seen := 0.0
		for _, p := range row {
			seen += p.Context / float64(len(row))
		}
		if math.Abs(seen/r.context-1) > contextSeen {
			r.context = seen
		}
		r.picked = slices.ContainsFunc(row, func(p profile.Point) bool { return p.ID == pick })
		all = append(all, r)
	}
	for _, r := range distinctRows(all) {
		for _, p := range r.points {
			itl := p.PerToken() // readers of the surface know tokens only
			s.Samples = append(s.Samples, profile.DecodeSample{
				KVUsage: p.InFlight * r.context / float64(s.MaxKVTokens), Context: r.context,
				ITL: itl.Mean, Half: itl.Half, ThroughputPerGPU: p.ThroughputPerGPU,
			})
		}
	}
	return s
}

// surfacePoint reports whether a point is one of a configuration's decode surface.
func surfacePoint(p profile.Point, cfg engine.Config) bool {
	return p.Phase == profile.Decode && p.Load == nil && p.Config == cfg && usable(p) && p.ITL.Mean > 0
}

// surfaceRow is a row of a surface: points by load, at one context.
type surfaceRow struct {
	context float64
	points  []profile.Point
	picked  bool // has the pick
}

// worth is by which of several rows one is kept.
func (r surfaceRow) worth() int {
	if r.picked {
		return math.MaxInt
	}
	return len(r.points)
}

// apart are points by load, each at least sameLoad from each other: the pick, and of the
// others within sameLoad of the lowest the one whose ITL is known best, unless that is
// near the pick or near one further up.
func apart(points []profile.Point, pick string) []profile.Point {
	var kept []profile.Point
	var from []float64 // load of the point that was first in its place
	keep := func(p profile.Point) { kept, from = append(kept, p), append(from, p.InFlight) }
	sorted := sortedByLoad(points)
	if i := slices.IndexFunc(sorted, func(p profile.Point) bool { return p.ID == pick }); i >= 0 {
		keep(sorted[i])
	}
	for _, p := range sorted {
		var near []int // of kept
		for i, k := range kept {
			if max(p.InFlight, k.InFlight) < sameLoad*min(p.InFlight, k.InFlight) {
				near = append(near, i)
			}
		}
		switch {
		case len(near) == 0:
			keep(p)
		case len(near) == 1 && p.InFlight < sameLoad*from[near[0]]:
			kept[near[0]] = best([]profile.Point{kept[near[0]], p}, pick)
		}
	}
	return sortedByLoad(kept)
}

// best is the pick, or the point whose ITL is known best.
func best(points []profile.Point, pick string) profile.Point {
	doubt := func(p profile.Point) float64 {
		if p.ID == pick {
			return -1
		}
		return doubtOf(p)
	}
	return slices.MinFunc(points, func(a, b profile.Point) int { return cmp.Or(cmp.Compare(doubt(a), doubt(b)), cmp.Compare(a.ID, b.ID)) })
}

// doubtOf is half the interval of a point's ITL, relative to it; infinite where its steps
// are too few to say.
func doubtOf(p profile.Point) float64 {
	itl := p.PerToken()
	if itl.Half == 0 && p.Provenance < profile.Estimated && (itl.N < 2 || itl.Max > itl.Min) {
		return math.Inf(1)
	}
	return float64(itl.Half) / float64(itl.Mean)
}

// onceAsked are points by load, of those that were asked for at one in-flight count: the
// pick, or the one whose ITL is known best.
func onceAsked(points []profile.Point, pick string) (kept []profile.Point) {
	asked := map[int][]profile.Point{}
	for _, p := range points {
		asked[p.Asked] = append(asked[p.Asked], p)
	}
	for _, group := range asked {
		kept = append(kept, best(group, pick))
	}
	return sortedByLoad(kept)
}

// distinctRows are rows by context, of those within sameRow of each other one: the
// one with the pick, or the one with most points.
func distinctRows(rows []surfaceRow) (kept []surfaceRow) {
	for group := range groups(sortedRows(rows), sameRow, func(r surfaceRow) float64 { return r.context }) {
		kept = append(kept, slices.MaxFunc(group, func(a, b surfaceRow) int { return cmp.Compare(a.worth(), b.worth()) }))
	}
	return kept
}

func sortedRows(rows []surfaceRow) []surfaceRow {
	slices.SortFunc(rows, func(a, b surfaceRow) int {
		return cmp.Or(cmp.Compare(a.context, b.context), cmp.Compare(a.points[0].ID, b.points[0].ID))
	})
	return rows
}

// groups cuts sorted values into runs that are within a ratio of their first.
func groups[T any](sorted []T, ratio float64, of func(T) float64) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		for len(sorted) > 0 {
			n := 1
			for n < len(sorted) && of(sorted[n]) < ratio*of(sorted[0]) {
				n++
			}
			if !yield(sorted[:n]) {
				return
			}
			sorted = sorted[n:]
		}
	}
}
