package build

import (
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

func TestStretchTakesEachKindByItsOwnFactor(t *testing.T) {
	ps := profile.PrefillSurface{Samples: []profile.PrefillSample{{ISL: 100, TTFT: 100 * time.Millisecond, ThroughputPerGPU: 600}}}
	ds := profile.DecodeSurface{Samples: []profile.DecodeSample{{ITL: 10 * time.Millisecond, ThroughputPerGPU: 600}}}
	stretch(&ps, &ds, engine.Factors{TTFT: 2, ITL: 3})
	if p := ps.Samples[0]; p.TTFT != 200*time.Millisecond || p.ThroughputPerGPU != 300 {
		t.Errorf("prefill by 2: %+v", p)
	}
	if d := ds.Samples[0]; d.ITL != 30*time.Millisecond || d.ThroughputPerGPU != 200 {
		t.Errorf("decode by 3: %+v", d)
	}
}
