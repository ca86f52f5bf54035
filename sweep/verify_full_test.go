//go:build full

package sweep

import (
	"testing"

	"plimsoll/engine/enginetest"
	"plimsoll/profile"
)

// A load of too few requests for its percentile is sent again with more of them.
func TestFewRequestsAreSentAgain(t *testing.T) {
	t.Parallel()
	seeds := uint64(1)
	if enginetest.Full {
		seeds = 8
	}
	for seed := range seeds {
		b := newLab(map[string]law{"TP:4": affine(4)})
		o := openOptions(b, Aggregated, 4)
		o.SLA.Stat, o.Open.Requests, o.Seed = profile.P99, 1, seed
		res, _, err := run(t, b, o, Known{})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range res.Points {
			if a := p.Load; p.Rate > 0 && a.Few(p.Phase, o.SLA) && !a.Growing && a.Stopped == "" {
				t.Errorf("seed %d: %s is judged by %d requests", seed, p.ID, a.Requests)
			}
		}
	}
}

// Who waits holds no KV cache, and no cache holds more than itself.
func TestKVUseOfALoad(t *testing.T) {
	b := newLab(map[string]law{"TP:4": affine(4)})
	o := openOptions(b, Aggregated, 4)
	res, _, err := run(t, b, o, Known{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range res.Points {
		if most := p.InFlight * p.Context / float64(p.MaxKV); p.Rate > 0 && (p.KVUsage > min(1, most) || p.KVUsage <= 0) {
			t.Errorf("%s: KV use %.3f, where all that are in flight would make %.3f", p.ID, p.KVUsage, most)
		}
	}
	w := profile.Window{From: 10 * ms, To: 20 * ms}
	rs := []profile.Request{{Due: ms, First: 5 * ms, End: 15 * ms}, {Due: ms, First: 18 * ms}, {Due: ms, End: 30 * ms}, {Due: ms, First: 2 * ms, End: 3 * ms}}
	if got := decoding(rs, w); got != 0.7 {
		t.Errorf("%v requests are decoded in the mean, want 0.7", got)
	}
}
