package sweep

import (
	"cmp"
	"math"
	"slices"

	"plimsoll/engine"
	"plimsoll/profile"
)

// prefillSurfaceOf collects the usable prefill points of a configuration.
func prefillSurfaceOf(points []profile.Point, cfg engine.Config) profile.PrefillSurface {
	var s profile.PrefillSurface
	for _, p := range points {
		if p.Phase == profile.Prefill && p.Load == nil && p.Batch == 0 && p.Config == cfg && p.Failures == 0 && p.Invalid == "" && p.TTFT.Mean > 0 {
			s.Samples = append(s.Samples, profile.PrefillSample{ISL: p.ISL, TTFT: p.TTFT.Mean, ThroughputPerGPU: p.ThroughputPerGPU})
			s.Provenance = profile.Weakest(s.Provenance, p.Provenance)
		}
	}
	slices.SortFunc(s.Samples, func(a, b profile.PrefillSample) int { return cmp.Compare(a.ISL, b.ISL) })
	return s
}

// sameContext is by how much contexts of one row may be off their mean and still
// be taken for it; those of a staircase grow from level to level.
const sameContext = 0.002

// decodeSurfaceOf collects the usable decode points of a configuration. The
// points of one row were asked for at one length, and the mean context seen
// differs between them by a token or so; a row keeps its mean context, so that
// it stays a row unless they are further apart, and each sample the in-flight count seen: x = n·y/max_kv.
func decodeSurfaceOf(points []profile.Point, cfg engine.Config) profile.DecodeSurface {
	var s profile.DecodeSurface
	type lengths struct{ isl, osl int }
	rows := map[lengths][]profile.Point{} // by the lengths asked for
	for _, p := range points {
		if p.Phase == profile.Decode && p.Load == nil && p.Config == cfg && p.Failures == 0 && p.Invalid == "" && p.ITL.Mean > 0 {
			key := lengths{p.ISL, p.OSL}
			rows[key] = append(rows[key], p)
			s.MaxKVTokens = p.MaxKV
			s.Provenance = profile.Weakest(s.Provenance, p.Provenance)
		}
	}
	for _, row := range rows {
		mean, apart := 0.0, 0.0
		for _, p := range row {
			mean += p.Context / float64(len(row))
		}
		for _, p := range row {
			apart = max(apart, math.Abs(p.Context/mean-1))
		}
		for _, p := range row {
			context := mean
			if apart > sameContext {
				context = p.Context
			}
			itl := p.PerToken() // readers of the surface know tokens only
			s.Samples = append(s.Samples, profile.DecodeSample{
				KVUsage: p.InFlight * context / float64(s.MaxKVTokens), Context: context,
				ITL: itl.Mean, Half: itl.Half, ThroughputPerGPU: p.ThroughputPerGPU,
			})
		}
	}
	slices.SortFunc(s.Samples, func(a, b profile.DecodeSample) int {
		return cmp.Or(cmp.Compare(a.Context, b.Context), cmp.Compare(a.KVUsage, b.KVUsage))
	})
	return s
}
