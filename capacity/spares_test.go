package capacity

import (
	"math"
	"math/big"
	"math/bits"
	"strings"
	"testing"

	"plimsoll/engine/enginetest"

	"pgregory.net/rapid"
)

// upByEnumeration adds up every one of the 2^n states of a pool.
func upByEnumeration(needed, n int, a float64) float64 {
	sum := 0.0
	for state := range uint(1) << n {
		if up := bits.OnesCount(state); up >= needed {
			sum += math.Pow(a, float64(up)) * math.Pow(1-a, float64(n-up))
		}
	}
	return sum
}

// Against trying every number of spares up to nine in each pool, and every state
// of every pool.
func TestSparesAgainstEnumeration(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		pools := make([]Pool, rapid.IntRange(1, 2).Draw(t, "pools"))
		for i := range pools {
			pools[i] = Pool{"pool", rapid.IntRange(1, 6).Draw(t, "groups"), rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "gpus"), rapid.IntRange(1, 3).Draw(t, "per domain")}
		}
		a := rapid.SampledFrom([]float64{0.9, 0.95, 0.99, 0.999}).Draw(t, "a")
		target := rapid.SampledFrom([]float64{0, 0.5, 0.91, 0.985, 0.9985, 0.9997}).Draw(t, "target") // none that a product of replicas has exactly
		got, err := Spares(pools, a, target)
		if err != nil {
			t.Fatal(err)
		}
		ups := make([][10]float64, len(pools)) // by the spares of a pool
		for i, p := range pools {
			for k := range ups[i] {
				ups[i][k] = upByEnumeration(p.domains(), p.domains()+k, a)
			}
		}
		best, bestUp := math.MaxInt, 0.0
		var try func(i, gpus int, up float64)
		try = func(i, gpus int, up float64) {
			if i == len(pools) {
				if up >= target && (gpus < best || gpus == best && up > bestUp) {
					best, bestUp = gpus, up
				}
				return
			}
			p := pools[i]
			m := (p.Groups + p.GroupsPerDomain - 1) / p.GroupsPerDomain
			for k, alone := range ups[i] {
				try(i+1, gpus+(m+k)*p.GroupsPerDomain*p.GPUsPerGroup-p.Groups*p.GPUsPerGroup, up*alone)
			}
		}
		try(0, 0, 1)
		if got.SpareGPUs != best || math.Abs(got.Availability-bestUp) > 1e-12 {
			t.Fatalf("%d spare GPUs for %v, by enumeration %d for %v: %+v", got.SpareGPUs, got.Availability, best, bestUp, got)
		}
		product, gpus := 1.0, 0
		for i, s := range got.Pools {
			p := pools[i]
			if s.Groups < p.Groups || s.Groups != s.Domains*p.GroupsPerDomain || s.GPUs != s.Groups*p.GPUsPerGroup || s.GPUs-s.SpareGPUs != p.Groups*p.GPUsPerGroup {
				t.Fatalf("%+v for %+v", s, p)
			}
			product *= upByEnumeration(s.Domains-s.SpareDomains, s.Domains, a)
			gpus += s.SpareGPUs
		}
		if math.Abs(product-got.Availability) > 1e-12 || gpus != got.SpareGPUs || product < target-1e-12 {
			t.Fatalf("availability %v (by enumeration %v), %d GPUs, of %+v", got.Availability, product, gpus, got)
		}
	})
}

// Far into the tail, against sums of big fractions.
func TestLogUpAgainstFractions(t *testing.T) {
	for _, c := range []struct{ needed, spares int }{{1, 0}, {10, 2}, {100, 9}, {400, 20}, {1000, 40}} {
		down := big.NewRat(1, 100)
		up := new(big.Rat).Sub(big.NewRat(1, 1), down)
		n := c.needed + c.spares
		more := new(big.Rat)
		for k := c.spares + 1; k <= n; k++ {
			term := new(big.Rat).SetInt(new(big.Int).Binomial(int64(n), int64(k)))
			term.Mul(term, power(down, k)).Mul(term, power(up, n-k))
			more.Add(more, term)
		}
		want, _ := more.Float64()
		got := -math.Expm1(Pool{Groups: c.needed, GroupsPerDomain: 1}.logUp(c.spares, 0.01))
		if math.Abs(got/want-1) > 1e-9 {
			t.Errorf("%d + %d: %g down, want %g", c.needed, c.spares, got, want)
		}
	}
}

func power(x *big.Rat, n int) *big.Rat {
	e := big.NewInt(int64(n))
	return new(big.Rat).SetFrac(new(big.Int).Exp(x.Num(), e, nil), new(big.Int).Exp(x.Denom(), e, nil))
}

