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

// fewestISLs are the fewest points of a prefill surface. Fewer are no surface to
// readers of the files, the planner of Dynamo among them.
const fewestISLs = 5

// coarsePrefill measures TTFT over ISL at the pick at the ends and at the geometric
// middles: as few points as are a surface.
func (r *runner) coarsePrefill(ctx context.Context, s *trial) error {
	return r.fillPrefill(ctx, s, fewestISLs)
}

// finePrefill adds points where the fit is least sure, and prompts that come together.
func (r *runner) finePrefill(ctx context.Context, s *trial) error {
	if err := r.fillPrefill(ctx, s, math.MaxInt); err != nil {
		return err
	}
	return r.batchedPrefill(ctx, s)
}

// fillPrefill measures lengths until there are so many, or no more are wanted.
func (r *runner) fillPrefill(ctx context.Context, s *trial, most int) error {
	if err := r.facts(ctx, s); err != nil {
		return err
	}
	all := prefillISLs(r.opts, s.cfg, r.opts.context(s.facts))
	gain := returns{hopes: prefillHopes}
	var asked []int
	for len(r.tried(s)) < most {
		isl, ok := r.nextISL(s, all, &gain)
		if !ok {
			return nil
		}
		id := fmt.Sprintf("surface/%s/isl%d", s.key(), isl)
		if slices.Contains(asked, isl) { // what is known under that name is of something else
			return fmt.Errorf("%w: %s is not of %s", ErrOtherEngine, id, s.label())
		}
		asked = append(asked, isl)
		if _, err := r.prefillPoint(ctx, s, id, profile.StageSurface, isl, r.opts.SurfaceRequests); err != nil {
			return err
		}
	}
	return nil
}

// tried are the lengths of a configuration's prefill points, also of those that gave
// nothing usable.
func (r *runner) tried(s *trial) (isls []int) {
	for _, p := range r.book.points() {
		if p.Phase == profile.Prefill && p.Config == s.cfg {
			isls = append(isls, p.ISL)
		}
	}
	return distinct(isls)
}

// nextISL is the length to measure next, of all that are allowed.
func (r *runner) nextISL(s *trial, all []int, gain *returns) (isl int, more bool) {
	tried := r.tried(s)
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

// coarseDecode measures ITL over in-flight requests at the pick at the ends of the contexts:
// with the sweep's, at the target, that is a surface.
func (r *runner) coarseDecode(ctx context.Context, s *trial) error {
	f, err := r.fillerOf(ctx, s)
	if err != nil {
		return err
	}
	for _, w := range f.ends() {
		if err := f.fill(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// fineDecode adds the contexts between, and then levels where the fit is least sure.
func (r *runner) fineDecode(ctx context.Context, s *trial) error {
	f, err := r.fillerOf(ctx, s)
	if err != nil {
		return err
	}
	for _, w := range f.rows {
		if err := f.fill(ctx, w); err != nil {
			return err
		}
	}
	for w, ok := f.next(); ok; w, ok = f.next() {
		if err := f.fill(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// fillerOf is the filler of a trial's surface.
func (r *runner) fillerOf(ctx context.Context, s *trial) (*filler, error) {
	if s.filler == nil {
		if err := r.facts(ctx, s); err != nil {
			return nil, err
		}
		s.filler = &filler{r: r, s: s, rows: r.opts.surfaceRows(s.facts, s.cfg), gain: returns{hopes: decodeHopes}}
	}
	return s.filler, nil
}

// filler fills the decode surface of one engine.
type filler struct {
	r     *runner
	s     *trial
	rows  []row
	gain  returns
	tried []cell
}

// ends are the rows of the longest and the shortest context.
func (f *filler) ends() []row {
	if len(f.rows) < 2 {
		return f.rows
	}
	return []row{f.rows[0], f.rows[len(f.rows)-1]}
}

// cell is one point of a surface, before it is measured.
type cell struct{ isl, osl, n int }

// fill measures a row's levels on one staircase, but for those that the sweep has,
// and then those that it takes for a spline through them not to fall.
func (f *filler) fill(ctx context.Context, w row) (err error) {
	room := f.r.opts.rounds(f.s.facts, f.s.cfg, w.isl, w.osl)
	c := &climber{r: f.r, s: f.s, stage: profile.StageSurface, isl: w.isl, osl: w.osl, top: room.top * room.each}
	defer func() { err = errors.Join(err, c.close(ctx)) }()
	for _, n := range w.levels {
		if err := f.level(ctx, c, n); err != nil {
			return err
		}
	}
	for {
		n, ok := smoother(f.row(w), room.each)
		if !ok || slices.Contains(f.tried, cell{w.isl, w.osl, n}) {
			return nil
		}
		if err := f.level(ctx, c, n); err != nil {
			return err
		}
	}
}

func (f *filler) level(ctx context.Context, c *climber, n int) error {
	at := cell{c.isl, c.osl, n}
	if slices.Contains(f.tried, at) {
		return nil
	}
	f.tried = append(f.tried, at)
	if f.r.has(f.s, c.isl, c.osl, n) {
		return nil
	}
	_, err := c.at(ctx, n)
	return err
}

// row are the points of a row so far that the surface takes.
func (f *filler) row(w row) []profile.Point {
	var ps []profile.Point
	for _, p := range f.r.book.points() {
		if p.ISL == w.isl && p.OSL == w.osl && surfacePoint(p, f.s.cfg) {
			ps = append(ps, p)
		}
	}
	return apart(ps, f.r.choiceOf(profile.Decode).Picked.Point.ID)
}

// next is the point where the fit is least sure, of those half-way between two of a
// row; none where the fit is good enough, or has as many as the grid would have.
func (f *filler) next() (row, bool) {
	open := f.open()
	if len(open) == 0 || len(f.tried) >= f.r.opts.DecodeGranularity*f.r.opts.DecodeGranularity {
		return row{}, false
	}
	surface := decodeSurfaceOf(f.r.book.points(), f.s.cfg, f.r.choiceOf(profile.Decode).Picked.Point.ID, false)
	gpus := f.s.cfg.GPUs()
	left, err := interpolation.LeaveOneOutDecode(surface, gpus)
	if worst := left.Covered().Worst; err != nil || worst <= decodeError || f.gain.ended(worst) {
		return row{}, false
	}
	fit, err := interpolation.FitDecode(surface, gpus)
	if err != nil {
		return row{}, false
	}
	var loads []interpolation.Load
	for _, c := range open {
		loads = append(loads, interpolation.Load{InFlight: float64(c.n), Context: nominalContext(c.isl, c.osl)})
	}
	i, _ := fit.Unsure(loads)
	return row{isl: open[i].isl, osl: open[i].osl, levels: []int{open[i].n}}, true
}

// open are the points half-way between those of a row.
func (f *filler) open() (cells []cell) {
	for _, w := range f.rows {
		counts := f.r.swept(f.s, w.isl, w.osl)
		for _, c := range f.tried {
			if c.isl == w.isl && c.osl == w.osl {
				counts = append(counts, c.n)
			}
		}
		room := f.r.opts.rounds(f.s.facts, f.s.cfg, w.isl, w.osl)
		for _, n := range halves(distinct(counts), room.each) {
			cells = append(cells, cell{w.isl, w.osl, n})
		}
	}
	return cells
}
