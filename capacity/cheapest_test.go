package capacity

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
)

// The cheapest layout is the one that sizing all of them gives, and what is said of
// each is what its own sizing says.
func TestCheapestIsTheBestOfAll(t *testing.T) {
	t.Parallel()
	enginetest.Check(t, func(r *rapid.T) {
		var all []Variants
		for range rapid.IntRange(1, 4).Draw(r, "layouts") {
			p := cheapPool(engine.RoleAggregated, cheap{
				step:   engine.Picoseconds(rapid.IntRange(2, 80).Draw(r, "step")) * milli,
				prompt: engine.Picoseconds(rapid.IntRange(5, 60).Draw(r, "prompt")) * us,
			}, 100, 1e6, 2048)
			p.USDPerGPUHour = USD(rapid.IntRange(1, 4).Draw(r, "usd"))
			all = append(all, Variants{together(p)})
		}
		traffic, err := fixed(20, 200, 10).PeakTraffic()
		if err != nil {
			r.Fatal(err)
		}
		slo, o := SLO{TTFTP99: 300 * time.Millisecond, ITLP99: 70 * ms}, SizeOptions{Seed: 1, Rough: true, Requests: leastRequests}
		best, sized, err := Cheapest(all, traffic, slo, o)
		if err != nil {
			r.Fatal(err)
		}
		for i, l := range all {
			one, err := l.Size(traffic, slo, o)
			if err != nil {
				r.Fatal(err)
			}
			if one.before(sized[best], slo) {
				r.Fatalf("layout %d was chosen, and %d is better: %+v", best, i, one)
			}
			if s := sized[i]; (s.Replicas != nil || s.Infeasible != nil) && (!slices.Equal(s.Replicas, one.Replicas) || (s.Infeasible == nil) != (one.Infeasible == nil)) {
				r.Fatalf("layout %d: %+v, sized alone %+v", i, s, one)
			}
		}
	})
}

// Where none holds the SLO, the one that comes nearest is named.
func TestCheapestOfNoneIsTheNearest(t *testing.T) {
	t.Parallel()
	slow := func(step engine.Picoseconds) Layout {
		return together(cheapPool(engine.RoleAggregated, cheap{step: step * milli}, 100, 1e6, 2048))
	}
	traffic, err := fixed(5, 200, 10).PeakTraffic()
	if err != nil {
		t.Fatal(err)
	}
	best, sized, err := Cheapest([]Variants{{slow(90)}, {slow(40)}, {slow(60)}}, traffic, SLO{TTFTP99: time.Second, ITLP99: 20 * ms}, SizeOptions{Seed: 1, Rough: true})
	if err != nil || best != 1 || sized[1].Infeasible == nil {
		t.Errorf("%d, %+v, %v", best, sized, err)
	}
	many := fixed(1e6, 20_000, 10)
	if traffic, err = many.PeakTraffic(); err != nil {
		t.Fatal(err)
	}
	heavy := together(cheapPool(engine.RoleAggregated, cheap{prompt: 100 * us}, 100, 1e6, 2048))
	if _, _, err := Cheapest([]Variants{{heavy}}, traffic, SLO{TTFTP99: time.Minute, ITLP99: time.Second}, SizeOptions{}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v", err)
	}
}
