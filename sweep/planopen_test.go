package sweep

import (
	"testing"

	"plimsoll/profile"
)

// A load that verifies a prefill pick asks for one token of each request, in the plan
// as in the run.
func TestPlannedPrefillLoadHasOneTokenEach(t *testing.T) {
	b := newLab(map[string]law{"TP:1": affine(1)})
	o := openOptions(b, Disaggregated, 1)
	for _, s := range Plan(o) {
		want := int64(s.Cost.Requests)
		if s.Stage != profile.StageVerify {
			continue
		}
		if s.Phase != profile.Prefill {
			want *= int64(o.OSL)
		}
		if want == 0 || s.Cost.OutputTokens != want {
			t.Errorf("%s: %d output tokens of %d requests", s.Phase, s.Cost.OutputTokens, s.Cost.Requests)
		}
	}
}

// Loads in virtual time keep an engine in real time no longer than they take to
// compute.
func TestPlannedVirtualLoadTakesNoEngineTime(t *testing.T) {
	b := newLab(map[string]law{"TP:1": affine(1)})
	o := openOptions(b, Disaggregated, 1)
	o.Virtual, o.Open.Virtual = false, true
	for _, s := range Plan(o) {
		if got := s.Cost.EngineSeconds; s.Stage == profile.StageVerify && (got != s.Expected.Seconds() || got > 1) {
			t.Errorf("%s: %.2f engine-seconds, %v in all", s.Phase, got, s.Expected)
		}
	}
}
