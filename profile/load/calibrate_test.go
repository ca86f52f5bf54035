package load

import (
	"context"
	"testing"
	"time"

	"plimsoll/profile"
)

func TestCalibrateEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Calibrate(ctx, 4, time.Second); err == nil {
		t.Error("no error")
	}
	for _, n := range []int{0, -1} {
		if _, err := Calibrate(t.Context(), n, time.Second); err == nil {
			t.Errorf("%d streams: no error", n)
		}
	}
}

// The errors are those that the server's notes and the records say.
func TestCompare(t *testing.T) {
	const ms = time.Millisecond
	notes := []written{{Asked: 10 * ms, Chunks: []time.Duration{20 * ms, 30 * ms, 40 * ms}}}
	rs := []profile.Request{{Sent: 9 * ms, Chunks: []profile.Chunk{
		{At: 21 * ms, Read: 24 * ms}, {At: 31 * ms, Read: 33 * ms}, {At: 43 * ms, Read: 44 * ms},
	}}}
	b := compare(rs, notes)
	want := profile.Beat{
		Kernel: profile.Added{TTFT: same(2 * ms), ITL: profile.Quantiles{P50: 0, P99: 2 * ms, P999: 2 * ms}},
		Read:   profile.Added{TTFT: same(5 * ms), ITL: same(ms)},
	}
	if b != want {
		t.Errorf("%+v, want %+v", b, want)
	}
	for i := range rs[0].Chunks {
		rs[0].Chunks[i].Read = 0
	}
	if b := compare(rs, notes); b.Kernel != (profile.Added{}) || b.Read != want.Kernel {
		t.Errorf("without stamps: %+v", b)
	}
}

func same(d time.Duration) profile.Quantiles { return profile.Quantiles{P50: d, P99: d, P999: d} }

func TestQuantilesOfCalibration(t *testing.T) {
	xs := make([]time.Duration, 1000)
	for i := range xs {
		xs[i] = time.Duration(1000 - i)
	}
	if got := quantiles(xs); got != (profile.Quantiles{P50: 500, P99: 990, P999: 999}) {
		t.Errorf("%+v", got)
	}
	if got := quantiles(nil); got != (profile.Quantiles{}) {
		t.Errorf("of nothing: %+v", got)
	}
}

// A paced server keeps its beat: no chunk is written before it is due.
func TestPacingIsDueInOrder(t *testing.T) {
	for _, stepped := range []bool{false, true} {
		p := pacing{Streams: 7, Chunks: 5, Gap: 10 * time.Millisecond, Stepped: stepped}
		last := time.Duration(0)
		for k := range p.Chunks {
			for i := range p.Streams {
				d := p.due(i, k)
				if d < last || d < time.Duration(k+1)*p.Gap || d >= time.Duration(k+2)*p.Gap {
					t.Errorf("stepped %v, stream %d, chunk %d: %v after %v", stepped, i, k, d, last)
				}
				last = d
			}
		}
	}
}
