//go:build full

package simserver

import (
	"slices"
	"testing"
	"time"
)

// The deadlines are absolute, so that the mean over many tokens is off by the
// delay of the two at its ends at most. A machine that is busy with other
// things may spoil a run; it must not spoil all of them. The first tokens, when
// the clients are busy connecting, are left out.
func TestInterTokenTimeIsTheStepTime(t *testing.T) {
	const step, skip, osl, runs = 5 * time.Millisecond, 20, 120, 10
	o := testOptions()
	o.Timer = stepTimer{step: step}
	s := serve(t, o)
	for run := 1; ; run++ {
		var means []time.Duration
		for i, at := range tokenTimes(s, 64, osl) {
			if len(at) != osl {
				t.Fatalf("stream %d: %d tokens, want %d", i, len(at), osl)
			}
			means = append(means, at[osl-1].Sub(at[skip])/(osl-1-skip))
		}
		slices.Sort(means)
		mean := means[len(means)/2]
		t.Logf("run %d, 64 streams: median of mean ITL %v; %s", run, mean, s.lateness())
		if (mean - step).Abs() <= step/100 {
			return
		}
		if run == runs {
			t.Fatalf("mean ITL %v: want %v to within 1 %% in one of %d runs", mean, step, runs)
		}
	}
}
