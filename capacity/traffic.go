package capacity

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/engine/sim/fleet"
	"plimsoll/profile"
	"plimsoll/profile/trace"
)

// Traffic is what a fleet is sized for: requests, as many as there are or as
// many as are asked for.
type Traffic struct {
	Rate           float64 // requests/s, the mean while it lasts
	ISL, OSL       float64 // tokens, means
	ISLP99, OSLP99 float64
	Requests       int    // that there are; 0 = without end
	Words          string // what it is
	// Shared is the mean of the prompt's tokens that an earlier prompt may have
	// had: what prefix caches could spare.
	Shared float64

	block    int                                                                              // tokens of each block that requests say they share; 0 = they say nothing
	share    float64                                                                          // of the whole traffic that this is; 0 = all of it
	recorded []trace.Arrival                                                                  // a trace's requests
	seeded   func(seed uint64, requests int, share float64, shared bool) (trace.Trace, error) // what prompts share too, or not
}

// PeakTraffic is the workload at its peak: Poisson arrivals, log-normal lengths.
func (w Workload) PeakTraffic() (Traffic, error) {
	if err := w.Check(); err != nil {
		return Traffic{}, err
	}
	isl, errISL := lengths(field.ISLP99, w.ISL, w.ISLP99)
	osl, errOSL := lengths(field.OSLP99, w.OSL, w.OSLP99)
	if err := errors.Join(errISL, errOSL); err != nil {
		return Traffic{}, err
	}
	qps, prefixes := max(w.Rate, leastRate), w.Prefixes
	if prefixes.Groups > 0 {
		prefixes.BlockTokens = prefixBlock
	}
	return Traffic{
		Rate: qps, ISL: w.ISL, OSL: w.OSL, ISLP99: w.ISLP99, OSLP99: w.OSLP99,
		Words:  fmt.Sprintf("Poisson arrivals at the peak of %.4g requests/s, %s", qps, w.lengthWords()),
		Shared: prefixes.Share * float64(prefixes.Tokens),
		seeded: func(seed uint64, requests int, share float64, shared bool) (trace.Trace, error) {
			prefixes := prefixes
			if !shared {
				prefixes = trace.Prefixes{}
			}
			return trace.Generate(trace.Spec{
				Rate: trace.Constant(qps * share), Gaps: trace.Gaps{Process: profile.Poisson}, Requests: requests, Seed: seed, ISL: isl, OSL: osl, Prefixes: prefixes,
			})
		},
	}, nil
}

// DayTrace is one day of the workload from midnight on: Poisson arrivals whose rate is
// that of the pattern in each hour, log-normal lengths. The peak within an hour is
// Poisson's own, not the workload's PeakToAverage. Prompts say what they share in
// blocks of so many tokens; 0 = they say nothing of it.
func (w Workload) DayTrace(seed uint64, block int) (trace.Trace, error) {
	rate, errRate := trace.Daily(w.Pattern, w.AverageRate())
	isl, errISL := lengths(field.ISLP99, w.ISL, w.ISLP99)
	osl, errOSL := lengths(field.OSLP99, w.OSL, w.OSLP99)
	if err := errors.Join(w.Check(), errRate, errISL, errOSL); err != nil {
		return nil, fmt.Errorf("a day of requests: %w", err)
	}
	spec := trace.Spec{Rate: rate, Gaps: trace.Gaps{Process: profile.Poisson}, ISL: isl, OSL: osl, Duration: 24 * time.Hour, Seed: seed}
	if block > 0 && w.Prefixes.Groups > 0 {
		spec.Prefixes = w.Prefixes
		spec.Prefixes.BlockTokens = block
	}
	return trace.Generate(spec)
}

// longest is how long generated traffic lasts in a simulation, at most: well below
// the end of its clock, since arrivals are random. leastRate, a dozen requests a
// day, brings enough of them by then; rarer ones are simulated as if they came so
// often.
const (
	longest   = fleet.Latest / 5 * 4
	leastRate = leastRequests / float64(longest/engine.Second)
)

// within is so many requests of generated traffic, or as many as come by then.
func (t Traffic) within(requests int) int {
	if t.Requests > 0 {
		return requests
	}
	return min(requests, max(leastRequests, int(t.Rate*longest.Seconds())))
}

// lengthWords say how lengths are distributed.
func (w Workload) lengthWords() string {
	if w.ISLP99 == w.ISL && w.OSLP99 == w.OSL {
		return "all prompts of one length and all outputs of one length"
	}
	return "log-normal lengths"
}

// prefixBlock is vLLM's KV block in tokens.
const prefixBlock = 16

// lengths are log-normal, or all equal where the p99 is the mean.
func lengths(which string, mean, p99 float64) (trace.Lengths, error) {
	if p99 == mean {
		return trace.Fixed(int(mean + 0.5)), nil
	}
	l, err := trace.NewLogNormal(mean, p99, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w, or measure the lengths from a trace", which, err)
	}
	return l, nil
}

