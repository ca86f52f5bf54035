package load

import (
	"math"
	"runtime"
	"runtime/metrics"
	"time"

	"plimsoll/profile"
)

// Watch is what this process had spent when it began to measure. What it spends
// from then on is the client's own part, as long as nothing else runs in it.
type Watch struct {
	began time.Time
	cpu   time.Duration
	run   vitals
}

// StartWatch begins to watch this process.
func StartWatch() Watch {
	return Watch{began: time.Now(), cpu: cpuTime(), run: readVitals()}
}

// Client is what the client says of its part in the records that were made
// since the watch began, with its verdict.
func (w Watch) Client(rs []profile.Request) profile.Client { return w.effort().client(rs) }

func (e effort) client(rs []profile.Request) profile.Client {
	q := Assess(rs)
	kernel, lags := lagsOf(rs)
	c := profile.Client{
		Kernel: kernel, Lag: profile.Describe(lags), CPU: e.share(), GCPause: e.longest,
		StartSkew: q.StartSkew, LateP99: q.LateP99,
	}
	c.Why = bottleneck(c, e, rs)
	return c
}

// effort is what a process spent while it measured.
type effort struct {
	elapsed time.Duration
	cpu     time.Duration
	cores   int           // that it may use
	waited  time.Duration // p99 of how long goroutines that could run did not
	longest time.Duration // stop of the world
	stopped time.Duration // all stops together
}

func (e effort) share() float64 {
	if e.elapsed <= 0 {
		return 0
	}
	return e.cpu.Seconds() / (e.elapsed.Seconds() * float64(e.cores))
}

func (w Watch) effort() effort {
	elapsed, used, now := time.Since(w.began), cpuTime()-w.cpu, readVitals()
	waits, pauses := since(w.run.waits, now.waits), since(w.run.pauses, now.pauses)
	return effort{
		elapsed: elapsed, cpu: used, cores: runtime.GOMAXPROCS(0),
		waited: waits.quantile(0.99), longest: pauses.quantile(1), stopped: pauses.total(),
	}
}

// vitals are the runtime's own histograms, both since the program began.
type vitals struct{ waits, pauses *metrics.Float64Histogram }

func readVitals() vitals {
	s := []metrics.Sample{{Name: "/sched/latencies:seconds"}, {Name: "/sched/pauses/total/gc:seconds"}}
	metrics.Read(s)
	var h [2]*metrics.Float64Histogram
	for i := range s {
		h[i] = &metrics.Float64Histogram{}
		if s[i].Value.Kind() == metrics.KindFloat64Histogram {
			h[i] = s[i].Value.Float64Histogram()
		}
	}
	return vitals{h[0], h[1]}
}

// histogram counts durations between bounds in seconds.
type histogram struct {
	counts []uint64
	bounds []float64 // one more than counts
}

// since is what came to a histogram between two readings.
func since(before, after *metrics.Float64Histogram) histogram {
	h := histogram{counts: append([]uint64(nil), after.Counts...), bounds: after.Buckets}
	for i, n := range before.Counts {
		h.counts[i] -= n
	}
	return h
}

// upper is the finite bound of bucket i that is furthest from 0.
func (h histogram) upper(i int) time.Duration {
	b := h.bounds[i+1]
	if math.IsInf(b, 0) {
		b = h.bounds[i]
	}
	return time.Duration(b * float64(time.Second))
}

// quantile is at least the q-th quantile, by the width of a bucket; 0 for an
// empty histogram.
func (h histogram) quantile(q float64) time.Duration {
	var all, below uint64
	for _, n := range h.counts {
		all += n
	}
	for i, n := range h.counts {
		if below += n; n > 0 && float64(below) >= q*float64(all) {
			return h.upper(i)
		}
	}
	return 0
}

// total is at least the sum, by the widths of the buckets.
func (h histogram) total() time.Duration {
	var sum time.Duration
	for i, n := range h.counts {
		if n > 0 {
			sum += time.Duration(n) * h.upper(i) //nolint:gosec // a count of pauses, not a time
		}
	}
	return sum
}
