package replay

import (
	"math"
	"math/rand/v2"

	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
)

// Of so many draws in a row there is one in each part of the distribution: 1500
// requests drawn one by one would miss the rate by 2.6 % and lengths of a sigma of 0.5
// by 1.4 %, in all cells alike. A cell's blocks are longer than queues remember, so that
// these are as of draws one by one; in a full engine nothing but the means matters.
const (
	cellBlock = 300
	fullBlock = 24
)

// cellSalt makes a cell's requests other numbers of the seed than all else.
const cellSalt = 0x63656c6c

// draw makes the requests of a cell.
type draw struct {
	sigma          float64
	isl, osl       float64 // means
	gaps, ins, out strata
}

func (c *cells) draw(key cellKey, block int) draw {
	r := rand.New(rand.NewPCG(c.s.Seed, cellSalt))
	of := func() strata { return strata{random: r, block: block} }
	return draw{c.rates.Sigma, c.mean.ISL * exactly(key.isl, lengthStep), c.mean.OSL * exactly(key.osl, lengthStep), of(), of(), of()}
}

// gap is the next one between arrivals, in mean gaps.
func (d *draw) gap() float64 { return -math.Log1p(-d.gaps.next()) }

func (d *draw) request(at engine.Picoseconds) fleet.Request {
	length := func(mean float64, from *strata) int {
		normal := math.Sqrt2 * math.Erfinv(2*from.next()-1)
		return lognormal(mean, d.sigma, normal)
	}
	return fleet.Request{At: at, ISL: length(d.isl, &d.ins), OSL: length(d.osl, &d.out)}
}

// strata are numbers above 0 and below 1, uniform, of which each block has one in each
// of as many equal parts.
type strata struct {
	random *rand.Rand
	block  int
	left   []int
}

func (s *strata) next() float64 {
	if len(s.left) == 0 {
		s.left = s.random.Perm(s.block)
	}
	part := s.left[0]
	s.left = s.left[1:]
	const tiny = 1e-9 // away from 0 and 1
	return min(max((float64(part)+s.random.Float64())/float64(s.block), tiny), 1-tiny)
}
