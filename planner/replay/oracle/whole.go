package oracle

import (
	"math"
	"slices"

	"plimsoll/engine"
)

// whole is what whole engines cost a pool at least, in ps of one replica: see the
// package comment, "Whole engines". It is 0 where starting takes too little time to
// hold on to an engine.
func (c Case) whole(t *tariff, pool int) float64 {
	startUp := c.startUp(pool)
	stay := c.stay(t.role)
	width := (startUp - stay) / 2
	if width <= 0 || width+stay > c.end() {
		return 0
	}
	l := levels{width: float64(width), span: float64(width + stay), startUp: float64(startUp)}
	costs := make([][]float64, (c.end()-stay)/width) // of requests, by tile
	for _, r := range c.Requests {
		tile := int(r.At / width)
		if tile >= len(costs) || c.last(r.At, r.OSL, t.role) > r.At+stay {
			continue
		}
		if b := t.of(r); b.work > b.wait {
			costs[tile] = append(costs[tile], (b.work-b.wait)/t.gpus*(1-slack))
		}
	}
	for j, xs := range costs {
		l.tile(j, xs)
	}
	return l.sum(c.Fleet.Pools[pool].Replicas, len(c.Requests)-c.keep())
}

// stay is how long most requests may be in a pool.
func (c Case) stay(role engine.Role) engine.Picoseconds {
	var stays []engine.Picoseconds
	for i := 0; i < len(c.Requests); i += 1 + len(c.Requests)/1000 {
		stays = append(stays, c.last(0, c.Requests[i].OSL, role))
	}
	slices.Sort(stays)
	return stays[len(stays)*19/20]
}

// levels are the tiles of time in which so many engines must serve at once, at some
// instant: at[k−1] those of level k.
type levels struct {
	width, span, startUp float64 // ps; span is a tile and the stay of its last request
	at                   [][]need
}

// need is a tile of a level, and how many requests must be dropped for it to be one
// of the level below.
type need struct{ tile, drop int }

// tile adds a tile by the costs of its requests.
func (l *levels) tile(j int, costs []float64) {
	slices.Sort(costs)
	work := sum(costs)
	drop := 0
	for k := int(math.Ceil(work / l.span)); k > 0; k-- {
		before := drop
		for ; work > float64(k-1)*l.span && drop < len(costs); drop++ {
			work -= costs[len(costs)-1-drop]
		}
		for len(l.at) < k {
			l.at = append(l.at, nil)
		}
		l.at[k-1] = append(l.at[k-1], need{j, drop - before})
	}
}

// saving is what dropping so many requests saves at most.
type saving struct {
	ps   float64
	drop int
}

// sum is what all levels cost at least, where some replicas serve from the start and
// so many requests may be dropped.
func (l *levels) sum(start, may int) float64 {
	total := 0.0
	var savings []saving
	again := l.startUp - l.span // what it costs at least to leave and come back
	for k, needs := range l.at {
		level := 0.0
		var own []saving
		for i, n := range needs {
			c := again
			if i+1 < len(needs) {
				c = min(c, float64(needs[i+1].tile-n.tile)*l.width)
			}
			level += c
			own = append(own, saving{c, n.drop})
		}
		if k < start && len(needs) > 0 {
			level += min(again, float64(needs[0].tile)*l.width) - again
		}
		if level > 0 {
			total += level
			savings = append(savings, own...)
		}
	}
	return max(0, total-most(savings, may))
}

// most is the most that may be saved by dropping so many requests, the last saving in
// part.
func most(savings []saving, may int) float64 {
	slices.SortFunc(savings, func(a, b saving) int {
		return -signOf(a.ps*float64(b.drop) - b.ps*float64(a.drop))
	})
	total, left := 0.0, float64(may)
	for _, s := range savings {
		if float64(s.drop) > left {
			return total + s.ps*left/float64(s.drop)
		}
		total += s.ps
		left -= float64(s.drop)
	}
	return total
}

func signOf(x float64) int {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return 0
}
