package capacity

import (
	"math"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/engine/sim/fleet"
	"plimsoll/profile"
	"plimsoll/profile/trace"
)

// line is a fleet that is one queue: prompts one by one, 50 ms each.
func line() Layout {
	return apart(cheapPool(engine.RolePrefill, cheap{step: 50 * milli}, 1, 1e6, 100), cheapPool(engine.RoleDecode, cheap{step: milli}, 1000, 1e6, 8192))
}

func try(t testing.TB, l Layout, replicas []int, w Workload, slo SLO, requests int, seed uint64) Trial {
	t.Helper()
	traffic, err := w.PeakTraffic()
	if err != nil {
		t.Fatal(err)
	}
	got, err := l.try(replicas, traffic, slo, requests, seed)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// waits is the share of an M/D/1 queue's customers that wait for longer than w
// services, at utilisation rho: Erlang's formula (Gross & Harris, Fundamentals of
// Queueing Theory, 4th ed., 5.1.5).
func waits(rho, w float64) float64 {
	sum := 0.0
	for k := 0; k <= int(w); k++ {
		x := rho * (float64(k) - w)
		term := 1.0
		for i := 1; i <= k; i++ {
			term *= x / float64(i)
		}
		sum += term * math.Exp(-x)
	}
	return 1 - (1-rho)*sum
}

// allowed is the share that a p99 lets miss.
const allowed = 0.01

func TestTrialOfAnMD1Queue(t *testing.T) {
	rhos := []float64{0.3, 0.5, 0.7, 0.8}
	if !enginetest.Full {
		rhos = rhos[2:3]
	}
	for _, rho := range rhos {
		for _, w := range []float64{1, 2.5, 4} {
			// Besides queue and prompt there are the decode step and what is left of
			// the one in progress, at most 2 ms together, mostly 1.
			promise := time.Duration((w+1)*50)*ms + ms
			got := try(t, line(), []int{1, 1}, fixed(rho/0.05, 100, 1), SLO{TTFT: promise, ITL: time.Second}, 200_000, 5).TTFT
			if p := waits(rho, w); math.Abs(got.Missed-p) > 0.02*p+3*allowed*(got.UsedAtMost-got.Used) {
				t.Errorf("rho %g: %.4f wait for more than %g services, theory says %.4f (%+v)", rho, got.Missed, w, p, got)
			}
		}
	}
}

func TestEachStatisticOfAnMD1Queue(t *testing.T) {
	const rho = 0.7
	mean := 50 * (1 + rho/(2*(1-rho))) // ms: Pollaczek and Khinchine; the decode step in progress adds 1 at most
	for _, stat := range []profile.Statistic{profile.Mean, profile.P50, profile.P90, profile.P95, profile.P99} {
		promise := time.Duration(mean * float64(ms))
		if stat != profile.Mean {
			promise = 50 * ms
		}
		for stat != profile.Mean && waits(rho, promise.Seconds()/0.05-1) > mayMiss(stat) {
			promise += ms / 4
		}
		for _, c := range []struct {
			of    time.Duration
			holds bool
		}{{promise * 9 / 10, false}, {promise*11/10 + ms, true}} {
			got := try(t, line(), []int{1, 1}, fixed(rho/0.05, 100, 1), SLO{TTFT: c.of, ITL: time.Second, Stat: stat}, 200_000, 5)
			if off := float64(got.TTFT.At.Duration()-promise) / float64(promise); math.Abs(off) > 0.06 || got.Holds() != c.holds {
				t.Errorf("%s is %v of theory's %v; within %v: %v (%+v)", stat, got.TTFT.At.Duration(), promise, c.of, got.Holds(), got.TTFT)
			}
		}
	}
}

func TestIndependentRequestsOfAnMD1Queue(t *testing.T) {
	// 200 runs of the queue by Lindley's recursion, of 153,840 customers each, gave
	// these medians: 8,696 at 70 %, 969 at 90 %, 100 at 97 %, nine tenths within a
	// factor of 2.3 of them.
	slo := SLO{TTFT: time.Minute, ITL: time.Second}
	for rho, median := range map[float64]float64{0.7: 8696, 0.9: 969, 0.97: 100} {
		got := try(t, line(), []int{1, 1}, fixed(rho/0.05, 100, 1), slo, 200_000, 3).Independent
		if got < median/3 || got > median*3 {
			t.Errorf("rho %g: %.0f, want about %g", rho, got, median)
		}
	}
}

func TestWhatWaitsAtTheEndCounts(t *testing.T) {
	// 22 prompts a second where 20 are computed: the queue grows by 2 a second.
	// Over 909 s it reaches 91 s; all but the first few dozen requests are late, also
	// those that would finish long after the last arrival.
	w := fixed(22, 100, 1)
	got := try(t, line(), []int{1, 1}, w, SLO{TTFT: 20 * time.Second, ITL: time.Second}, 20_000, 1)
	if got.TTFT.Missed < 0.9 || got.TTFT.P99.Duration() < 60*time.Second || got.Requests != int64(10*(20_000/13)) {
		t.Errorf("%+v", got)
	}
	// A promise of 200 s is kept by all of them, and would not be for much longer.
	got = try(t, line(), []int{1, 1}, w, SLO{TTFT: 200 * time.Second, ITL: time.Second}, 20_000, 1)
	if got.TTFT.Missed > 0 || !got.Growing || got.Holds() {
		t.Errorf("%+v", got)
	}
	// Nothing grows at nine tenths of that.
	got = try(t, line(), []int{1, 1}, fixed(18, 100, 1), SLO{TTFT: 2 * time.Second, ITL: time.Second}, 20_000, 1)
	if got.Growing || !got.Holds() {
		t.Errorf("%+v", got)
	}
}

func TestLateEndsCountForLongOutputs(t *testing.T) {
	// 2,000 tokens of 30 ms are 60 s, longer than the arrivals of a trial of 2,000
	// requests at 100/s take: nobody has finished when the last one comes.
	l := together(cheapPool(engine.RoleAggregated, cheap{step: 30 * milli}, 1000, 1e7, 8192))
	got := try(t, l, []int{20}, fixed(100, 10, 2000), SLO{TTFT: time.Second, ITL: time.Second, E2EP99: 50 * time.Second}, 2000, 1)
	if got.E2E.Missed != 1 || got.E2E.P50.Duration() < 60*time.Second {
		t.Errorf("%+v", got.E2E)
	}
	// Size takes trials that are longer than that.
	traffic, _ := fixed(100, 10, 2000).PeakTraffic()
	if n, cells := l.enough(traffic, SLO{TTFT: time.Second, ITL: time.Second}, 1000); float64(n*cells) < 100*60*(batches+3) {
		t.Errorf("%d requests in %d cells", n, cells)
	}
}

func TestStallsOfPreemptedRequestsShow(t *testing.T) {
	// Room for 3 requests of 60 tokens at their end; each starts at 10 and grows.
	l := together(cheapPool(engine.RoleAggregated, cheap{step: 10 * milli}, 100, 200, 100))
	got := try(t, l, []int{1}, fixed(5, 10, 50), SLO{TTFT: time.Minute, ITL: 12 * ms}, 20_000, 1)
	if got.Gaps.Missed > 0 || got.ITL.Missed < 0.01 {
		t.Errorf("gaps %+v, ITL %+v", got.Gaps, got.ITL)
	}
}

func TestTransfersThatSaturateShow(t *testing.T) {
	// A prompt's KV takes 60 ms on the link, its computing 50: the link is the queue.
	l := line()
	l.Transfer = fleet.Transfer{KV: engine.KVBytes{PerToken: 1e6}, BytesPerSecond: 100e6 / 0.06, Serial: true}
	slo := SLO{TTFT: 500 * ms, ITL: time.Second}
	if got := try(t, l, []int{1, 1}, fixed(17.5, 100, 1), slo, 20_000, 1); got.Holds() || got.Pools[0].Utilisation > 0.9 {
		t.Errorf("%+v", got)
	}
	if got := size(t, l, fixed(17.5, 100, 1), slo); got.Infeasible != nil || got.Replicas[0] != 2 {
		t.Errorf("%v %+v", got.Replicas, got.Infeasible)
	}
}

func TestRises(t *testing.T) {
	flat := [batches]float64{5, 5, 5, 5, 5, 5, 5, 5, 5, 5}
	up := [batches]float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	noisy := [batches]float64{9, 0, 9, 0, 9, 1, 9, 0, 10, 1}
	for _, c := range []struct {
		ys   [batches]float64
		by   float64
		want bool
	}{{flat, 0.001, false}, {up, 8.9, true}, {up, 9.1, false}, {noisy, 0, false}} {
		if rises(c.ys, c.by) != c.want {
			t.Errorf("%v by %g: %v", c.ys, c.by, !c.want)
		}
	}
	// A slope of 6/11 with a standard error of 1/11, worked out by hand: 0.3764 a
	// step at least.
	saw := [batches]float64{1, 3, 2, 4, 3, 5, 4, 6, 5, 7}
	if !rises(saw, 9*0.3763) || rises(saw, 9*0.3765) {
		t.Error("a sawtooth")
	}
}

func TestRecordedTrafficCountsItsBursts(t *testing.T) {
	// 3,000 requests over 300 s, evenly, or half of them in the first second, or in the last.
	var spread, early, late []trace.Arrival
	for i := range 3000 {
		even := time.Duration(i) * 100 * ms
		spread = append(spread, trace.Arrival{At: even, ISL: 100, OSL: 10})
		early = append(early, trace.Arrival{At: max(0, even-150*time.Second)*2 + min(even, 150*time.Second)/150, ISL: 100, OSL: 10})
		late = append(late, trace.Arrival{At: 2*min(even, 150*time.Second) + max(0, even-150*time.Second)/150, ISL: 100, OSL: 10})
	}
	slo := SLO{TTFT: time.Second, ITL: time.Second}
	of := func(arrivals []trace.Arrival) Sized {
		stats, err := trace.Summarize(trace.Of(arrivals...))
		if err != nil {
			t.Fatal(err)
		}
		traffic, err := RecordedTraffic(arrivals, stats)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Size(line(), traffic, slo, SizeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if s.At.Requests != 3000 || s.Cells != 1 {
			t.Errorf("%d of 3000 requests count, in %d cells", s.At.Requests, s.Cells)
		}
		return s
	}
	want(t, of(spread), 1, 1)
	// 1,500 at once and 1 s for each: 20 prompts an engine and second, 75 engines;
	// the few that may be late are 30 of the 1,500.
	for _, burst := range [][]trace.Arrival{early, late} {
		if s := of(burst); s.Infeasible != nil || s.Replicas[0] < 36 || s.Replicas[0] > 75 {
			t.Errorf("%v %+v", s.Replicas, s.Infeasible)
		}
	}
	if _, err := RecordedTraffic(spread[:299], trace.Stats{Rate: 10}); err == nil {
		t.Error("299 requests pass for a p99")
	}
}
