package fleet

import "plimsoll/profile"

// mostBatches bounds those of a run: of so many each two become one.
const mostBatches = 128

// Batches are a run in pieces of equally many arrivals, by which its figures vary.
type Batches struct {
	size, since int // arrivals
	of          []Interval
}

// Next counts an arrival that f was offered. It takes f's Intervals.
func (b *Batches) Next(f *Fleet) {
	b.size = max(b.size, 1)
	if b.since++; b.since < b.size {
		return
	}
	b.since = 0
	if b.of = append(b.of, f.Interval()); len(b.of) < mostBatches {
		return
	}
	for i := range mostBatches / 2 {
		b.of[i] = b.of[2*i].and(b.of[2*i+1])
	}
	b.of, b.size = b.of[:mostBatches/2], 2*b.size
}

// and is v and the interval that follows it, without what is known of neither's end.
func (v Interval) and(o Interval) Interval {
	v.To, v.Pools = o.To, nil
	v.Arrivals, v.Finished, v.Rejected, v.Lost = v.Arrivals+o.Arrivals, v.Finished+o.Finished, v.Rejected+o.Rejected, v.Lost+o.Lost
	v.MetTTFT, v.MetITL, v.MetBoth = v.MetTTFT+o.MetTTFT, v.MetITL+o.MetITL, v.MetBoth+o.MetBoth
	for _, s := range []struct{ to, from *Sketch }{{&v.TTFT, &o.TTFT}, {&v.ITL, &o.ITL}, {&v.TPOT, &o.TPOT}, {&v.E2E, &o.E2E}, {&v.ISL, &o.ISL}, {&v.OSL, &o.OSL}} {
		*s.to = s.to.Clone()
		s.to.Merge(*s.from)
	}
	return v
}

// steady is the batches without the first eighth, in which the fleet fills up.
func (b Batches) steady() []Interval { return b.of[len(b.of)/8:] }

// Bounds are where a figure of a run is, in picoseconds or as a share, by 90 % confidence.
type Bounds struct {
	Low, High float64
	// Open says that the run is too short for a High of its p99.
	Open bool
	// Times is how many times as long a run has to be at least for a p99 to ±10 %: a short
	// one has not seen its worst; 0 where it is long enough.
	Times float64
}

// beyond are the quantiles whose misses say what a p99 is worth. Those of the p99 itself are
// few, and of a queue that was long only now and then they come in few groups. With these two
// the intervals of 200 runs of 10,000 requests each (Llama 3.1 8B on one H100, log-normal
// lengths) held the p99s of 1,500,000 of TTFT, requests' means of ITL, and E2E in 96 to 98 %
// at half of what the engine serves, in 94 to 98 % at 0.8, in 92 to 97 % at 0.9 and in 91 to
// 97 % at 0.95; that of single gaps in 95, 95, 96 and 84 %, the attainment in 89 to 96 %. By
// the p99's misses alone they held it in 76 % at the worst.
var beyond = []float64{0.99, 0.97}

// pooled is the sketch of all steady batches together, and how many independent requests it
// is worth at these quantiles: as many as would vary so from batch to batch.
func (b Batches) pooled(part func(Interval) Sketch, quantiles ...float64) (all Sketch, n float64) {
	batches := b.steady()
	for _, v := range batches {
		all.Merge(part(v))
	}
	n = float64(all.count)
	for _, q := range quantiles {
		at := all.Quantile(q)
		n = min(n, worth(batches, func(v Interval) (float64, float64) { return part(v).Above(at), float64(part(v).count) }))
	}
	return all, n
}

// P99 is the interval of a latency's p99, by the sketch of the whole run and each batch's
// part of it: between two order statistics of the steady batches, or above one.
func (b Batches) P99(run Sketch, part func(Interval) Sketch) Bounds {
	all, n := b.pooled(part, beyond...)
	lo, hi := profile.Shares(n, 0.99)
	whole := float64(run.Quantile(0.99))
	out := Bounds{Low: min(whole, float64(all.Quantile(lo))), High: max(whole, float64(all.Quantile(hi))), Open: hi == 1}
	half := (out.High - out.Low) / 2
	if out.Open {
		out.High, half = 0, 2*(whole-out.Low) // the other side is the longer one
	}
	if off := half / (0.1 * whole); off > 1 || out.Open {
		out.Times = max(off*off, profile.SharesFor(0.99)/max(n, 1))
	}
	return out
}

// Met is the interval of the share of requests that met counts; whole is that share in the
// run.
func (b Batches) Met(whole float64, met func(Interval) int64) Bounds {
	n := worth(b.steady(), func(v Interval) (float64, float64) {
		judged := v.Finished + v.Rejected + v.Lost
		return float64(judged - met(v)), float64(judged)
	})
	for _, part := range []func(Interval) Sketch{func(v Interval) Sketch { return v.TTFT }, func(v Interval) Sketch { return v.TPOT }} {
		if all, like := b.pooled(part, 0.97); all.count > 0 {
			n = min(n, like)
		}
	}
	in := profile.ShareInterval(whole, n)
	return Bounds{Low: in.Low, High: in.High}
}

// worth is how many independent requests the misses of batches are worth.
func worth(batches []Interval, missed func(Interval) (missed, of float64)) float64 {
	misses, of := make([]float64, len(batches)), make([]float64, len(batches))
	for i, v := range batches {
		misses[i], of[i] = missed(v)
	}
	return profile.Worth(misses, of)
}
