package latency

import (
	"math"
	"testing"

	"plimsoll/engine"
)

func TestSlower(t *testing.T) {
	lm := on(t, "llama-3.1-70b", "h200", engine.Config{Parallelism: engine.TP(4)})
	b := engine.Batch{DecodeSeqs: 40, DecodeContext: 40 * 3000}
	b.AddChunk(2000, 500)
	for by, want := range map[float64]float64{1: 1, 1.5: 1.5, 2: 2} {
		other, err := NewWith(lm.about.model, lm.about.gpu, lm.about.config, lm.Fit().Slower(by))
		if err != nil {
			t.Fatal(err)
		}
		if got := other.StepTime(b).Seconds() / lm.StepTime(b).Seconds(); math.Abs(got-want) > 1e-4 {
			t.Errorf("slower by %g: the step takes %g times as long", by, got)
		}
	}
	fastest, err := NewWith(lm.about.model, lm.about.gpu, lm.about.config, lm.Fit().Slower(1e-6))
	if err != nil {
		t.Fatalf("the data sheet's own speed is refused: %v", err)
	}
	weights := lm.about.model.WeightBytes(engine.BF16) / 4 / lm.about.gpu.HBMBytesPerSec
	if fastest.ITL(1, 0).Seconds() < weights {
		t.Errorf("a step takes %v, reading its weights at full bandwidth %g s", fastest.ITL(1, 0), weights)
	}
}