// leastRecorded requests show by no miss among them that fewer than 1 % miss (the
// rule of three, with 95 %).
const leastRecorded = 300

// RecordedTraffic is a trace as it was recorded, with its peaks in it.
func RecordedTraffic(arrivals []trace.Arrival, s trace.Stats) (Traffic, error) {
	if len(arrivals) < leastRecorded || s.Rate <= 0 {
		return Traffic{}, fmt.Errorf("the trace has %d requests: want at least %d, at different times. Fewer cannot show that 99 %% hold, even without a miss", len(arrivals), leastRecorded)
	}
	return Traffic{
		Rate: s.Rate, ISL: s.ISL.Mean, OSL: s.OSL.Mean, ISLP99: max(s.ISL.P99, s.ISL.Mean), OSLP99: max(s.OSL.P99, s.OSL.Mean),
		Shared: s.Blocks.Repeated * s.ISL.Mean, Requests: len(arrivals), Words: fmt.Sprintf("the trace's %s", engine.Count(len(arrivals), "request")),
		recorded: arrivals, seeded: recorded(arrivals),
	}, nil
}

func recorded(arrivals []trace.Arrival) func(uint64, int, float64, bool) (trace.Trace, error) {
	return func(_ uint64, _ int, share float64, _ bool) (trace.Trace, error) {
		if share == 1 {
			return trace.Of(arrivals...), nil
		}
		return trace.Compress(trace.Of(arrivals...), share)
	}
}

// busiest is recorded traffic of those requests alone, n in a row, that come closest
// together. Its rate is that of the whole.
func (t Traffic) busiest(n int) Traffic {
	best := 0
	for i := range len(t.recorded) - n + 1 {
		if t.lasts(i, n) < t.lasts(best, n) {
			best = i
		}
	}
	part := slices.Clone(t.recorded[best : best+n])
	for i := range part {
		part[i].At -= t.recorded[best].At
	}
	t.Requests, t.recorded, t.seeded = n, part, recorded(part)
	return t
}

// lasts is how long n requests from the i-th on take to come.
func (t Traffic) lasts(i, n int) time.Duration { return t.recorded[i+n-1].At - t.recorded[i].At }

// Longest is the prompt and output of the longest request, in tokens: of a trace's,
// or of as many as most trials that decide draw with a seed.
func (t Traffic) Longest(seed uint64) (int, error) {
	source, err := t.requests(seed, max(t.Requests, mostRequests))
	if err != nil {
		return 0, err
	}
	longest := 0
	for r := range source {
		longest = max(longest, r.ISL+r.OSL)
	}
	return longest, nil
}

// blocks are those of a prompt that others may have.
func (t Traffic) blocks(a trace.Arrival) []uint64 {
	if t.block == 0 || len(a.Blocks) == 0 {
		return nil
	}
	return trace.Reblock(a, t.block)
}

// PrefixBlock is the tokens of the blocks by which its engines find what prompts
// share; 0 = they keep nothing of them.
func (l Layout) PrefixBlock() int {
	if e := l.Pools[0].Engine; e.PrefixCaching {
		return cmp.Or(e.Limits.BlockSize, prefixBlock)
	}
	return 0
}

// sharing is the traffic with what its requests share, for engines that look.
func (t Traffic) sharing(l Layout) Traffic {
	t.block = l.PrefixBlock()
	return t
}

// context is the mean tokens in the KV cache of a running sequence.
func (t Traffic) context() float64 {
	return Workload{ISL: t.ISL, OSL: t.OSL, OSLP99: t.OSLP99}.Context()
}

// cell is one of so many equal parts of generated traffic.
func (t Traffic) cell(of int) Traffic { return t.Scaled(1 / float64(of)) }

// Scaled is the traffic at so many times its rate: generated in the same way, or
// a trace whose times are divided.
func (t Traffic) Scaled(by float64) Traffic {
	t.share = cmp.Or(t.share, 1) * by
	t.Rate *= by
	return t
}

// requests are the first so many of a seed.
func (t Traffic) requests(seed uint64, requests int) (iter.Seq[fleet.Request], error) {
	arrivals, err := t.seeded(seed, requests, cmp.Or(t.share, 1), t.block > 0)
	if err != nil {
		return nil, err
	}
	return func(yield func(fleet.Request) bool) {
		n := 0
		for a, err := range arrivals {
			if err != nil || n == requests { // what was generated, or collected before, has no errors
				return
			}
			n++
			if !yield(fleet.Request{ID: uint64(n), At: engine.FromDuration(a.At), ISL: a.ISL, OSL: a.OSL, Prefix: t.blocks(a)}) { //nolint:gosec // n counts up
				return
			}
		}
	}, nil
}
