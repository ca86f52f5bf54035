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
	for _, by := range []float64{0.1, 0.5, 1, 1.5, 2} {
		other := lm.Slower(by)
		for what, ratio := range map[string]float64{
			"step":     other.StepTime(b).Seconds() / lm.StepTime(b).Seconds(),
			"overhead": other.Overhead().Seconds() / lm.Overhead().Seconds(),
			"TTFT":     other.TTFT(3000, 0).Seconds() / lm.TTFT(3000, 0).Seconds(),
			"ITL":      other.ITL(10, 2000).Seconds() / lm.ITL(10, 2000).Seconds(),
		} {
			if math.Abs(ratio/by-1) > 1e-3 {
				t.Errorf("slower by %g: the %s takes %g times as long", by, what, ratio)
			}
		}
	}
}

func TestScheduling(t *testing.T) {
	lm := on(t, "llama-3.1-8b", "h100-sxm", engine.Config{})
	for _, tc := range []struct {
		engine, version string
		async, reserve  bool
	}{
		{"vllm", "0.15.1", true, false},
		{"vllm", "0.14", true, false},
		{"vllm", "0.18.1", true, false},
		{"vllm", "0.19.0", true, true},
		{"vllm", "0.13.0", false, false},
		{"vllm", "0.12", false, false},
		{"vllm", "2023", false, false},
		{"vllm", "1.0", true, true},
		{"vllm", "1", true, true},
		{"vllm", "", true, true},
		{"trtllm", "1.0.0rc3", false, true},
		{"trtllm", "", false, true},
		{"sglang", "0.5.6", false, true},
		{"other", "", false, false},
	} {
		f := lm.Fit()
		f.Engine, f.Version = tc.engine, tc.version
		other, err := NewWith(lm.about.model, lm.about.gpu, lm.about.config, f)
		if err != nil {
			t.Fatal(err)
		}
		if async, reserve := other.AsyncScheduling(), other.ReserveFullPrompt(); async != tc.async || reserve != tc.reserve {
			t.Errorf("%s %q: asynchronous %v, reserves full prompts %v", tc.engine, tc.version, async, reserve)
		}
	}
	staged := on(t, "llama-3.1-8b", "h100-sxm", engine.Config{Parallelism: engine.Parallelism{PP: 2}})
	if staged.AsyncScheduling() {
		t.Error("with pipeline parallelism vLLM schedules step by step")
	}
}
