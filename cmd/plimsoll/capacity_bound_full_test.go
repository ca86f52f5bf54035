//go:build full

package main

import (
	"errors"
	"testing"
	"time"

	"plimsoll/capacity"
	"plimsoll/engine"
)

// What is too large to simulate, or costs more than a limit, is left out by name;
// it fails a plan only where nothing is left.
func TestLeftOutByTrials(t *testing.T) {
	t.Parallel()
	const us = engine.Microsecond
	w := capacity.Workload{Rate: 10, ISL: 1000, ISLP99: 1000, OSL: 100, OSLP99: 100, PeakToAverage: 1, Pattern: "flat"}
	traffic, err := w.PeakTraffic()
	if err != nil {
		t.Fatal(err)
	}
	of := func(limitUSD capacity.USD, cs ...candidate) (sizing, error) {
		z := sizing{capacityOptions: capacityOptions{demand: demand{workload: w, slo: capacity.SLO{TTFT: time.Hour, ITL: time.Hour}}}, traffic: traffic}
		if limitUSD > 0 {
			return z, z.add(cs, limitUSD)
		}
		return z, z.rough(cs)
	}
	small, huge := priced("small", 200*us, 4000*us, 1), priced("huge", 10*engine.Second, 400*us, 1)
	z, err := of(0, huge, small)
	if err != nil || len(z.plans) != 1 || z.plans[0].candidate.name() != small.name() || len(z.leftOut) != 1 ||
		z.leftOut[0].Label != huge.name() || z.leftOut[0].Reason != "more than 100000 engines in a pool: too large to simulate" {
		t.Errorf("plans %v, left out %v, %v", z.plans, z.leftOut, err)
	}
	if _, err := of(0, huge); !errors.Is(err, capacity.ErrTooLarge) {
		t.Errorf("a plan of nothing but what is too large: %v", err)
	}
	if z, err := of(2, small); err != nil || len(z.plans) != 0 || len(z.leftOut) != 1 || z.leftOut[0].Reason != "no fleet of it for up to $2.00 an hour holds the SLO" {
		t.Errorf("plans %v, left out %v, %v", z.plans, z.leftOut, err)
	}
}
