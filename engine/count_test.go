package engine

import "testing"

func TestCountsOfOneAreSingular(t *testing.T) {
	for want, got := range map[string]string{"1 GPU": Count(1, "GPU"), "0 GPUs": Count(0, "GPU"), "2 requests": Count(int64(2), "request"), "1 launch": Count(1, "launch"), "4 launches": Count(4, "launch")} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestNumber(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 18.862: "18.86", 99.5: "99.5", 999: "999", 1000: "1,000", 45627.92: "45,628", 1_234_567: "1,234,567", -409_600: "-409,600"} {
		if got := Number(x); got != want {
			t.Errorf("Number(%v) = %q, want %q", x, got, want)
		}
	}
}
