package engine

import "testing"

func TestCountsOfOneAreSingular(t *testing.T) {
	for want, got := range map[string]string{"1 GPU": Count(1, "GPU"), "0 GPUs": Count(0, "GPU"), "2 requests": Count(int64(2), "request"), "1 launch": Count(1, "launch"), "4 launches": Count(4, "launch")} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
