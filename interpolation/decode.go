package interpolation

import (
	"errors"
	"fmt"
	"math"
	"sort"

	"plimsoll/profile"
)

// Decode predicts ITL and decode throughput over load and context at one
// configuration.
//
// Within a row (one context) ITL over n, the requests in flight, is a monotone
// cubic. Between rows at contexts c1 < c < c2, with λ = (c−c1)/(c2−c1), rows are
// read at different loads and mixed:
//
//	ITL(n, c) = (1−w)·ITL1(n1) + w·ITL2(n2),  n1 = n·(1−λ)/(1−w),  n2 = n·λ/w
//
// For an engine whose step takes a + b·n + k·n·c (weights, per-sequence work,
// attention over the KV cache) this is exact for every w in (0,1), since
// (1−w)·n1 + w·n2 = n and (1−w)·n1·c1 + w·n2·c2 = n·((1−λ)·c1 + λ·c2) = n·c.
// w is chosen so that both rows are read at the same fraction of the load that
// they were measured up to, n1/N1 = n2/N2:
//
//	w = λ·N1/D,  D = (1−λ)·N2 + λ·N1,  n1 = n·D/N2,  n2 = n·D/N1
//
// which makes the measured boundary between the rows
//
//	1/N(c) = (1−λ)/N1 + λ/N2
//
// exact both for a limit on sequences (N1 = N2) and for a KV capacity K
// (Ni = K/ci, so 1/N = c/K). Interpolating at equal n or at equal KV use reads
// one of the rows beyond its measured end instead. ITL does not fall with n
// where neither row's does.
type Decode struct {
	rows  []row
	maxKV float64
	gpus  float64
	from  profile.Provenance
}

// contextTolerance is how far beyond the outermost contexts counts as measured:
// a context that was seen is never the round one that is asked for.
const contextTolerance = 0.02

// loadTolerance absorbs rounding at the ends of a row.
const loadTolerance = 1e-6

// FitDecode fits the surface of an engine on gpus GPUs. One context row is
// usable at that context only.
func FitDecode(s profile.DecodeSurface, gpus int) (Decode, error) {
	switch {
	case gpus < 1:
		return Decode{}, fmt.Errorf("decode surface: %d GPUs, want at least 1", gpus)
	case s.MaxKVTokens < 1:
		return Decode{}, fmt.Errorf("decode surface: KV capacity %d tokens, want above 0", s.MaxKVTokens)
	case len(s.Samples) == 0:
		return Decode{}, errors.New("decode surface has no samples")
	}
	d := Decode{maxKV: float64(s.MaxKVTokens), gpus: float64(gpus), from: s.Provenance}
	samples := make([]sample, len(s.Samples))
	for i, p := range s.Samples {
		v, err := d.sample(p)
		if err != nil {
			return Decode{}, fmt.Errorf("decode sample %d: %w", i, err)
		}
		samples[i] = v
	}
	d.rows = newRows(samples)
	return d, nil
}

func (d *Decode) sample(p profile.DecodeSample) (sample, error) {
	switch {
	case !finite(p.KVUsage) || p.KVUsage <= 0:
		return sample{}, fmt.Errorf("KV usage %v, want above 0", p.KVUsage)
	case !finite(p.Context) || p.Context <= 0:
		return sample{}, fmt.Errorf("context %v, want above 0", p.Context)
	case p.ITL <= 0:
		return sample{}, fmt.Errorf("ITL %v, want above 0", p.ITL)
	case !finite(p.ThroughputPerGPU) || p.ThroughputPerGPU < 0:
		return sample{}, fmt.Errorf("throughput %v, want a number not below 0", p.ThroughputPerGPU)
	}
	s := sample{n: p.KVUsage * d.maxKV / p.Context, context: p.Context, itl: float64(p.ITL), efficiency: 1}
	if !(s.n > 1e-9) || s.n > 1e12 {
		return sample{}, fmt.Errorf("KV usage %v of %.0f tokens at context %v is %v requests in flight", p.KVUsage, d.maxKV, p.Context, s.n)
	}
	if p.ThroughputPerGPU > 0 {
		s.efficiency = p.ThroughputPerGPU * d.gpus * p.ITL.Seconds() / s.n
	}
	return s, nil
}

// Provenance is the surface's.
func (d Decode) Provenance() profile.Provenance { return d.from }

// Contexts is the measured range of contexts, in tokens.
func (d Decode) Contexts() (low, high float64) {
	return d.rows[0].low, d.rows[len(d.rows)-1].high
}

// MostInFlight is the largest load measured at any context, in requests.
func (d Decode) MostInFlight() float64 {
	most := 0.0
	for i := range d.rows {
		most = max(most, d.rows[i].max())
	}
	return most
}

// InFlight is the measured range of load at a context, in requests.
func (d Decode) InFlight(contextTokens float64) (low, high float64) {
	b, _ := d.blend(contextTokens)
	return b.low, b.high
}

// nearest is the row whose context is the nearest.
func (d *Decode) nearest(context float64) *row {
	best := &d.rows[0]
	for i := range d.rows {
		if r := &d.rows[i]; math.Abs(r.context-context) < math.Abs(best.context-context) {
			best = r
		}
	}
	return best
}

