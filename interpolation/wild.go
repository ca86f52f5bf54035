package interpolation

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"plimsoll/profile"
)

// Wild is a sample that the others contradict. The fit gives it little weight.
type Wild struct {
	Index int     // of the sample in its surface
	Off   float64 // relative, of what was measured to what the others say; −0.3 = 30 % below
}

// CodeWild is of samples that the others contradict.
const CodeWild = "wild_sample"

const (
	wildSD         = 4.5   // standard deviations of a fit without it beyond which a sample is wild
	suspectSD      = 1.5   // of one with it, from which that is asked
	wildOff        = 0.07  // and at least so far off, relative
	leastForWild   = 5     // samples of which one can be wild
	wildShare      = 5     // at most one in so many is
	normalQuantile = 1.645 // 95 %: what wildSD is held against where samples are many
	noTrust        = 1e-4  // in a wild sample
	mostPoints     = 160   // that a field takes in; of more, each stands for its neighbours
)

// fitField fits y, in ns, measured at p. doubt is by how much, relative, each
// sample contradicts itself. Wild samples are set aside one by one, the wildest
// first, for it makes others look wild too.
func fitField(p []point, y, doubt []float64, terms []term) (*field, []Wild) {
	trust := make([]float64, len(p))
	for i, d := range doubt {
		trust[i] = 1 / (1 + d*d/priorNoise/priorNoise)
	}
	if len(p) > mostPoints {
		t := fitTrend(p, y, trust, terms)
		p, y, trust = thin(p, y, trust, t)
		return newField(p, y, trust, t), nil
	}
	var found []Wild
	f := newField(p, y, trust, fitTrend(p, y, trust, terms))
	for len(p) >= leastForWild && len(found) < len(p)/wildShare {
		i := suspect(f)
		if i < 0 {
			break
		}
		apart := slices.Clone(trust)
		apart[i] = noTrust
		g := newField(p, y, apart, fitTrend(p, y, apart, terms))
		off, sd := g.left()
		if math.Abs(off[i]) < wildSD*sd[i]*g.quantile/normalQuantile {
			break
		}
		f, trust = g, apart
		found = append(found, Wild{Index: i, Off: math.Expm1(off[i])})
	}
	return f, found
}

// suspect is the sample that is the most off what the others say, −1 if none is
// off by much. It bends the field towards itself, so that only a fit without it
// tells whether it is wild.
func suspect(f *field) int {
	off, sd := f.left()
	at, worst := -1, suspectSD
	for i := range off {
		if z := math.Abs(off[i]) / sd[i]; f.trust[i] > noTrust && z > worst && math.Abs(off[i]) > wildOff {
			at, worst = i, z
		}
	}
	return at
}

// thin keeps at most mostPoints of samples, in order of context and load: of
// each few neighbours the one in the middle of their errors.
func thin(p []point, y, trust []float64, t trend) (q []point, z, w []float64) {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return p[a].compare(p[b]) })
	size := (len(p) + mostPoints - 1) / mostPoints
	for group := range slices.Chunk(order, size) {
		slices.SortStableFunc(group, func(a, b int) int {
			return cmp.Compare(y[a]/t.at(p[a]), y[b]/t.at(p[b]))
		})
		i := group[len(group)/2]
		q, z, w = append(q, p[i]), append(z, y[i]), append(w, trust[i])
	}
	return q, z, w
}

// wildWarnings names wild samples; name says where each was measured.
func wildWarnings(wild []Wild, name func(index int) string) []profile.Warning {
	var where []string
	for _, x := range wild {
		where = append(where, fmt.Sprintf("%s (%+.0f %%)", name(x.Index), 100*x.Off))
	}
	if where == nil {
		return nil
	}
	return []profile.Warning{profile.Warnf(CodeWild, "these samples contradict the others, so the fit gives them little weight: %s", list(where))}
}
