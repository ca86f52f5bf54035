package recommend

import (
	"strings"
	"testing"
	"time"

	"plimsoll/profile"
)

// estimated gives points a model error of ± 10 % in nine of ten.
func estimated(ps ...profile.Point) []profile.Point {
	for i := range ps {
		ps[i].Provenance, ps[i].ModelError = profile.Estimated, profile.ModelError{Median: 0.05, P90: 0.1, Factor50: 1.05, Factor90: 1.1, N: 20, Basis: "a test"}
	}
	return ps
}

func warned(c Choice, code string) string {
	for _, w := range c.Warnings {
		if w.Code == code {
			return w.Message
		}
	}
	return ""
}

func TestModelErrorAtTheSLA(t *testing.T) {
	for _, tt := range []struct {
		name string
		ttft time.Duration
		want string // empty = no doubt
	}{
		{"within by more than the error", 90 * ms, ""},
		{"within by less", 95 * ms, "prefill: TTFT 95.00 ms, within a factor of 1.10 by the model's error, may miss the SLA of 100 ms; --ttft 90.9 would leave room for it"},
		{"missed by less", 105 * ms, "prefill: TTFT 105.00 ms, within a factor of 1.10 by the model's error, may yet meet the SLA of 100 ms: measure it"},
		{"missed by more", 120 * ms, ""},
	} {
		c := choose(t, profile.Prefill, sla(100*ms, ms), ByThroughput, estimated(prefill(1, tt.ttft))...)
		if got := warned(c, "model_error_sla"); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	if c := choose(t, profile.Prefill, sla(100*ms, ms), ByThroughput, prefill(1, 95*ms)); len(c.Warnings) != 0 {
		t.Errorf("a point without a model's error: %v", c.Warnings)
	}
}

// The runner-up is named where the error could turn the order round, and the
// pick stays the better one all the same.
func TestModelErrorAndRunnerUp(t *testing.T) {
	pick := func(second time.Duration) Choice {
		return choose(t, profile.Prefill, sla(time.Second, ms), ByThroughput, estimated(prefill(2, 100*ms), prefill(1, second))...)
	}
	near := pick(210 * ms) // 5 % less throughput per GPU
	if got := warned(near, "model_error_rank"); near.Picked.Label() != "TP:2" || !strings.HasPrefix(got, "prefill: TP:1 is within the model's error of the pick TP:2: 14285.71 against 15000.00 tokens/s/GPU") {
		t.Errorf("picked %s, %q", near.Picked.Label(), got)
	}
	if got := warned(pick(230*ms), "model_error_rank"); got != "" { // 13 % less
		t.Errorf("%q", got)
	}
}
