package main

import (
	"slices"
	"strings"
	"testing"

	"plimsoll/capacity"
	"plimsoll/engine"
)

// A GPU that nothing is known of but its data sheet is picked only where no other holds
// the SLO, however cheap or fast it is.
func TestStarredPlansComeLast(t *testing.T) {
	plan := func(name string, starred bool, usd capacity.USD, rps float64) sizedPlan {
		p := sizedPlan{RPS: rps, candidate: candidate{layout: capacity.Layout{Pools: []capacity.EnginePool{{GPU: name, FromDataSheet: starred, USDPerGPUHour: usd}}}}}
		p.Pools = []capacity.PoolPlan{{GPUs: 1}}
		if rps == 0 {
			p.Infeasible = &capacity.Infeasible{}
		}
		return p
	}
	a, b := plan("A", false, 5, 10), plan("B", false, 4, 20)
	cheap, cheaper := plan("cheap", true, 2, 30), plan("cheaper", true, 1, 40)
	unpriced, fails := plan("unpriced", false, capacity.UnknownUSD(), 9), plan("fails", false, 1, 0)
	for _, c := range []struct {
		what  string
		plans []sizedPlan
		want  string
	}{
		{"both kinds hold", []sizedPlan{cheap, a, cheaper, b}, "B A cheaper cheap"},
		{"a price is no reason", []sizedPlan{cheap, unpriced}, "unpriced cheap"},
		{"only starred ones", []sizedPlan{cheap, cheaper}, "cheaper cheap"},
		{"the measured one fails", []sizedPlan{fails, cheap}, "cheap fails"},
	} {
		for order, by := range map[string]func(a, b sizedPlan) int{"cost": demand{}.cheaper, "rate": demand{}.faster} {
			var names []string
			for _, p := range slices.SortedStableFunc(slices.Values(c.plans), by) {
				names = append(names, p.candidate.layout.Pools[0].GPU)
			}
			if got := strings.Join(names, " "); got != c.want {
				t.Errorf("%s, by %s: %s, want %s", c.what, order, got, c.want)
			}
		}
	}
}

// Each kind of GPU is sized by itself, and its layouts without a price, or starred, too.
func TestByKind(t *testing.T) {
	c := func(gpu string, starred bool, usd capacity.USD) candidate {
		return candidate{layout: capacity.Layout{Pools: []capacity.EnginePool{{GPU: gpu, FromDataSheet: starred, USDPerGPUHour: usd}}}}
	}
	none := capacity.UnknownUSD()
	var sizes []int
	for _, part := range byKind([]candidate{c("A", false, 1), c("B", false, 2), c("A", false, 2), c("A", false, none), c("C", true, 0), c("C", true, 1), c("C", true, none)}) {
		sizes = append(sizes, len(part))
	}
	if !slices.Equal(sizes, []int{2, 1, 1, 2, 1}) || byKind(nil) != nil {
		t.Errorf("parts of %v", sizes)
	}
	z := sizing{}
	err := z.each([]candidate{c("A", false, 3), c("B", false, 2), c("A", false, 1)}, z.cheaper, func(kind *sizing, cs []candidate) error {
		if len(kind.plans) > 0 {
			t.Errorf("%s is limited by what others cost", cs[0].layout.Pools[0].GPU)
		}
		kind.plans = []sizedPlan{{candidate: cs[0], Plan: capacity.Plan{TotalGPUsFinal: 3 - len(cs)}}}
		return nil
	})
	if err != nil || len(z.plans) != 2 || !z.plans[0].candidate.has("A") {
		t.Errorf("%v, %v: want the cheaper kind first", z.plans, err)
	}
}

// Pools of two candidates are each as far off as its own kind.
func TestPairIsOffByItsPools(t *testing.T) {
	a, b := priced("A", 1, 1, 1), priced("B", 1, 1, 1)
	a.off, b.off = engine.Factors{TTFT: 1.5, ITL: 1.2}, engine.Factors{TTFT: 3, ITL: 2}
	if off := pair(a, b).off; off != (engine.Factors{TTFT: 1.5, ITL: 2}) {
		t.Errorf("%+v", off)
	}
}
