package sweep

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"plimsoll/profile"
)

// sameCapacity is how far the KV capacity of one engine may move from start to start,
// as a share: engines measure the memory that is free.
const sameCapacity = 0.05

// otherEngine says how the engine that the trial started differs from what an earlier
// run measured; nil where it does not, or nothing was measured. One version is wanted of
// all configurations, since they are compared; the rest of the same one.
func (k Known) otherEngine(s *trial) error {
	var diff []string
	for _, name := range slices.Sorted(maps.Keys(k.Engines)) {
		was := k.Engines[name]
		if !k.measured(name) {
			continue
		}
		if v := was.Version; v != "" && s.facts.Version != "" && v != s.facts.Version {
			diff = append(diff, fmt.Sprintf("version %s, %s was %s", s.facts.Version, name, v))
			break
		}
		if name == s.name {
			diff = append(diff, otherShape(s.facts, was)...)
		}
	}
	if len(diff) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w: %s", s.name, ErrOtherEngine, strings.Join(diff, "; "))
}

// otherShape are the differences of an engine's limits; what either does not know is none.
func otherShape(now, was profile.EngineFacts) (diff []string) {
	for _, f := range []struct {
		what     string
		now, was int
		within   float64
	}{
		{"KV capacity", now.KVTokens, was.KVTokens, sameCapacity},
		{"sequence limit", now.MaxNumSeqs, was.MaxNumSeqs, 0},
		{"context limit", now.MaxModelLen, was.MaxModelLen, 0},
	} {
		if f.now > 0 && f.was > 0 && math.Abs(float64(f.now-f.was)) > f.within*float64(f.was) {
			diff = append(diff, fmt.Sprintf("%s %d, was %d", f.what, f.now, f.was))
		}
	}
	return diff
}

// measured reports whether an earlier run has points of the engine of that name that
// need not be measured again.
func (k Known) measured(name string) bool {
	return slices.ContainsFunc(k.Points, func(p profile.Point) bool {
		slug := p.Config.Slug()
		return p.Discarded == "" && usable(p) && (name == slug || name == string(p.Phase)+"/"+slug)
	})
}
