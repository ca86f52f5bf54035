package recommend

import (
	"errors"
	"strings"
	"testing"

	"plimsoll/profile"
)

// A percentile of too few independent samples is never picked, however good it
// looks, and its reason says what it would take.
func TestUndecidedIsNeverPicked(t *testing.T) {
	s := sla(0, 10*ms)
	s.Stat = profile.P99
	thin, sure := decode(1, 64, 4*ms), decode(1, 8, 4*ms) // P99 is twice the mean
	thin.ITL.Neff = 10
	sure.ITL.Neff, sure.ITL.Std, sure.OSL = 400, ms, 101
	thin.TPOT, sure.TPOT = thin.ITL, sure.ITL
	c := choose(t, profile.Decode, s, BySingle, thin, sure)
	if !c.Feasible || c.Picked.Point.InFlight != 8 || len(c.Rejected) != 1 {
		t.Fatalf("picked %v in flight, rejected %v", c.Picked.Point.InFlight, c.Rejected)
	}
	if r := c.Rejected[0]; r.Metric != "undecided" || r.Value != 10 || r.Reason != "too few samples to judge p99 ITL: 10 independent ones, 20 needed" {
		t.Errorf("%+v", r)
	}
	_, err := Choose(profile.Decode, []profile.Point{thin}, s, BySingle, 150)
	if !errors.Is(err, ErrNoPoints) || !errors.Is(err, ErrUndecided) || !strings.Contains(err.Error(), "It needs 20 independent samples; the most were 10") {
		t.Errorf("all undecided: %v", err)
	}
	thin.Provenance = profile.Estimated // the model's percentile, not a sample's
	if c := choose(t, profile.Decode, s, BySingle, thin, sure); c.Picked.Point.InFlight != 64 {
		t.Errorf("an estimate counts as undecided")
	}
}

// Figures that are not the engine's are never picked, nor the nearest.
func TestInvalidIsNeverPicked(t *testing.T) {
	bad := prefill(1, 5*ms)
	bad.Invalid = "60 % of the tokens of new prompts came from the prefix cache"
	c := choose(t, profile.Prefill, sla(10*ms, 0), BySingle, bad, prefill(2, 45*ms))
	if c.Feasible || c.Picked.Label() != "TP:2" || c.Rejected[0].Metric != "invalid" || c.Rejected[0].Reason != "invalid: "+bad.Invalid {
		t.Errorf("picked %s, rejected %+v", c.Picked.Label(), c.Rejected)
	}
	if _, err := Choose(profile.Prefill, []profile.Point{bad}, sla(10*ms, 0), BySingle, 150); !errors.Is(err, ErrNoPoints) || errors.Is(err, ErrUndecided) {
		t.Errorf("%v", err)
	}
}

// A percentile of ITL is of requests' means: gaps of 8 ms at p99 break none of 6 ms.
func TestPercentileOfITLIsOfRequests(t *testing.T) {
	p := decode(1, 8, 4*ms)
	p.OSL, p.ITL.Neff = 101, 400
	p.TPOT = profile.Distribution{N: 500, Mean: 4 * ms, Std: 430_000} // a p99 of 5 ms
	s := profile.SLA{ITL: 6 * ms, Stat: profile.P99}
	if c := choose(t, profile.Decode, s, BySingle, p); !c.Feasible {
		t.Error("requests of 5 ms at p99 miss 6 ms")
	}
}