// blend is the surface at one context: two rows and their weight, or one row.
type blend struct {
	one, two   *row
	w          float64 // of two
	per1, per2 float64 // n of each row per n asked for
	low, high  float64 // measured loads
}

// blend prepares a context. Beyond the outermost rows the nearest one is read
// where it is slower for every affine engine: below, at equal n (its contexts
// are longer); above, at equal KV use (more sequences for as many tokens).
func (d *Decode) blend(c float64) (blend, gap) {
	first, last := &d.rows[0], &d.rows[len(d.rows)-1]
	if !(c > 0) || math.IsInf(c, 0) {
		return single(last, 1), gap{what: notNumber, got: c}
	}
	outside := gap{what: context, got: c, low: first.low, high: last.high}
	switch {
	case c <= first.context:
		if c >= first.low*(1-contextTolerance) {
			outside = gap{}
		}
		return single(first, 1), outside
	case c >= last.context:
		if c <= last.high*(1+contextTolerance) {
			outside = gap{}
		}
		return single(last, c/last.context), outside
	}
	i := sort.Search(len(d.rows), func(i int) bool { return d.rows[i].context >= c })
	return between(&d.rows[i-1], &d.rows[i], c), gap{}
}

func single(r *row, per float64) blend {
	return blend{one: r, two: r, per1: per, per2: per, low: r.min() / per, high: r.max() / per}
}

func between(r1, r2 *row, c float64) blend {
	λ := (c - r1.context) / (r2.context - r1.context)
	n1, n2 := r1.max(), r2.max()
	d := (1-λ)*n2 + λ*n1
	return blend{
		one: r1, two: r2, w: λ * n1 / d, per1: d / n2, per2: d / n1,
		low: 1 / ((1-λ)/r1.min() + λ/r2.min()), high: n1 * n2 / d,
	}
}

// itl is the ITL in ns at n requests in flight. A load below one on average is
// an engine that idles in between: a request that runs has it to itself.
func (b *blend) itl(n float64) float64 {
	n = max(n, min(1, b.low))
	y := b.one.at(n * b.per1)
	if b.w > 0 {
		y = (1-b.w)*y + b.w*b.two.at(n*b.per2)
	}
	return y
}

// efficiency is measured throughput over n/ITL/GPUs.
func (b *blend) efficiency(n float64) float64 {
	e := b.one.efficiency.at(n * b.per1)
	if b.w > 0 {
		e = (1-b.w)*e + b.w*b.two.efficiency.at(n*b.per2)
	}
	return e
}

// verdict on a load. Below one request in flight there is nothing to measure,
// so an engine measured at one covers that too.
func (b *blend) verdict(n float64) gap {
	if !(n >= 0) || math.IsInf(n, 0) {
		return gap{what: notNumber, got: n}
	}
	low := b.low
	if low <= 1+loadTolerance {
		low = 0
	}
	if n < low*(1-loadTolerance) || n > b.high*(1+loadTolerance) {
		return gap{what: inFlight, got: n, low: b.low, high: b.high}
	}
	return gap{}
}

// ITL predicts the inter-token latency at a KV use (fraction of the capacity)
// and a mean context per running sequence (tokens).
func (d Decode) ITL(kvUsage, contextTokens float64) Latency {
	return d.ITLAt(d.load(kvUsage, contextTokens), contextTokens)
}

// ITLAt predicts it at a number of requests in flight.
func (d Decode) ITLAt(requests, contextTokens float64) Latency {
	b, n, gaps := d.read(requests, contextTokens)
	return Latency{Value: duration(b.itl(n)), InRange: gaps == [2]gap{}, gaps: gaps}
}

// read is where the surface is read for a load at a context, and what of the
// two was not measured. A load that is no number is read on the slow side.
func (d *Decode) read(requests, contextTokens float64) (b blend, n float64, gaps [2]gap) {
	b, c := d.blend(contextTokens)
	load := b.verdict(requests)
	if load.what == notNumber {
		requests = b.high
	}
	return b, requests, [2]gap{c, load}
}

// ThroughputPerGPU predicts output tokens/s/GPU at a KV use and a context.
func (d Decode) ThroughputPerGPU(kvUsage, contextTokens float64) Rate {
	return d.ThroughputAt(d.load(kvUsage, contextTokens), contextTokens)
}

// ThroughputAt predicts it at a number of requests in flight: n/ITL/GPUs times
// the measured efficiency, which is near 1.
func (d Decode) ThroughputAt(requests, contextTokens float64) Rate {
	b, n, gaps := d.read(requests, contextTokens)
	return Rate{Value: d.rate(&b, n), InRange: gaps == [2]gap{}, gaps: gaps}
}

// rate in output tokens/s/GPU; 0 where the step takes no time, at no load on an
// engine without a constant part.
func (d *Decode) rate(b *blend, n float64) float64 {
	itl := b.itl(n)
	if itl <= 0 {
		return 0
	}
	return b.efficiency(n) * n / (itl * 1e-9) / d.gpus
}

func (d *Decode) load(kvUsage, contextTokens float64) float64 {
	if !(contextTokens > 0) || math.IsInf(contextTokens, 0) {
		return math.NaN()
	}
	return kvUsage * d.maxKV / contextTokens
}
