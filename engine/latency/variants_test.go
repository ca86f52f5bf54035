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
	decode := engine.Batch{DecodeSeqs: 40, DecodeContext: 40 * 3000}
	for _, by := range []engine.Factors{{TTFT: 0.1, ITL: 0.1}, {TTFT: 0.5, ITL: 0.5}, {TTFT: 1, ITL: 1}, {TTFT: 2, ITL: 2}, {TTFT: 3, ITL: 1.5}, {TTFT: 1.25, ITL: 2}} {
		other := lm.Slower(by)
		added := func(m Model) float64 { return (m.StepTime(b) - m.StepTime(decode)).Seconds() }
		first, growth, steps := other.DecodeRun(40, 40*3000)
		if first != other.StepTime(decode) || steps > 1 && first+growth != other.StepTime(engine.Batch{DecodeSeqs: 40, DecodeContext: 40 * 3001}) {
			t.Errorf("slower by %+v: a run begins with %v + %v, a step is %v", by, first, growth, other.StepTime(decode))
		}
		for what, c := range map[string]struct{ ratio, want float64 }{
			"decode step":  {other.StepTime(decode).Seconds() / lm.StepTime(decode).Seconds(), by.ITL},
			"ITL":          {other.ITL(10, 2000).Seconds() / lm.ITL(10, 2000).Seconds(), by.ITL},
			"prompt added": {added(other) / added(lm), by.TTFT},
			"TTFT":         {other.TTFT(3000, 0).Seconds() / lm.TTFT(3000, 0).Seconds(), by.TTFT},
			"overhead":     {other.Overhead().Seconds() / lm.Overhead().Seconds(), by.TTFT},
			"tokenizer":    {other.PerToken().Seconds() / lm.PerToken().Seconds(), by.TTFT},
		} {
			if math.Abs(c.ratio/c.want-1) > 1e-3 {
				t.Errorf("slower by %+v: the %s takes %g times as long, want %g", by, what, c.ratio, c.want)
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
		{"trtllm", "1.0.0rc3", true, true},
		{"trtllm", "", true, true},
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
