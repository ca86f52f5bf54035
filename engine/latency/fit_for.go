package latency

import (
	"fmt"
	"math"
	"strings"

	"plimsoll/engine"
)

// FitFor is the shipped fit for an engine and its version, "" = not known: the fit to
// its rows, else that of the engine's nearest version, else DefaultFit. The latter two
// are Other: Engine and Version say what the fit stands for, the name says both, and
// a Model's errors are those on an engine of which the fit has no row.
func FitFor(kind engine.Kind, version string) Fit {
	version = strings.TrimPrefix(version, "v")
	wanted, known := release(version)
	best, least := -1, math.MaxInt
	for i, f := range shipped() {
		if f.Engine != string(kind) {
			continue
		}
		if version != "" && strings.HasPrefix(f.Version+".", version+".") {
			return Fits()[i]
		}
		if best < 0 { // of an unknown version
			best = i
		}
		if of, ok := release(f.Version); known && ok {
			if d := max(of-wanted, wanted-of); d < least {
				best, least = i, d
			}
		}
	}
	if !known {
		version = "" // such as nightly
	}
	f := Fits()[max(best, 0)]
	if f.Engine == string(kind) && f.Version == version || kind == "" {
		return f
	}
	f.Name = fmt.Sprintf("%s for %s", f.Name, strings.TrimSpace(string(kind)+" "+version))
	f.Engine, f.Version, f.Other = string(kind), version, true
	return f
}

// release is a version as a number: 0.19.1 is 19,001. A year is no version that others
// are near to.
func release(version string) (number int, ok bool) {
	var major, minor, patch int
	n, _ := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch)
	return 1_000_000*major + 1000*minor + patch, n > 0 && major < firstYear
}
