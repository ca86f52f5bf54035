package main

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/engine/sim/build"
	"plimsoll/interpolation"
	"plimsoll/planner/policy"
	"plimsoll/profile"
	"plimsoll/profile/store"
)

// loadSurfaces reads what a profile that the user accepts says of prefill and decode.
func loadSurfaces(dir string, p *parser) (profileSurfaces, error) {
	s, err := readSurfaces(dir, p.integer("decode-engine-num-gpu", 1, maxGPUs, 1))
	if err != nil {
		return s, err
	}
	return s, s.accepted(p)
}

// readSurfaces reads what a profile says of prefill and decode. A folder without
// recommendation.json, such as Dynamo's profiler leaves, has surfaces only, and does
// not say how many GPUs a decode engine has.
func readSurfaces(dir string, gpus int) (profileSurfaces, error) {
	s := profileSurfaces{dir: dir, workload: store.Lengths{ISL: 3000, OSL: 500}} // profile-sla's own defaults
	rec, err := store.ReadRecommendation(dir)
	switch {
	case err == nil:
		s.rec, s.workload = rec, rec.Workload
		if !rec.Simulates() && rec.Mode == store.Aggregated {
			kv := rec.Thresholds.LoadKV()
			return s, build.NoSurfaces(dir).Hint("by its thresholds, without it: --policy load --mode aggregated --decode-kv-scale-up-threshold %.2f --decode-kv-scale-down-threshold %.2f", kv.Upper, kv.Lower)
		}
	case !errors.Is(err, os.ErrNotExist):
		return s, field.Errorf("--profile %s: %v", dir, err)
	}
	published := profile.Published
	ps, err := store.LoadPrefill(dir, store.LoadOptions{Provenance: &published})
	if err != nil {
		return s, field.Errorf("--profile %s: %v", dir, err).Hint("plimsoll profile-sla writes a profile; plimsoll profile-sla import makes one of NVIDIA Dynamo's NPZ files")
	}
	ds, err := store.LoadDecode(dir, store.LoadOptions{Provenance: &published})
	if err != nil {
		return s, field.Errorf("--profile %s: %v", dir, err)
	}
	if s.rec.Mode == "" {
		if err := s.check(ps, ds); err != nil {
			return s, err
		}
	}
	if pick := s.rec.PickOf(engine.RoleDecode); pick != nil {
		gpus = pick.GPUs
	}
	if s.prefill, err = build.FitPrefill(dir, ps, 0); err != nil {
		return s, field.Errorf("--profile %s: %v", dir, err)
	}
	if s.decode, err = interpolation.FitDecode(ds, gpus); err != nil {
		return s, field.Errorf("--profile %s: %v", dir, err)
	}
	s.id = contentOf(ps, ds)
	s.provenance = profile.Weakest(ps.Provenance, ds.Provenance, s.rec.Provenance)
	return s, nil
}

// contentOf is equal for surfaces of the same points and, for all purposes, for them
// alone: where a profile lies, and when it was written, do not matter.
func contentOf(p profile.PrefillSurface, d profile.DecodeSurface) string {
	return store.Inputs{"prefill": fmt.Sprint(p.Samples), "decode": fmt.Sprint(d.Samples, d.MaxKVTokens)}.Fingerprint()
}

// check looks at surfaces that nobody has looked at: those without a recommendation.
// Figures that cannot be right are refused, as import refuses them.
func (s *profileSurfaces) check(ps profile.PrefillSurface, ds profile.DecodeSurface) error {
	s.doubts = append(interpolation.CheckPrefill(ps, interpolation.Facts{}), interpolation.CheckDecode(ds, interpolation.Facts{})...)
	for _, w := range profile.Implausible(s.doubts) {
		return field.Errorf("--profile %s: the figures are implausible: %s", s.dir, w.Message).
			Hint("plimsoll profile-sla import --accept %s imports them anyway, with a warning", implausible)
	}
	return nil
}

// caveats are those of the picks, what the profile warns of itself, and of a plan by
// another statistic, or what is suspicious in surfaces without a recommendation.
func (s profileSurfaces) caveats(by profile.Statistic) []profile.Warning {
	if s.rec.Mode == "" {
		return s.doubts
	}
	return slices.Concat(s.rec.Caveats(), s.rec.Doubts(), s.rec.OtherStat(by))
}

// rated is the rate that the pick of an aggregated profile was measured to hold, or
// that was simulated of a plan's engine.
func (s profileSurfaces) rated() policy.Rated {
	pick := s.rec.Aggregated
	if pick == nil {
		return s.rate
	}
	return policy.Rated{RPS: pick.SustainedRPS, ISL: float64(s.rec.Workload.ISL), OSL: float64(s.rec.Workload.OSL), SLA: s.rec.SLA.SLA()}
}

// token is how long a request is in flight for each of its output tokens, in seconds, on an
// aggregated engine at its rate; 0 where that rate is not known.
func (s profileSurfaces) token() float64 {
	r, running := s.rated(), s.running
	if pick := s.rec.Aggregated; pick != nil {
		running = pick.InFlight
	}
	if r.RPS == 0 {
		return 0
	}
	return running / (r.RPS * r.OSL)
}

// accepted refuses a profile weaker than the user accepts: somebody's fleet will
// be sized by it.
func (s profileSurfaces) accepted(p *parser) error {
	weakest, err := profile.ParseProvenance(p.choice("accept-provenance", "measured", "simulated", "estimated", "published"))
	if err != nil || s.provenance <= weakest {
		return err
	}
	return field.Errorf("--profile %s: its latencies are %s, not measured on the engine to scale", s.dir, s.provenance).
		Hint("--accept-provenance %s plans by them anyway", s.provenance)
}
