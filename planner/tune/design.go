package tune

import (
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distmv"
	"gonum.org/v1/gonum/stat/samplemv"
)

// designTries is how many points are looked at for some that are wanted: others are
// not valid, or are there already, since values are rounded.
func designTries(want int) int { return 1000 + 4*want }

// design is as many valid settings as are wanted, all different and none of them the
// default; fewer where the ranges hold no more.
func (o Options) design(want int) []Setting {
	k := len(o.Parameters)
	tries := designTries(want)
	points := mat.NewDense(tries, k, nil)
	source := rand.NewPCG(o.Seed, designSalt)
	samplemv.Halton{Kind: samplemv.Owen, Q: distmv.NewUnitUniform(k, nil), Src: source}.Sample(points)
	seen := map[string]bool{o.defaults().key(): true}
	var out []Setting
	for i := 0; i < tries && len(out) < want; i++ {
		s := make(Setting, k)
		for j, p := range o.Parameters {
			s[j] = p.at(points.At(i, j))
		}
		if seen[s.key()] {
			continue
		}
		seen[s.key()] = true
		if o.valid(s) {
			out = append(out, s)
		}
	}
	return out
}

// designSalt makes the design's randomness other numbers of the seed than all else.
const designSalt = 0x74756e65

func (o Options) valid(s Setting) bool { return o.Valid == nil || o.Valid(s) }

// rung is how many seeds the settings have that are left.
type rung struct{ settings, seeds int }

// rungs are those of a halving that begins with n settings.
func rungs(n, seeds int) []rung {
	var out []rung
	for s := 1; ; s *= 2 {
		s = min(s, seeds)
		out = append(out, rung{n, s})
		if s == seeds {
			return out
		}
		n = (n + 1) / 2
	}
}

// trials is what rungs take.
func trials(rs []rung) (sum int) {
	seeds := 0
	for _, r := range rs {
		sum += r.settings * (r.seeds - seeds)
		seeds = r.seeds
	}
	return sum
}

// first is how many settings a budget lets a halving begin with. The default
// settings take all seeds, and so does each parameter that is put back at last,
// where the budget has room for that.
func (o Options) first() int {
	rest := o.Budget - o.Seeds
	if less := rest - len(o.Parameters)*o.Seeds; trials(rungs(1, o.Seeds)) <= less {
		rest = less
	}
	low, high := 1, o.Budget+1 // low is enough, high is too many
	for high-low > 1 {
		if n := (low + high) / 2; trials(rungs(n, o.Seeds)) <= rest {
			low = n
		} else {
			high = n
		}
	}
	return low
}
