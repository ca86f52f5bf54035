package interpolation

import (
	"testing"
	"time"

	"plimsoll/profile"
)

func TestLeaveOneOutNeedsTwo(t *testing.T) {
	one := profile.PrefillSurface{Samples: []profile.PrefillSample{{ISL: 10, TTFT: time.Second, ThroughputPerGPU: 10}}}
	if _, err := LeaveOneOutPrefill(one); err == nil {
		t.Error("one prefill sample is predicted from none")
	}
	if _, err := LeaveOneOutDecode(profile.DecodeSurface{MaxKVTokens: 1}, 1); err == nil {
		t.Error("no decode sample is predicted from none")
	}
	s, d, _ := loadH200(t)
	s.Samples[3].TTFT = 0
	if _, err := LeaveOneOutPrefill(s); err == nil {
		t.Error("a TTFT of 0 is accepted")
	}
	if _, err := LeaveOneOutDecode(d, 0); err == nil {
		t.Error("no GPUs are accepted")
	}
}

// TestUnsureAsksWhereNothingWasMeasured: far from every sample rather than beside one.
func TestUnsureAsksWhereNothingWasMeasured(t *testing.T) {
	ps, ds, _ := loadH200(t)
	p, err := FitPrefill(profile.PrefillSurface{Samples: append(ps.Samples[:4:4], ps.Samples[15:]...)})
	if err != nil {
		t.Fatal(err)
	}
	if i, e := p.Unsure([]float64{2134, 8000, 15400}); i != 1 || !(e > 0) {
		t.Errorf("asks for candidate %d with error %v, want the one in the gap", i, e)
	}
	d := mustDecode(t, ds)
	if i, e := d.Unsure([]Load{{30, 5644}, {100, 3000}, {4000, 350}, {1, 350}}); i != 2 || !(e > 0) {
		t.Errorf("asks for candidate %d with error %v, want the one beyond the measured loads", i, e)
	}
	if i, e := d.Unsure(nil); i != -1 || e != 0 {
		t.Errorf("no candidates: %d, %v", i, e)
	}
}
