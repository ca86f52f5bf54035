package capacity

import (
	"slices"
	"testing"

	"plimsoll/engine/enginetest"
	"plimsoll/profile"

	"pgregory.net/rapid"
)

// TestStoppedTrialsDecideAsWholeOnes compares a trial that stops when it is
// certain to miss with the whole one, of fleets from overloaded to ample.
func TestStoppedTrialsDecideAsWholeOnes(t *testing.T) {
	stopped, ample, all := 0, 0, 0
	enginetest.Check(t, func(t *rapid.T) {
		k := drawTask(t)
		k.slo.Stat = rapid.SampledFrom([]profile.Statistic{profile.Mean, profile.P50, profile.P90, profile.P95, profile.P99}).Draw(t, "stat")
		traffic, err := k.w.PeakTraffic()
		if err != nil {
			t.Fatal(err)
		}
		l := k.layout()
		replicas := l.floor(traffic, k.slo)
		for i := range replicas {
			replicas[i] += rapid.IntRange(0, 2*replicas[i]).Draw(t, "more")
		}
		whole, err := l.try(slices.Clone(replicas), traffic, k.slo, 2600, 7)
		if err != nil {
			t.Fatal(err)
		}
		got, err := l.tryUntil(func(o *observer) bool { return o.missed(1) }, slices.Clone(replicas), traffic, k.slo, 2600, 7)
		if err != nil {
			t.Fatal(err)
		}
		if got.Holds() != whole.Holds() {
			t.Errorf("%v holds %v, stopped %v after %d: %+v and %+v", replicas, whole.Holds(), got.Holds(), got.Requests, whole, got)
		}
		if all++; got.Stopped {
			stopped++
			if w := whole.worst().Used; w <= 1 {
				t.Errorf("%v stopped, and would have missed only %g", replicas, w)
			}
		}
		seen, err := l.tryUntil((*observer).ample, slices.Clone(replicas), traffic, k.slo, 2600, 7)
		if err != nil {
			t.Fatal(err)
		}
		if seen.Stopped {
			if ample++; !seen.Holds() || whole.worst().Used > 1 {
				t.Errorf("%v taken for ample, misses %+v", replicas, whole)
			}
		}
	})
	t.Logf("of %d trials %d stopped, %d were ample", all, stopped, ample)
}

func TestSizingAfterARoughOne(t *testing.T) {
	l := apart(cheapPool("prefill", cheap{step: 20 * milli}, 1, 1e6, 100), cheapPool("decode", cheap{step: 5 * milli, seq: 100 * us}, 64, 1e6, 8192))
	traffic, err := fixed(80, 100, 20).PeakTraffic()
	if err != nil {
		t.Fatal(err)
	}
	slo := SLO{TTFT: 200 * ms, ITL: 15 * ms}
	rough, err := Size(l, traffic, slo, SizeOptions{Seed: 1, Rough: true})
	if err != nil {
		t.Fatal(err)
	}
	if rough.At.Stopped || !rough.At.Holds() {
		t.Errorf("a rough size rests on a part of a trial: %+v", rough.At)
	}
	plain, err := Size(l, traffic, slo, SizeOptions{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	backwards := func(n int, do func(i int) error) error {
		for i := n - 1; i >= 0; i-- {
			if err := do(i); err != nil {
				return err
			}
		}
		return nil
	}
	after, err := Size(l, traffic, slo, SizeOptions{Seed: 1, After: &rough, AtOnce: backwards})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(after.Replicas, plain.Replicas) || after.At.TTFT != plain.At.TTFT || after.Binding != plain.Binding {
		t.Errorf("%v %+v after a rough sizing, %v %+v without", after.Replicas, after.At, plain.Replicas, plain.At)
	}
	if after.Trials >= plain.Trials {
		t.Errorf("%d sizes simulated after a rough sizing, %d without", after.Trials, plain.Trials)
	}
}
