package main

import (
	"errors"
	"fmt"
	"os"

	"plimsoll/interpolation"
	"plimsoll/profile"
	"plimsoll/profile/store"
)

// loadSurfaces reads what a profile says of prefill and decode. A folder without
// recommendation.json, such as Dynamo's profiler leaves, has surfaces only.
func loadSurfaces(dir string, p *parser) (profileSurfaces, error) {
	s := profileSurfaces{dir: dir, workload: store.Lengths{ISL: 3000, OSL: 500}} // profile-sla's own defaults
	rec, err := store.ReadRecommendation(dir)
	switch {
	case err == nil:
		s.rec, s.workload = rec, rec.Workload
		if rec.Mode == store.Aggregated {
			kv := rec.Thresholds.DecodeKVUtilization
			return s, aggregatedProfile(dir).hint("by its thresholds, without it: --policy load --mode aggregated --decode-kv-scale-up-threshold %.2f --decode-kv-scale-down-threshold %.2f", kv.Upper, kv.Lower)
		}
	case !errors.Is(err, os.ErrNotExist):
		return s, usagef("--profile %s: %v", dir, err)
	}
	published := profile.Published
	ps, err := store.LoadPrefill(dir, store.LoadOptions{Provenance: &published})
	if err != nil {
		return s, usagef("--profile %s: %v", dir, err).hint("plimsoll profile-sla writes a profile; plimsoll profile-sla import reads others'")
	}
	ds, err := store.LoadDecode(dir, store.LoadOptions{Provenance: &published})
	if err != nil {
		return s, usagef("--profile %s: %v", dir, err)
	}
	gpus := p.integer("decode-engine-num-gpu", 1, maxGPUs, 1)
	if s.rec.Decode != nil {
		gpus = s.rec.Decode.GPUs
	}
	if s.prefill, err = fitPrefill(dir, ps, 0); err != nil {
		return s, usagef("--profile %s: %v", dir, err)
	}
	if s.decode, err = interpolation.FitDecode(ds, gpus); err != nil {
		return s, usagef("--profile %s: %v", dir, err)
	}
	s.id = contentOf(ps, ds)
	s.provenance = profile.Weakest(ps.Provenance, ds.Provenance, s.rec.Provenance)
	return s, s.accepted(p)
}

// contentOf is equal for surfaces of the same points and, for all purposes, for them
// alone: where a profile lies, and when it was written, do not matter.
func contentOf(p profile.PrefillSurface, d profile.DecodeSurface) string {
	return store.Inputs{"prefill": fmt.Sprint(p.Samples), "decode": fmt.Sprint(d.Samples, d.MaxKVTokens)}.Fingerprint()
}

// caveats are those of the picks; nil where there is no recommendation.
func (s profileSurfaces) caveats() []profile.Warning {
	if s.rec.Mode == "" {
		return nil
	}
	return s.rec.Caveats()
}

// aggregatedProfile refuses a profile that says nothing of prefill and decode apart.
func aggregatedProfile(dir string) *usageError {
	return usagef("--profile %s: it is of aggregated engines, and has no surfaces of prefill and decode to plan by", dir).
		hint("plimsoll profile-sla --mode disaggregated measures them")
}

// accepted refuses a profile weaker than the user accepts: somebody's fleet will
// be sized by it.
func (s profileSurfaces) accepted(p *parser) error {
	weakest, err := profile.ParseProvenance(p.choice("accept-provenance", "measured", "simulated", "estimated", "published"))
	if err != nil || s.provenance <= weakest {
		return err
	}
	return usagef("--profile %s: its latencies are %s, not measured on the engine that is to be scaled", s.dir, s.provenance).
		hint("--accept-provenance %s plans by them all the same", s.provenance)
}
