package sweep

import (
	"cmp"
	"math"
	"slices"

	"plimsoll/engine"
	"plimsoll/interpolation"
	"plimsoll/profile"
)

// Where a decode surface is measured. Dynamo's planner reads the file with scipy's
// griddata (Clough-Tocher) over KV use and context, unscaled. At one KV use
// throughput falls as 1/context, and between contexts further apart than about a
// factor of 2 those cubics fall below 0. Over load, throughput bends most where
// there is little of it, so loads are spaced by a ratio too. Both ratios were chosen
// on latency models of 8B models and held for others, for mixtures of experts, and
// with 2 % noise; check_npz.py in testdata/integration holds the files to it.
const (
	rowRatio = 2. // of neighbouring contexts, at most

	rowLevels, levelRatio = 6, 2.2 // in-flight counts of a row

	mostLevels = 8    // of a row, with those that it takes for the reader's ITL to rise
	mostFall   = 0.02 // that is left, beside the samples' own noise
	mostOpen   = 0.06 // of ITL between two levels, beside that noise
)

// sameRow is the ratio within which contexts are one row, and sameLoad that within
// which in-flight counts are one load: two would only measure their noise, and the
// reader's cubics carry a slope of noise far beyond them.
const sameRow, sameLoad = 1.1, 1.15

// row is one context of a surface, at some in-flight counts, from the highest: a
// staircase is filled once and then canceled down.
type row struct {
	isl, osl int
	levels   []int
}

func (w row) context() float64 { return nominalContext(w.isl, w.osl) }

// nominalContext is the mean context of a request that decodes, tokens.
func nominalContext(isl, osl int) float64 { return float64(isl) + float64(osl)/2 }

// surfaceRows are the rows that a decode surface begins with: the target's, the
// shortest context, the longest one that fits, and what it takes between them. The
// longest is first: shorter prompts are its prompts' beginnings, and cached.
func (o Options) surfaceRows(f profile.EngineFacts, c engine.Config) []row {
	osl := o.surfaceOSL(f)
	longest := o.context(f)
	if f.KVTokens > 0 {
		longest = min(longest, f.Replica(attentionReplicas(c)).Longest())
	}
	rows := []row{{isl: o.ISL, osl: o.decodeOSL(f)}}
	for _, context := range between(rows[0].context(), nominalContext(min(100, o.ISL), osl), nominalContext(longest-osl, osl)) {
		osl := min(osl, max(minOSL, int(2*(context-1)))) // a short context has room for a short answer
		rows = append(rows, row{isl: max(1, int(math.Round(context-float64(osl)/2))), osl: osl})
	}
	for i := range rows {
		room := o.rounds(f, c, rows[i].isl, rows[i].osl)
		rows[i].levels = room.counts(falling(room.top, rowLevels, levelRatio))
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(b.context(), a.context()) })
	return slices.DeleteFunc(rows, func(w row) bool { return len(w.levels) == 0 })
}

// between are the contexts beside the target's from low to high; where the target's does
// not fit, those from high down.
func between(target, low, high float64) (v []float64) {
	from := target
	if high < target/sameRow {
		v, from = append(v, high), high
	} else if high > target {
		v = geometric(target, high)
	}
	if low < from {
		v = append(v, geometric(from, low)...)
	}
	return v
}

// geometric are values from a, which is left out, to b in equal ratios of rowRatio
// at most; none where b is a's row.
func geometric(a, b float64) (v []float64) {
	span := math.Log(b / a)
	if !(math.Abs(span) > math.Log(sameRow)) {
		return nil
	}
	n := int(math.Ceil(math.Abs(span) / math.Log(rowRatio)))
	for i := 1; i <= n; i++ {
		v = append(v, a*math.Exp(span*float64(i)/float64(n)))
	}
	return v
}

// falling are count numbers from top down, each a ratio-th of the one before, and
// the last 1; fewer where top is small.
func falling(top, count int, ratio float64) []int {
	if top < 1 {
		return nil
	}
	ns := []int{1}
	for at := float64(top); count > 1 && math.Round(at) > 1; at, count = at/ratio, count-1 {
		ns = append(ns, int(math.Round(at)))
	}
	slices.Sort(ns)
	slices.Reverse(ns)
	return ns
}

// smoother is the in-flight count, a multiple of each, to measure beside a row's
// points by load, so that the spline through their ITL does not fall, and follows it
// where it bends; none where it does, or where no load is left.
func smoother(ps []profile.Point, each int) (n int, more bool) {
	if len(ps) >= mostLevels {
		return 0, false
	}
	var x, y []float64
	noise := 0.0
	for _, p := range ps {
		itl := p.PerToken()
		x, y = append(x, p.InFlight), append(y, float64(itl.Mean))
		noise = max(noise, float64(itl.Half)/float64(itl.Mean))
	}
	over := interpolation.OvershootOf(x, y)
	if over.Fall <= mostFall+noise {
		return bent(x, y, mostOpen+noise, each)
	}
	for _, at := range []float64{over.Peak, over.Trough} {
		i, _ := slices.BinarySearch(x, at)
		if i == 0 || i == len(x) {
			continue
		}
		if n, ok := half(x[i-1], x[i], each); ok {
			return n, true
		}
	}
	return 0, false
}

// bent is the in-flight count between two of a row's points where ITL is most open,
// relative to it: one that rises ever faster with load lies between the straight line
// through both and those through the points beside them. None where it is open by most
// at most. From where on computing takes longer than reading the weights, ITL has such
// a bend, which spline and neighbours miss.
func bent(x, y []float64, most float64, each int) (n int, more bool) {
	for i := 1; i < len(x); i++ {
		at, ok := half(x[i-1], x[i], each)
		if !ok {
			continue
		}
		line := func(a, b int) float64 { return y[a] + (y[b]-y[a])*(float64(at)-x[a])/(x[b]-x[a]) }
		least := math.Inf(1)
		if i > 1 {
			least = line(i-2, i-1)
		}
		if i+1 < len(x) && (i == 1 || line(i, i+1) > least) {
			least = line(i, i+1)
		}
		if open := 1 - least/line(i-1, i); open > most {
			n, most, more = at, open, true
		}
	}
	return n, more
}

// halves are the in-flight counts between neighbouring ones of sorted counts, as
// multiples of each, that are a load of their own.
func halves(counts []int, each int) (ns []int) {
	for i := 1; i < len(counts); i++ {
		if n, ok := half(float64(counts[i-1]), float64(counts[i]), each); ok {
			ns = append(ns, n)
		}
	}
	return ns
}

// half is the in-flight count between two, as a multiple of each; none where it is
// no load of its own.
func half(a, b float64, each int) (n int, ok bool) {
	n = each * int(math.Round(math.Sqrt(a*b)/float64(each)))
	return n, float64(n) > sameLoad*a && b > sameLoad*float64(n)
}
