package sweep

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"plimsoll/interpolation"
	"plimsoll/profile"
)

// The adaptive search begins a surface with few points, and adds one where the
// fit is least sure until each measured one is predicted by the others to within
// these (relative errors), or further points do not help, or there are as many as
// the grid would have.
const (
	prefillError = 0.02
	decodeError  = 0.03
)

// returns is what further points do for a surface. On an engine that is not as
// fast now as it was a minute ago they never bring it within its error.
type returns struct {
	hopes int     // points in a row that may do nothing for it before it ends
	least float64 // worst error of any sample, at its best
	since int     // points added without making it less
}

// A point does nothing where it leaves the worst error above helps of the least
// that it was. A point of prefill takes a few requests, one of decode a staircase.
const (
	helps        = 0.9
	prefillHopes = 3
	decodeHopes  = 2
)

// ended reports whether the surface is, after one more point.
func (r *returns) ended(worst float64) bool {
	if r.least == 0 || worst < helps*r.least {
		r.least, r.since = worst, 0
		return false
	}
	r.since++
	return r.since >= r.hopes
}

// The fewest points of a surface: what is less is no surface to readers of the
// files, the planner of Dynamo among them.
const (
	fewestISLs   = 5
	fewestRows   = 3
	fewestLevels = 4
)

// fillPrefill measures TTFT over ISL at the pick: at the ends, at the geometric
// middles, and then where the fit is least sure.
func (r *runner) fillPrefill(ctx context.Context, s *trial) error {
	if err := r.facts(ctx, s); err != nil {
		return err
	}
	all := prefillISLs(r.opts, s.cfg, r.opts.context(s.facts))
	gain := returns{hopes: prefillHopes}
	for isl, ok := r.nextISL(s, all, &gain); ok; isl, ok = r.nextISL(s, all, &gain) {
		id := fmt.Sprintf("surface/%s/isl%d", s.key(), isl)
		if _, err := r.prefillPoint(ctx, s, id, profile.StageSurface, isl, r.opts.SurfaceRequests); err != nil {
			return err
		}
	}
	return r.batchedPrefill(ctx, s)
}

// nextISL is the length to measure next, of all that are allowed.
func (r *runner) nextISL(s *trial, all []int, gain *returns) (isl int, more bool) {
	var tried []int // also what gave no usable point
	for _, p := range r.book.points() {
		if p.Phase == profile.Prefill && p.Config == s.cfg {
			tried = append(tried, p.ISL)
		}
	}
	open := slices.DeleteFunc(slices.Clone(all), func(isl int) bool {
		return slices.ContainsFunc(tried, func(t int) bool { return near(isl, t) })
	})
	if len(open) == 0 {
		return 0, false
	}
	for _, end := range []int{all[0], all[len(all)-1]} {
		if slices.Contains(open, end) {
			return end, true
		}
	}
	surface := prefillSurfaceOf(r.book.points(), s.cfg)
	if len(tried) < fewestISLs {
		return widest(open, tried), true
	}
	fit, err := interpolation.FitPrefill(surface)
	if err != nil {
		return widest(open, tried), true
	}
	left, err := interpolation.LeaveOneOutPrefill(surface)
	if worst := left.Covered().Worst; err != nil || worst <= prefillError || gain.ended(worst) {
		return 0, false
	}
	xs := make([]float64, len(open))
	for i, isl := range open {
		xs[i] = float64(isl)
	}
	i, _ := fit.Unsure(xs)
	return open[i], true
}

// widest is the one of open that is furthest from every one of tried, in ratio.
func widest(open, tried []int) int {
	best, most := open[0], -1.0
	for _, x := range open {
		least := math.Inf(1)
		for _, t := range tried {
			least = min(least, math.Abs(math.Log(float64(x)/float64(t))))
		}
		if least > most {
			best, most = x, least
		}
	}
	return best
}

