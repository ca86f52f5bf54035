package recommend

import (
	"slices"
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
		{"within by less", 95 * ms, "prefill: TTFT 95.00 ms may miss the SLA of 100 ms, as the model's error is a factor of 1.10. Use --ttft 90.9 to leave room for it"},
		{"missed by less", 105 * ms, "prefill: TTFT 105.00 ms may still meet the SLA of 100 ms, as the model's error is a factor of 1.10. Measure it"},
		{"missed by more", 120 * ms, ""},
	} {
		c := choose(t, profile.Prefill, sla(100*ms, ms), BySingle, estimated(prefill(1, tt.ttft))...)
		if got := warned(c, "model_error_sla"); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	if c := choose(t, profile.Prefill, sla(100*ms, ms), BySingle, prefill(1, 95*ms)); len(c.Warnings) != 0 {
		t.Errorf("a point without a model's error: %v", c.Warnings)
	}
}

// Both latencies of an aggregated engine have the model's error, each its own.
func TestModelErrorOfALoad(t *testing.T) {
	wide, narrow := profile.ModelError{Factor90: 1.5}, profile.ModelError{Factor90: 1.1}
	for _, tt := range []struct {
		name      string
		ttft, itl time.Duration
		held      bool
		want      []string
	}{
		{"both held by more", 100 * ms, 15 * ms, true, nil},
		{"both held by less", 150 * ms, 19 * ms, true, []string{
			"aggregated: TTFT 150.00 ms may miss the SLA of 200 ms, as the model's error is a factor of 1.50. Use --ttft 133.33 to leave room for it",
			"aggregated: ITL 19.00 ms may miss the SLA of 20 ms, as the model's error is a factor of 1.10. Use --itl 18.18 to leave room for it",
		}},
		{"one missed by less", 250 * ms, 15 * ms, false, []string{
			"aggregated: TTFT 250.00 ms may still meet the SLA of 200 ms, as the model's error is a factor of 1.50. Measure it",
		}},
		{"the other missed by more", 250 * ms, 30 * ms, false, nil},
	} {
		ws := LoadDoubts(loaded(1, 1, tt.ttft, tt.itl, 100), tt.held, sla(200*ms, 20*ms), wide, narrow)
		var got []string
		for _, w := range ws {
			got = append(got, w.Message)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	if ws := LoadDoubts(loaded(1, 1, 199*ms, 19*ms, 100), true, sla(200*ms, 20*ms), profile.ModelError{}, profile.ModelError{}); ws != nil {
		t.Errorf("of what was measured: %v", ws)
	}
}
