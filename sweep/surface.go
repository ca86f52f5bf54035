package sweep

import (
	"cmp"
	"slices"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

// prefillSurfaceOf collects the usable prefill points of a configuration.
func prefillSurfaceOf(points []profile.Point, cfg engine.Config) profile.PrefillSurface {
	var s profile.PrefillSurface
	for _, p := range points {
		if p.Phase == profile.Prefill && p.Config == cfg && p.Failures == 0 && p.TTFT.Mean > 0 {
			s.Samples = append(s.Samples, profile.PrefillSample{ISL: p.ISL, TTFT: p.TTFT.Mean, ThroughputPerGPU: p.ThroughputPerGPU})
			s.Provenance = profile.Weakest(s.Provenance, p.Provenance)
		}
	}
	slices.SortFunc(s.Samples, func(a, b profile.PrefillSample) int { return cmp.Compare(a.ISL, b.ISL) })
	return s
}

// perToken is the time between tokens: the gap between chunks, unless a chunk
// holds several tokens. Readers of the surface know tokens only.
func perToken(p profile.Point) time.Duration {
	several := slices.ContainsFunc(p.Warnings, func(w profile.Warning) bool { return w.Code == "chunk_not_token" })
	if several && p.TPOT.Mean > 0 {
		return p.TPOT.Mean
	}
	return p.ITL.Mean
}

// decodeSurfaceOf collects the usable decode points of a configuration. The
// points of one row were asked for at one length, and the mean context seen
// differs between them by a token or so; a row keeps its mean context, so that
// it stays a row, and each sample the in-flight count seen: x = n·y/max_kv.
func decodeSurfaceOf(points []profile.Point, cfg engine.Config) profile.DecodeSurface {
	var s profile.DecodeSurface
	type lengths struct{ isl, osl int }
	rows := map[lengths][]profile.Point{} // by the lengths asked for
	for _, p := range points {
		if p.Phase == profile.Decode && p.Config == cfg && p.Failures == 0 && p.ITL.Mean > 0 {
			key := lengths{p.ISL, p.OSL}
			rows[key] = append(rows[key], p)
			s.MaxKVTokens = p.MaxKV
			s.Provenance = profile.Weakest(s.Provenance, p.Provenance)
		}
	}
	for _, row := range rows {
		context := 0.0
		for _, p := range row {
			context += p.Context / float64(len(row))
		}
		for _, p := range row {
			s.Samples = append(s.Samples, profile.DecodeSample{
				KVUsage: p.InFlight * context / float64(s.MaxKVTokens), Context: context,
				ITL: perToken(p), ThroughputPerGPU: p.ThroughputPerGPU,
			})
		}
	}
	slices.SortFunc(s.Samples, func(a, b profile.DecodeSample) int {
		return cmp.Or(cmp.Compare(a.Context, b.Context), cmp.Compare(a.KVUsage, b.KVUsage))
	})
	return s
}
