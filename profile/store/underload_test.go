package store

import (
	"testing"

	"plimsoll/profile"
)

// What a run under load says beside its pick: who misses what, and what to ask for
// where the SLA's own statistic allows it.
func TestVerdictUnderLoad(t *testing.T) {
	share := 0.8
	for name, c := range map[string]struct {
		a    Attained
		stat profile.Statistic
		want UnderLoad
	}{
		"a mean hides it":   {Attained{Holds: true, Within: 0.8, WithinTTFT: &share}, profile.Mean, UnderLoad{true, 0.2, "TTFT", profile.P99}},
		"so does a median":  {Attained{Holds: true, Within: 0.8, WithinITL: &share}, profile.P50, UnderLoad{true, 0.2, "ITL", profile.P99}},
		"as was asked":      {Attained{Holds: true, Within: 0.95, WithinITL: &share}, profile.P90, UnderLoad{true, 0.05, "ITL", ""}},
		"hardly any":        {Attained{Holds: true, Within: 0.995, WithinTTFT: &share, WithinITL: &share}, profile.Mean, UnderLoad{true, 0.005, "TTFT or ITL", ""}},
		"misses its own":    {Attained{Within: 0.2, WithinTTFT: &share}, profile.Mean, UnderLoad{false, 0.8, "TTFT", ""}},
		"none misses":       {Attained{Holds: true, Within: 1, WithinTTFT: &share}, profile.Mean, UnderLoad{true, 0, "TTFT", ""}},
		"by the strictest":  {Attained{Holds: true, Within: 0.98, WithinTTFT: &share}, profile.P99, UnderLoad{true, 0.02, "TTFT", ""}},
		"aggregated engine": {Attained{Holds: true, Within: 0.5, WithinTTFT: &share, WithinITL: &share}, profile.Mean, UnderLoad{true, 0.5, "TTFT or ITL", profile.P99}},
	} {
		got := c.a.Verdict(c.stat)
		if off := got.Misses - c.want.Misses; off*off > 1e-18 {
			t.Errorf("%s: %+v, want %+v", name, *got, c.want)
		}
		if got.Misses = c.want.Misses; *got != c.want {
			t.Errorf("%s: %+v, want %+v", name, *got, c.want)
		}
	}
	var none *Attained
	if none.Verdict(profile.Mean) != nil {
		t.Error("a pick that nobody ran has a verdict")
	}
}
