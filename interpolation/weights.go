package interpolation

import "sort"

// weights is a step that reads all weights of the model. A step with few tokens
// of a mixture of experts reads but some of them, so that ITL rises steeply over
// the first sequences and less from where all are needed; that of a dense model
// rises less before than after.
type weights struct {
	full   float64 // ns, without a sequence
	perSeq float64 // ns: what one more adds
}

// newWeights reads the split off the lowest context, where the KV cache matters
// least, near so many sequences as the shortest prompt has tokens: as that one
// reads all weights, so do they.
func newWeights(d *Decode, shortest float64) weights {
	n, y := d.rows[0].n, d.rows[0].itl
	at := min(sort.SearchFloat64s(n, shortest), len(n)-1)
	slope := func(i int) float64 { return max(0, (y[i]-y[i-1])/(n[i]-n[i-1])) }
	if at == 0 { // one load, or none below
		full := max(0, d.rows[0].at(0))
		return weights{full: full, perSeq: max(0, y[0]-full) / n[0]}
	}
	per := slope(at)
	if at+1 < len(n) {
		per = min(per, slope(at+1))
	}
	return weights{full: max(0, y[at]-n[at]*per), perSeq: per}
}

// with is that step with n decoding sequences of hardly any context, in ns.
func (w *weights) with(n float64) float64 { return w.full + n*w.perSeq }
