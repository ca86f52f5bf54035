//go:build full

package capacity

import (
	"errors"
	"slices"
	"testing"
)

// A limit at what a layout costs changes nothing, one below leaves it out, by
// fewer trials than sizing it takes; also where a rough sizing went before.
func TestSizeWithinALimit(t *testing.T) {
	for name, k := range limited() {
		traffic, err := k.w.PeakTraffic()
		if err != nil {
			t.Fatal(err)
		}
		for _, rough := range []bool{true, false} {
			free, err := Size(k.layout, traffic, k.slo, SizeOptions{Seed: 1, Rough: rough})
			if err != nil || free.Infeasible != nil {
				t.Fatal(name, err, free.Infeasible)
			}
			after, err := Size(k.layout, traffic, k.slo, SizeOptions{Seed: 1, Rough: true})
			if err != nil {
				t.Fatal(name, err)
			}
			from := &after
			if rough {
				from = nil
			}
			for _, more := range []USD{0, 5} {
				got, err := Size(k.layout, traffic, k.slo, SizeOptions{Seed: 1, Rough: rough, After: from, LimitUSD: free.HourlyUSD + more})
				if err != nil || !slices.Equal(got.Replicas, free.Replicas) {
					t.Errorf("%s, rough %v: %v for $%v an hour at most, %v without a limit; %v", name, rough, got.Replicas, free.HourlyUSD+more, free.Replicas, err)
				}
			}
			for _, less := range []USD{1, free.HourlyUSD - 0.5} {
				got, err := Size(k.layout, traffic, k.slo, SizeOptions{Seed: 1, Rough: rough, After: from, LimitUSD: free.HourlyUSD - less})
				if !errors.Is(err, ErrDearer) || !rough && got.Trials > 2 || got.Trials >= free.Trials {
					t.Errorf("%s, rough %v: for $%v an hour %v after %d trials (%v, %d without a limit)", name, rough, free.HourlyUSD-less, got.Replicas, got.Trials, err, free.Trials)
				}
			}
		}
	}
}
