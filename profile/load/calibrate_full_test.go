//go:build full

package load

import (
	"runtime"
	"testing"
	"time"

	"plimsoll/profile"
)

// What the client says of itself is what a server knows of it.
func TestCalibrate(t *testing.T) {
	c, err := Calibrate(t.Context(), 64, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", c)
	if c.Streams != 64 || c.Kernel != (runtime.GOOS == "linux") {
		t.Errorf("calibration %+v", c)
	}
	for name, b := range map[string]profile.Beat{"staggered": c.Staggered, "stepped": c.Stepped} {
		for what, q := range map[string]profile.Quantiles{"kernel TTFT": b.Kernel.TTFT, "kernel ITL": b.Kernel.ITL, "TTFT": b.Read.TTFT, "ITL": b.Read.ITL} {
			if q.P50 > q.P99 || q.P99 > q.P999 || q.P999 > time.Second || c.Kernel && q.P999 <= 0 {
				t.Errorf("%s: added %s %+v", name, what, q)
			}
		}
		if runtime.GOOS == "linux" && (b.CPUPerToken <= 0 || b.CPUPerToken > time.Millisecond) {
			t.Errorf("%s: %v of processor time for a token", name, b.CPUPerToken)
		}
		if b.Kernel.TTFT.P50 > b.Read.TTFT.P50 {
			t.Errorf("%s: the kernel's stamp is later than the read: %+v", name, b)
		}
	}
}
