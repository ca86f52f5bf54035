//go:build full

package load

import (
	"runtime"
	"testing"
	"time"
)

// What the client measures is what a server in another process knows of it, with
// streams spread over time and all at one instant, as an engine's steps send them.
func TestExact(t *testing.T) {
	for name, stepped := range map[string]bool{"staggered": false, "stepped": true} {
		p := pacing{Streams: 64, Chunks: 20, Gap: 50 * time.Millisecond, Stepped: stepped}
		s := pacedElsewhere(t, p)
		rs, err := streamPaced(t.Context(), machineClock(), s.url, p)
		if err != nil {
			t.Fatal(err)
		}
		got := compare(rs, <-s.notes)
		s.stop()
		t.Logf("%s: %+v", name, got)
		if kernel := got.Kernel != (added{}); kernel != (runtime.GOOS == "linux") {
			t.Errorf("%s: kernel stamps: %v", name, kernel)
		}
		for what, q := range map[string]quantiles{"kernel TTFT": got.Kernel.TTFT, "kernel ITL": got.Kernel.ITL, "TTFT": got.Read.TTFT, "ITL": got.Read.ITL} {
			if q.P50 > q.P99 || q.P99 > q.P999 || q.P999 > time.Second || runtime.GOOS == "linux" && q.P999 <= 0 {
				t.Errorf("%s: added %s %+v", name, what, q)
			}
		}
		if got.Kernel.ITL.P50 > time.Millisecond {
			t.Errorf("%s: an ITL is off by %v in the median", name, got.Kernel.ITL.P50)
		}
		if got.Kernel.TTFT.P50 > got.Read.TTFT.P50 {
			t.Errorf("%s: the kernel's stamp is later than the read: %+v", name, got)
		}
	}
}