// A target that one replica reaches exactly takes no spare.
func TestSparesAtTheTarget(t *testing.T) {
	for _, a := range []float64{0.9, 0.99, 0.999, 0.9999} {
		r, err := Spares([]Pool{{"p", 1, 4, 1}}, a, a)
		if err != nil || r.SpareGPUs != 0 {
			t.Errorf("%v: %+v, %v", a, r, err)
		}
	}
}

// Where spares cost unlike, the cheap pool takes more of them: with equal shares
// both would need 0.9995.
func TestSparesAreWhereTheyAreCheap(t *testing.T) {
	r, err := Spares([]Pool{{"dear", 4, 8, 1}, {"cheap", 4, 1, 1}}, 0.97, 0.99)
	if err != nil {
		t.Fatal(err)
	}
	if r.Pools[0].SpareDomains != 1 || r.Pools[1].SpareDomains < 2 {
		t.Errorf("%+v", r)
	}
}

// Three spares reach 0.88, two do not: 0 + 3 with 0.9 · 0.992 = 0.893, but 1 + 2
// with 0.99 · 0.962 = 0.952 for the same GPUs.
func TestOfEquallyCheapSparesTheMostAvailable(t *testing.T) {
	r, err := Spares([]Pool{{"prefill", 1, 4, 1}, {"decode", 6, 4, 1}}, 0.9, 0.88)
	if err != nil {
		t.Fatal(err)
	}
	if r.SpareGPUs != 12 || r.Pools[0].SpareDomains != 1 || r.Pools[1].SpareDomains != 2 {
		t.Errorf("%+v", r)
	}
	near(t, "availability", r.Availability, 0.99*upByEnumeration(6, 8, 0.9), 1e-12)
}

func TestSparesLargeFleets(t *testing.T) {
	r, err := Spares([]Pool{{"prefill", 20_000, 8, 1}, {"decode", 20_000, 1, 1}}, 0.5, 0.999)
	if err != nil || r.Availability < 0.999 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestSparesLaws(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		pools := []Pool{
			{"prefill", rapid.IntRange(1, 200).Draw(t, "prefill"), 4, rapid.IntRange(1, 2).Draw(t, "domain")},
			{"decode", rapid.IntRange(1, 200).Draw(t, "decode"), 8, 1},
		}
		a := rapid.Float64Range(0.8, 0.9999).Draw(t, "a")
		target := rapid.Float64Range(0, 0.9999).Draw(t, "target")
		base := gpus(t, pools, a, target)
		if more := gpus(t, pools, a, target+(1-target)*rapid.Float64Range(0, 0.9).Draw(t, "tighter")); more < base {
			t.Fatalf("a tighter target takes %d GPUs, fewer than %d", more, base)
		}
		if better := gpus(t, pools, a+(1-a)*rapid.Float64Range(0, 0.9).Draw(t, "better"), target); better > base {
			t.Fatalf("better replicas take %d GPUs, more than %d", better, base)
		}
		pools[1].Groups += rapid.IntRange(0, 20).Draw(t, "more")
		if more := gpus(t, pools, a, target); more < base {
			t.Fatalf("more groups take %d GPUs, fewer than %d", more, base)
		}
	})
}

// gpus in all.
func gpus(t *rapid.T, pools []Pool, a, target float64) int {
	r, err := Spares(pools, a, target)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, p := range r.Pools {
		n += p.GPUs
	}
	return n
}

func TestSparesRefuses(t *testing.T) {
	ok := []Pool{{"decode", 10, 4, 1}}
	for _, c := range []struct {
		pools     []Pool
		a, target float64
		want      string
	}{
		{nil, 0.99, 0.9, "the number of pools is 0"},
		{ok, 1, 0.9, "--replica-availability is 1: want 0.5"},
		{ok, 0.4, 0.9, "--replica-availability is 0.4"},
		{ok, math.NaN(), 0.9, "--replica-availability is NaN"},
		{ok, 0.99, 1, "--availability is 1: want 0"},
		{[]Pool{{"decode", 0, 4, 1}}, 0.99, 0.9, "decode groups is 0: want 1"},
		{[]Pool{{"decode", 1, 4, 0}}, 0.99, 0.9, "decode groups_per_domain is 0"},
		{[]Pool{{"decode", 1, 0, 1}}, 0.99, 0.9, "decode gpus_per_group is 0"},
	} {
		if _, err := Spares(c.pools, c.a, c.target); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v lacks %q", err, c.want)
		}
	}
}
