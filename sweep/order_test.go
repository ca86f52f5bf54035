package sweep

import (
	"strings"
	"testing"

	"plimsoll/profile"
)

// What answers comes first: both picks, the rate that they hold, a coarse surface of each
// phase, and then the rest.
func TestAnswersComeFirst(t *testing.T) {
	b := newLab(three())
	o := openOptions(b, Disaggregated, 1)
	_, n, err := run(t, b, o, Known{})
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, p := range n.Points {
		if at := string(p.Stage) + " " + string(p.Phase); len(order) == 0 || order[len(order)-1] != at {
			order = append(order, at)
		}
	}
	const want = "sweep prefill, sweep decode, verify prefill, verify decode, surface prefill, surface decode, surface prefill, surface decode"
	if got := strings.Join(order, ", "); got != want {
		t.Errorf("measured in the order\n%s, want\n%s", got, want)
	}
}

// A journal whose points are of another configuration under this one's names ends with an
// error, not with the same question for ever.
func TestResumeOfOtherPointsEnds(t *testing.T) {
	b := newLab(three())
	o := options(b, 1)
	_, n, err := run(t, b, o, Known{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n.Points {
		if n.Points[i].Stage == profile.StageSurface {
			n.Points[i].Config.Limits.MaxModelLen = 7
		}
	}
	if _, err := Run(t.Context(), o, newLab(three()), &notes{}, n.Known, nil); err == nil || !strings.Contains(err.Error(), "surface/prefill") {
		t.Errorf("got %v", err)
	}
}
