package recommend

import (
	"testing"

	"pgregory.net/rapid"

	"plimsoll/engine/enginetest"
)

// The split carries what the best of all pairs carries, on as few GPUs.
func TestSplitIsTheBestPair(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		engine := func(name string) Engine {
			return Engine{rapid.IntRange(1, 8).Draw(t, name+" GPUs"), rapid.Float64Range(0.1, 50).Draw(t, name+" rate")}
		}
		gpus, p, d := rapid.IntRange(0, 64).Draw(t, "gpus"), engine("prefill"), engine("decode")
		got := SplitGPUs(gpus, p, d)
		if p.GPUs+d.GPUs > gpus {
			if got.Prefill != 1 || got.Decode != 1 || got.GPUs <= gpus {
				t.Fatalf("without room for one of each: %+v", got)
			}
			return
		}
		rate, least := 0.0, 0
		for i := 1; i <= gpus; i++ {
			for j := 1; j <= gpus; j++ {
				n, r := i*p.GPUs+j*d.GPUs, min(float64(i)*p.RPS, float64(j)*d.RPS)
				if n <= gpus && (r > rate || r == rate && n < least) {
					rate, least = r, n
				}
			}
		}
		if got.RPS != rate || got.GPUs != least || got.GPUs != got.Prefill*p.GPUs+got.Decode*d.GPUs {
			t.Fatalf("%+v of %d GPUs, the best carries %v on %d", got, gpus, rate, least)
		}
	})
}
