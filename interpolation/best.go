package interpolation

import (
	"math"
	"time"

	"plimsoll/profile"
)

// Best is the load that BestThroughput chose.
type Best struct {
	ThroughputPerGPU float64       // output tokens/s/GPU
	ITL              time.Duration // predicted there, at most the limit where Feasible
	KVUsage          float64       // fraction of the capacity
	InFlight         float64       // requests
	Error            float64       // relative, of ITL: nine of ten measurements there are expected in ITL / (1+Error) to ITL · (1+Error)
	Feasible         bool          // false: no measured load keeps the limit; the fields are of the one with the least ITL
	gaps             [2]gap
}

// Warnings says what was outside the measured range; nil where nothing was.
func (b Best) Warnings() []profile.Warning { return warnings(b.gaps) }

// BestThroughput is the largest measured load at a context whose predicted ITL
// keeps the limit (<=), and its throughput. It never goes beyond what was
// measured. Where no load keeps the limit it says so and gives the load with the
// least ITL (upstream answers with the throughput of an idle engine there, and
// the fleet explodes). Where the data falls with load in places, loads below the
// answer may exceed the limit; CheckDecode names such data.
func (d Decode) BestThroughput(limit time.Duration, contextTokens float64) Best {
	b, c := d.blend(contextTokens)
	n, ok := b.largest(float64(limit))
	return Best{
		ThroughputPerGPU: d.rate(&b, n), ITL: duration(b.itl(n)),
		KVUsage: n * contextTokens / d.maxKV, InFlight: n, Error: b.unsure(n), Feasible: ok, gaps: [2]gap{c},
	}
}

// largest load in [low, high] with ITL ≤ limit; the one with the least ITL at a
// measured load if there is none. Between two neighbouring knots both rows are
// monotone, so that the loads to look at are few; a dip between two knots that
// exceed the limit, which falling data alone could make, is passed over.
func (b *blend) largest(limit float64) (n float64, ok bool) {
	least, at := math.Inf(1), b.low
	above := math.NaN()
	for n := range b.knots() {
		y := b.itl(n)
		if y <= limit {
			if math.IsNaN(above) {
				return n, true
			}
			return b.bisect(n, above, limit), true
		}
		if y < least {
			least, at = y, n
		}
		above = n
	}
	return at, false
}

// bisect finds the crossing between below, which keeps the limit, and above,
// which does not; what it returns keeps the limit. 60 halvings exhaust float64.
func (b *blend) bisect(below, above, limit float64) float64 {
	for range 60 {
		mid := below + (above-below)/2
		if mid <= below || mid >= above {
			break
		}
		if b.itl(mid) <= limit {
			below = mid
		} else {
			above = mid
		}
	}
	return below
}

// knots yields the loads at which either row was measured, from the highest
// measured load of the blend down to the lowest.
func (b *blend) knots() func(yield func(float64) bool) {
	return func(yield func(float64) bool) {
		if !yield(b.high) {
			return
		}
		x1, x2 := b.one.rest.x, b.two.rest.x
		if b.w == 0 {
			x2 = nil
		}
		i, j := len(x1)-1, len(x2)-1
		for i >= 0 || j >= 0 {
			var n float64
			if j < 0 || (i >= 0 && x1[i]/b.per1 >= x2[j]/b.per2) {
				n, i = x1[i]/b.per1, i-1
			} else {
				n, j = x2[j]/b.per2, j-1
			}
			if n < b.high && n > b.low && !yield(n) {
				return
			}
		}
		if b.low < b.high {
			yield(b.low)
		}
	}
}
