package sweep

import (
	"slices"
	"strings"
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

// How long is left is not said while a search goes on whose loads nobody can time beforehand.
func TestTimeLeftIsNotSaidOfUnratedLoads(t *testing.T) {
	for _, modeled := range []bool{true, false} {
		b := newLab(map[string]law{"TP:1": affine(1)})
		o := openOptions(b, Aggregated, 1)
		if !modeled {
			o.Expect = nil
		}
		said := 0
		_, err := Run(t.Context(), o, b, &notes{}, Known{}, func(p Progress) {
			if p.Remaining > 0 && strings.HasPrefix(p.Text, string(profile.StageSweep)+"/") {
				said++
			}
		})
		if err != nil || (said > 0) != modeled {
			t.Errorf("modeled %v: said %d times, %v", modeled, said, err)
		}
	}
}

// Where the pick is not known the plan takes the candidate with most GPUs, though one with
// other tokens in a step may come after it.
func TestPlanTakesTheLargestCandidate(t *testing.T) {
	for _, mode := range []Mode{Disaggregated, Aggregated} {
		for _, modeled := range []bool{true, false} {
			b := newLab(three())
			o := openOptions(b, mode, 1, 2)
			if !modeled {
				o.Expect = nil
			}
			after := func(p []Step) (loads []Step) {
				for _, s := range p {
					if s.Stage == profile.StageVerify || mode == Aggregated && s.Stage == profile.StageSurface || !modeled && s.Stage == profile.StageSurface {
						loads = append(loads, s)
					}
				}
				return loads
			}
			want := after(Plan(o))
			chunked := o.Candidates[0]
			chunked.Limits.MaxNumBatchedTokens = 512
			o.Candidates = append(o.Candidates, chunked)
			if got := after(Plan(o)); len(want) == 0 || !slices.Equal(got, want) {
				t.Errorf("%s, modeled %v: %+v, want as of TP:2 %+v", mode, modeled, got, want)
			}
		}
	}
}
