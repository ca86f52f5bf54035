package sweep

import (
	"slices"
	"strings"
	"testing"

	"plimsoll/profile"
)

// A pick whose mean holds is loaded again for the rate at which 95 % of requests are
// within the SLA.
func TestVerifyMostRequests(t *testing.T) {
	lower := 0
	b := newLab(map[string]law{"TP:2": affine(2)})
	res, notes, err := run(t, b, openOptions(b, Disaggregated, 2), Known{})
	if err != nil || len(res.Verified) != 2 {
		t.Fatalf("%d verified, %v", len(res.Verified), err)
	}
	for _, v := range res.Verified {
		if v.Most <= 0 || v.Most > v.Rate {
			t.Errorf("%s: %v of %v requests/s", v.Phase, v.Most, v.Rate)
		}
		if v.Most == v.Rate {
			continue
		}
		lower++
		i := slices.IndexFunc(notes.Points, func(p profile.Point) bool {
			return p.Phase == v.Phase && p.Rate == v.Most && strings.HasPrefix(p.ID, "verify95/")
		})
		if i < 0 || notes.Points[i].Load.Share(v.Phase) < profile.MostRequests {
			t.Errorf("%s: no load at %v requests/s has 95 %% of its requests within the SLA", v.Phase, v.Most)
		}
	}
	if lower == 0 {
		t.Error("no pick had a second rate")
	}
}
