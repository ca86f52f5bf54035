package latency

import (
	"math"
	"math/bits"
)

// A step's times are tabulated over counts (tokens, sequences, context) at knots: all
// numbers below the first octave, then so many per doubling, evenly between; a line
// leads from one to the next, and on beyond the last.

// knots are 1 << octave below and after that 1 << octave per doubling: octave 2 is 0,
// 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20 …
type knots struct {
	octave int
	most   int // number of them
}

func knotsTo(octave, count int) knots {
	k := knots{octave: octave}
	k.most = k.place(count) + 2
	return k
}

// place is the knot at or below n.
func (k knots) place(n int) int {
	e := bits.Len(uint(n)) - 1 - k.octave
	if e <= 0 {
		return n
	}
	return e<<k.octave + n>>e
}

// at is the count at knot i.
func (k knots) at(i int) int {
	e := i>>k.octave - 1
	if e <= 0 {
		return i
	}
	return (i - e<<k.octave) << e
}

// between is the knot below n, and how far n lies from it to the next, from 0 to 1;
// more beyond the last.
func (k knots) between(n int) (i int, share float64) {
	i = min(k.place(n), k.most-2)
	return i, float64(n-k.at(i)) * halves[max(0, i>>k.octave-1)]
}

// halves are the powers of a half: knots lie a power of two apart.
var halves = func() (h [bits.UintSize]float64) {
	for i := range h {
		h[i] = math.Ldexp(1, -i)
	}
	return h
}()
