package fleet

import (
	"math"
	"math/bits"

	"plimsoll/engine"
)

// wide is a signed 128-bit integer: sums of picoseconds over any number of
// requests stay exact in it.
type wide struct{ hi, lo uint64 }

// product is a·b.
func product(a, b int64) wide {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	// Two's complement: a negative factor was read as 2⁶⁴ more than it is.
	hi -= uint64(a>>63)&uint64(b) + uint64(b>>63)&uint64(a)
	return wide{hi, lo}
}

func (w wide) plus(x wide) wide {
	lo, carry := bits.Add64(w.lo, x.lo, 0)
	return wide{w.hi + x.hi + carry, lo}
}

func (w wide) minus(x wide) wide {
	lo, borrow := bits.Sub64(w.lo, x.lo, 0)
	return wide{w.hi - x.hi - borrow, lo}
}

// times is w·n, w and n not negative.
func (w wide) times(n int64) wide {
	hi, lo := bits.Mul64(w.lo, uint64(n))
	return wide{hi + w.hi*uint64(n), lo}
}

// half is w/2, rounded down.
func (w wide) half() wide {
	return wide{uint64(int64(w.hi) >> 1), w.hi<<63 | w.lo>>1}
}

func (w wide) float() float64 { return math.Ldexp(float64(int64(w.hi)), 64) + float64(w.lo) }

// gauge is a number that changes at instants, with its integral over time.
type gauge struct {
	value, peak int64
	// moment is Σ change·instant, so that the integral up to an instant t is
	// value·t − moment: a change costs one product, and the exactness of
	// integers makes up for the cancellation.
	moment wide
}

// change adds d at an instant.
func (g *gauge) change(at engine.Picoseconds, d int) {
	g.value += int64(d)
	g.peak = max(g.peak, g.value)
	g.moment = g.moment.plus(product(int64(d), int64(at)))
}

// area is the integral from 0 to an instant that is not before the last change.
func (g *gauge) area(at engine.Picoseconds) wide {
	return product(g.value, int64(at)).minus(g.moment)
}

// per is area over a span: a mean over time; 0 for no span.
func per(area wide, span engine.Picoseconds) float64 {
	if span <= 0 {
		return 0
	}
	return area.float() / float64(span)
}
