package interpolation

import (
	"math"
	"sort"
)

// blend is the surface at one context: two rows and their weight, or one row.
type blend struct {
	one, two   *row
	bend       bend
	bent       float64
	fraction   float64 // λ
	gap        float64 // of the variance, half-way; beyond the rows the error itself
	w          float64 // of two
	per1, per2 float64 // n of each row per n asked for
	low, high  float64 // measured loads
	least      float64 // ns
}

// blend prepares a context. Beyond the outermost rows the nearest one is read
// where it is slower for every affine engine: below, at equal n (its contexts
// are longer); above, at equal KV use (more sequences for as many tokens).
func (d *Decode) blend(c float64) (blend, gap) {
	first, last := &d.rows[0], &d.rows[len(d.rows)-1]
	if !(c > 0) || math.IsInf(c, 0) {
		return d.single(last, 1), gap{what: notNumber, got: c}
	}
	outside := gap{what: context, got: c, low: first.low, high: last.high}
	switch {
	case c <= first.context:
		if c >= first.low*(1-contextTolerance) {
			outside = gap{}
		}
		return d.outer(first, 1, c), outside
	case c >= last.context:
		if c <= last.high*(1+contextTolerance) {
			outside = gap{}
		}
		return d.outer(last, c/last.context, c), outside
	}
	i := sort.Search(len(d.rows), func(i int) bool { return d.rows[i].context >= c })
	return d.between(i-1, c), gap{}
}

func (d *Decode) single(r *row, per float64) blend {
	return blend{one: r, two: r, bend: d.bend, bent: d.bent, per1: per, per2: per, low: r.min() / per, high: r.max() / per, least: d.least}
}

// outer is beyond the outermost row.
func (d *Decode) outer(r *row, per, c float64) blend {
	b := d.single(r, per)
	if c < r.low || c > r.high {
		b.gap = beyond * math.Abs(math.Log(c/r.context))
	}
	return b
}

func (d *Decode) between(i int, c float64) blend {
	r1, r2 := &d.rows[i], &d.rows[i+1]
	λ := (c - r1.context) / (r2.context - r1.context)
	n1, n2 := r1.max(), r2.max()
	e := (1-λ)*n2 + λ*n1
	b := blend{
		one: r1, two: r2, bend: d.bend, bent: d.bent, fraction: λ, w: λ * n1 / e, per1: e / n2, per2: e / n1,
		low: 1 / ((1-λ)/r1.min() + λ/r2.min()), high: n1 * n2 / e, least: d.least,
	}
	if i < len(d.gaps) {
		b.gap = d.gaps[i]
	}
	return b
}

// itl is the ITL in ns at n requests in flight. A load below one on average is
// an engine that idles in between: a request that runs has it to itself. Rows of
// wild data, read at other loads than their bend, may lead to below nothing.
func (b *blend) itl(n float64) float64 {
	n = max(n, min(1, b.low))
	y := b.one.at(n * b.per1)
	if b.w > 0 {
		y = (1-b.w)*y + b.w*b.two.at(n*b.per2)
	}
	return max(y+b.bent*b.bend.at(n), b.least)
}

// unsure is the relative error at n. Beyond the highest load measured nothing
// but the trend is known, and it grows in proportion.
func (b *blend) unsure(n float64) float64 {
	e := b.one.errors.at(n * b.per1)
	if b.w == 0 {
		e += b.gap
	} else {
		e2 := b.two.errors.at(n * b.per2)
		λ := b.fraction
		e = math.Sqrt((1-λ)*e*e + λ*e2*e2 + 4*λ*(1-λ)*b.gap)
	}
	if n > b.high {
		e += beyond * math.Log(n/b.high)
	}
	return e
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