// fillDecode measures ITL over context and in-flight at the pick: rows at the
// shortest context and at the longest beside the sweep's own, each at 1, the
// middle and the top, and then levels where the fit is least sure.
func (r *runner) fillDecode(ctx context.Context, s *trial) error {
	if err := r.facts(ctx, s); err != nil {
		return err
	}
	f := &filler{r: r, s: s, budget: r.opts.DecodeGranularity * r.opts.DecodeGranularity, gain: returns{hopes: decodeHopes}}
	for _, row := range f.rows() {
		if err := f.fill(ctx, row, row.levels); err != nil {
			return err
		}
	}
	for range f.budget {
		at, ok := f.next()
		if !ok {
			return nil
		}
		if err := f.fill(ctx, at, at.levels); err != nil {
			return err
		}
	}
	return nil
}

// filler fills the decode surface of one engine.
type filler struct {
	r      *runner
	s      *trial
	budget int
	gain   returns
	tried  map[cell]bool
}

// cell is one point of a surface, before it is measured.
type cell struct{ isl, osl, n int }

// row is one context of a surface, at some in-flight counts, from the highest: a
// staircase is filled once and then canceled down.
type row struct {
	isl, osl int
	levels   []int
}

// rows are those that a surface begins with.
func (f *filler) rows() []row {
	o := f.r.opts
	osl := o.surfaceOSL(f.s.facts)
	isls := decodeISLs(o, o.context(f.s.facts), osl)
	if n := len(isls); n > fewestRows-1 {
		isls = []int{isls[0], isls[n-1]}
	}
	target := row{isl: o.ISL, osl: o.decodeOSL(f.s.facts)}
	var rows []row
	if f.r.targetRow(f.s) < fewestLevels { // the search stopped early there
		rows = append(rows, target)
	}
	for _, isl := range isls {
		rows = append(rows, row{isl: isl, osl: osl})
	}
	for i := range rows {
		room := o.rounds(f.s.facts, f.s.cfg, rows[i].isl, rows[i].osl)
		rows[i].levels = room.counts(spaced(room.top, fewestLevels))
		slices.Reverse(rows[i].levels)
	}
	return rows
}

// fill measures a row's levels on one staircase.
func (f *filler) fill(ctx context.Context, w row, levels []int) (err error) {
	room := f.r.opts.rounds(f.s.facts, f.s.cfg, w.isl, w.osl)
	c := &climber{r: f.r, s: f.s, stage: profile.StageSurface, isl: w.isl, osl: w.osl, top: room.top * room.each}
	defer func() { err = errors.Join(err, c.close(ctx)) }()
	for _, n := range levels {
		if f.tried == nil {
			f.tried = map[cell]bool{}
		}
		f.tried[cell{w.isl, w.osl, n}] = true
		if f.r.has(f.s, w.isl, w.osl, n) {
			continue // the sweep's own
		}
		if _, err := c.at(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// next is the point where the fit is least sure, of those that the grid would
// have measured; none where the fit is good enough.
func (f *filler) next() (row, bool) {
	surface := decodeSurfaceOf(f.r.book.points(), f.s.cfg)
	gpus := f.s.cfg.GPUs()
	left, err := interpolation.LeaveOneOutDecode(surface, gpus)
	if worst := left.Covered().Worst; err != nil || worst <= decodeError || f.gain.ended(worst) {
		return row{}, false
	}
	fit, err := interpolation.FitDecode(surface, gpus)
	if err != nil {
		return row{}, false
	}
	var open []cell
	var loads []interpolation.Load
	for _, c := range f.grid() {
		open = append(open, c)
		loads = append(loads, interpolation.Load{InFlight: float64(c.n), Context: float64(c.isl) + float64(c.osl)/2})
	}
	if len(open) == 0 || len(f.tried) >= f.budget {
		return row{}, false
	}
	i, _ := fit.Unsure(loads)
	return row{isl: open[i].isl, osl: open[i].osl, levels: []int{open[i].n}}, true
}

// grid are the points of upstream's grid that were not tried yet.
func (f *filler) grid() (cells []cell) {
	o := f.r.opts
	osl := o.surfaceOSL(f.s.facts)
	for _, isl := range decodeISLs(o, o.context(f.s.facts), osl) {
		room := o.rounds(f.s.facts, f.s.cfg, isl, osl)
		for _, n := range room.counts(spaced(room.top, o.DecodeGranularity)) {
			if c := (cell{isl, osl, n}); !f.tried[c] {
				cells = append(cells, c)
			}
		}
	}
	return cells
}
