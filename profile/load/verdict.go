package load

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"plimsoll/profile"
)

// When the client counts as the bottleneck. Its error is judged by the time that
// is measured: the mean gap between chunks, or TTFT where nothing more came.
const (
	// Without the kernel's stamps every wait of the client is in the latencies:
	// at 5 % of them it is as large as the differences that a profile decides by.
	// Below a millisecond nobody's SLA tells the difference.
	lagShare = 0.05
	lagFloor = time.Millisecond
	// With them a wait is in no latency, until the next chunk comes before the
	// last was read: the two then share an instant. The mean still holds, and
	// percentiles are wrong by what share of chunks it is. One read brings both,
	// and the kernel tells of the last alone: how late it was read is then
	// anything from nothing to a gap.
	mergedAllowed = 0.05
	// Above four fifths of its cores waits grow without bound (M/M/1: five times
	// the service time at 0.8), and the load itself is no longer what was asked.
	// A share over less than half a second is that of its start.
	cpuAllowed = 0.8
	cpuWindow  = time.Second / 2
	// Pauses of the collector can move a p99 once they are a hundredth of the time.
	pauseAllowed = 0.01
)

// Rule says in words by what a client counts as the bottleneck, and what of its
// waits is in the latencies: with the kernel's stamps, or without.
func Rule(kernel bool) string {
	busy := fmt.Sprintf("or it took more than %.0f %% of its cores", 100*cpuAllowed)
	if kernel {
		return fmt.Sprintf("latencies use kernel receive times, so client delay is excluded; "+
			"the client counts as the bottleneck if it read %.0f %% of chunks after the next had come, its lag grew, %s", 100*mergedAllowed, busy)
	}
	return fmt.Sprintf("latencies use the client's read times, so client delay is included; "+
		"the client counts as the bottleneck if 1 %% of its waits exceeded %.0f %% of a gap (at least %v), %s", 100*lagShare, lagFloor, busy)
}

// bottleneck says why the records are the client's more than the engine's;
// empty where they are not.
func bottleneck(c profile.Client, e effort, rs []profile.Request) string {
	var why []string
	add := func(format string, args ...any) { why = append(why, fmt.Sprintf(format, args...)) }
	gap := pace(rs)
	limit := max(lagFloor, time.Duration(lagShare*float64(gap)))
	switch {
	case c.Kernel:
		limit = max(lagFloor, gap)
		if c.Lag.P95 > limit {
			add("it read more than %.0f %% of chunks at least %s late, after the next had come", 100*mergedAllowed, short(c.Lag.P95))
		} else if share := overtaken(rs, limit/2); share > mergedAllowed {
			add("it read %.0f %% of chunks together with the one before, at least %s late", 100*share, short(limit/2))
		}
	case e.waited > limit:
		add("1 %% of its goroutines waited at least %s to run, which latencies include", short(e.waited))
	}
	if from, to, ok := growth(rs); ok && to-from > limit {
		add("its lag grew from %s to %s: it reads more slowly than the engine writes", short(from), short(to))
	}
	if c.CPU > cpuAllowed && e.elapsed >= cpuWindow {
		add("it used %.0f %% of its %d cores", 100*c.CPU, e.cores)
	}
	if c.GCPause > limit && float64(e.stopped) > pauseAllowed*float64(e.elapsed) {
		add("its garbage collector stopped it for up to %s", short(c.GCPause))
	}
	return strings.Join(why, "; ")
}

func short(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

// pace is the mean gap between chunks, or the mean TTFT where there is no gap; 0
// where nothing came.
func pace(rs []profile.Request) time.Duration {
	var gaps, firsts time.Duration
	var ng, nf int
	for _, r := range rs {
		if n := len(r.Chunks); n > 1 {
			gaps += r.Chunks[n-1].At - r.Chunks[0].At
			ng += n - 1
		}
		if t := r.TTFT(); t > 0 {
			firsts += t
			nf++
		}
	}
	switch {
	case gaps > 0:
		return gaps / time.Duration(ng)
	case nf > 0:
		return firsts / time.Duration(nf)
	}
	return 0
}

// lagsOf gives how long each chunk waited to be read, and whether that is known.
func lagsOf(rs []profile.Request) (known bool, lags []time.Duration) {
	for _, r := range rs {
		for _, c := range r.Chunks {
			if c.Read != 0 {
				lags = append(lags, c.Read-c.At)
			}
		}
	}
	return len(lags) > 0, lags
}

// overtaken is the share of chunks that one read brought together with the one
// before, so late that they were not sent together.
func overtaken(rs []profile.Request, late time.Duration) float64 {
	chunks, n := 0, 0
	for _, r := range rs {
		for i, c := range r.Chunks {
			if chunks++; i > 0 && c.At == r.Chunks[i-1].At && c.Read-c.At >= late {
				n++
			}
		}
	}
	return ratio(n, chunks)
}

// growthMin is how many lags a third must have for its median to say anything.
const growthMin = 50

// growth compares the median lags of the first and the last third of the time;
// ok means that they are known and that the second third lies between.
func growth(rs []profile.Request) (from, to time.Duration, ok bool) {
	first, last := time.Duration(0), time.Duration(0)
	for _, r := range rs {
		if n := len(r.Chunks); n > 0 {
			if first == 0 || r.Chunks[0].At < first {
				first = r.Chunks[0].At
			}
			last = max(last, r.Chunks[n-1].At)
		}
	}
	if last <= first {
		return 0, 0, false
	}
	var thirds [3][]time.Duration
	for _, r := range rs {
		for _, c := range r.Chunks {
			if c.Read != 0 {
				k := min(int(3*(c.At-first)/(last-first)), 2)
				thirds[k] = append(thirds[k], c.Read-c.At)
			}
		}
	}
	var median [3]time.Duration
	for i, lags := range thirds {
		if len(lags) < growthMin {
			return 0, 0, false
		}
		slices.Sort(lags)
		median[i] = lags[len(lags)/2]
	}
	return median[0], median[2], median[0] <= median[1] && median[1] <= median[2]
}
