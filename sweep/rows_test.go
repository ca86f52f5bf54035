package sweep

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/interpolation"
	"plimsoll/profile"
)

// rowsOf are the samples of a surface by context.
func rowsOf(s profile.DecodeSurface) (contexts []float64, rows map[float64][]profile.DecodeSample) {
	rows = map[float64][]profile.DecodeSample{}
	for _, p := range s.Samples {
		if rows[p.Context] == nil {
			contexts = append(contexts, p.Context)
		}
		rows[p.Context] = append(rows[p.Context], p)
	}
	slices.Sort(contexts)
	return contexts, rows
}

// saturating is a mixture of experts: a few requests wake all experts.
func saturating() law {
	l := affine(1)
	l.seqs, l.kv = 1024, 3_000_000
	l.itl = func(n int, c float64) time.Duration {
		return time.Duration((14 + 16*(1-math.Exp(-float64(n)/40)) + float64(n)*c*6e-6) * float64(ms))
	}
	return l
}

// Contexts of a row differed by what its streams had grown meanwhile, and points
// stood alone at contexts between rows: the triangles of whoever interpolates the
// file were slivers, and throughputs on them below 0.
func TestDefectContextsOfARowDiffer(t *testing.T) {
	for name, laws := range map[string]map[string]law{"dense": three(), "experts": {"TP:1": saturating(), "TP:2": saturating()}} {
		b := newLab(laws)
		o := options(b, 1, 2)
		o.SLA.ITL = 33 * ms
		res, _, err := run(t, b, o, Known{})
		if err != nil {
			t.Fatal(err)
		}
		contexts, rows := rowsOf(res.DecodeSurface)
		if lo, hi := contexts[0], contexts[len(contexts)-1]; lo != 120 || hi != 16364 {
			t.Errorf("%s: contexts from %v to %v, want the shortest and the longest that fit, 120 and 16364", name, lo, hi)
		}
		if rows[3075] == nil {
			t.Errorf("%s: no row at the target's context, 3075: %v", name, contexts)
		}
		for i, c := range contexts {
			if i > 0 && (c < sameRow*contexts[i-1] || c > 1.01*rowRatio*contexts[i-1]) {
				t.Errorf("%s: contexts %v and %v, want rows apart by a factor from %v to %v", name, contexts[i-1], c, sameRow, rowRatio)
			}
			loads := inFlight(res.DecodeSurface, rows[c])
			isl := int(c) - o.SurfaceOSL/2
			top := o.rounds(b.facts(), o.Candidates[0], isl, o.SurfaceOSL).top
			if loads[0] != 1 || loads[len(loads)-1] < float64(top)/sameLoad {
				t.Errorf("%s: context %v at %v in flight, want 1 to about %d", name, c, loads, top)
			}
			for k := 1; k < len(loads); k++ {
				if loads[k] < sameLoad*loads[k-1] {
					t.Errorf("%s: context %v at %v in flight: two are one load", name, c, loads)
				}
			}
			if over := overshoot(res.DecodeSurface, rows[c]); over.Fall > mostFall {
				t.Errorf("%s: context %v at %v in flight: a spline through them falls by %.1f %%", name, c, loads, 100*over.Fall)
			}
		}
		pick := res.Decode.Picked.Point
		if !slices.ContainsFunc(rows[3075], func(p profile.DecodeSample) bool { return p.ITL == pick.ITL.Mean }) {
			t.Errorf("%s: the pick at %v is not in its row", name, pick.InFlight)
		}
	}
}

func (b *lab) facts() profile.EngineFacts {
	l := b.laws["TP:1"]
	return profile.EngineFacts{KVTokens: l.kv, BlockSize: l.block, MaxNumSeqs: l.seqs}
}

func inFlight(s profile.DecodeSurface, row []profile.DecodeSample) (n []float64) {
	for _, p := range row {
		n = append(n, math.Round(p.KVUsage*float64(s.MaxKVTokens)/p.Context))
	}
	return n
}

func overshoot(s profile.DecodeSurface, row []profile.DecodeSample) interpolation.Overshoot {
	var y []float64
	for _, p := range row {
		y = append(y, float64(p.ITL))
	}
	return interpolation.OvershootOf(inFlight(s, row), y)
}

// The levels that every row has are too few for the curve of saturating.
func TestSmootherAddsWhereTheSplineFalls(t *testing.T) {
	l := saturating()
	at := func(ns ...int) (ps []profile.Point) {
		for _, n := range ns {
			ps = append(ps, profile.Point{InFlight: float64(n), ITL: exactly(l.itl(n, 1000))})
		}
		return ps
	}
	if n, more := smoother(at(1, 64, 1024), 1); !more || n <= 64 || n >= 1024 {
		t.Errorf("%d, %v; want one between 64 and 1024", n, more)
	}
	if n, more := smoother(at(8, 64, 1024), 8); !more || n%8 != 0 {
		t.Errorf("%d, %v; want a multiple of 8", n, more)
	}
	if n, more := smoother(at(1, 2, 3), 1); more {
		t.Errorf("%d between neighbours", n)
	}
	if n, more := smoother(at(1, 10, 20, 40, 80, 160, 320, 1024), 1); more {
		t.Errorf("%d beside as many as a row may have", n)
	}
}

// The grid's plan is Dynamo's. Every load of a row is in the file: loads near each other
// were left out. A row at nearly the target's context is the target's: with both of
// them, the triangles of Dynamo's reader are slivers.
func TestDefectGridLostPoints(t *testing.T) {
	b := newLab(three())
	o := options(b, 1, 2)
	o.Search, o.DecodeGranularity = Grid, 6
	res, _, err := run(t, b, o, Known{})
	if err != nil {
		t.Fatal(err)
	}
	measured := map[float64]map[int]bool{} // loads asked for, by context
	for _, p := range res.Points {
		if at := nominalContext(p.ISL, p.OSL); surfacePoint(p, res.Decode.Picked.Point.Config) {
			if measured[at] == nil {
				measured[at] = map[int]bool{}
			}
			measured[at][p.Asked] = true
		}
	}
	contexts, rows := rowsOf(res.DecodeSurface)
	if len(contexts) != len(measured)-1 || rows[3075] == nil || rows[2997] != nil {
		t.Errorf("rows at contexts %v, want those of %d, the target's 3075 for 2997", contexts, len(measured))
	}
	for at, row := range rows {
		if len(row) != len(measured[at]) {
			t.Errorf("context %g has %d samples of %d loads", at, len(row), len(measured[at]))
		}
	}
}

// The pick's row lost against one at nearly its context with more points.
func TestDefectPicksRowIsLost(t *testing.T) {
	at := func(context float64, picked bool, ids ...string) surfaceRow {
		r := surfaceRow{context: context, picked: picked}
		for _, id := range ids {
			r.points = append(r.points, profile.Point{ID: id})
		}
		return r
	}
	if got := distinctRows([]surfaceRow{at(1000, false, "a", "b"), at(1010, true, "c"), at(1020, false, "d")}); len(got) != 1 || !got[0].picked {
		t.Errorf("%+v", got)
	}
}

// A row has the context that was meant, unless its engine counts tokens otherwise.
func TestContextOfARow(t *testing.T) {
	cfg := engine.Config{Model: "m"}
	points := func(off float64) (ps []profile.Point) {
		for i, n := range []int{1, 10, 30} {
			ps = append(ps, profile.Point{
				Phase: profile.Decode, Config: cfg, ISL: 1000, OSL: 100, InFlight: float64(n), MaxKV: 100_000,
				Context: 1050*off + float64(i) - 1, ITL: exactly(time.Duration(10+n) * ms),
			})
		}
		return ps
	}
	for off, want := range map[float64]float64{1: 1050, 1.01: 1050, 1.1: 1155} {
		s := decodeSurfaceOf(points(off), cfg, "", false)
		for i, n := range []float64{1, 10, 30} {
			if p := s.Samples[i]; math.Abs(p.Context-want) > 1e-6 || p.KVUsage != n*p.Context/100_000 {
				t.Errorf("seen %v times as long: context %v, KV use %v; want %v, %v", off, p.Context, p.KVUsage, want, n*want/100_000)
			}
		}
	}
}

func TestSurfaceRowsOfFewTokens(t *testing.T) {
	b := newLab(three())
	o := options(b, 1)
	for _, c := range []struct {
		kv, seqs, maxContext int
		longest              float64 // of the rows, tokens
	}{
		{400_000, 64, 16384, 16364},
		{5_000, 64, 16384, 4972}, // of whole blocks, 4992
		{400_000, 1, 16384, 16364},
		{400_000, 64, 3150, 3075}, // the target itself
		{2_000, 64, 16384, 1972},  // the target does not fit: only rows below it
	} {
		o.MaxContext = c.maxContext
		f := profile.EngineFacts{KVTokens: c.kv, BlockSize: 16, MaxNumSeqs: c.seqs}
		longest := 0.0
		for _, w := range o.surfaceRows(f, o.Candidates[0]) {
			longest = max(longest, w.context())
			if w.levels[len(w.levels)-1] != 1 || w.levels[0] > c.seqs || !slices.IsSortedFunc(w.levels, func(a, b int) int { return b - a }) {
				t.Errorf("%+v: levels %v", c, w.levels)
			}
		}
		if math.Abs(longest-c.longest) > 0.05*c.longest {
			t.Errorf("%+v: the longest row is at %v tokens", c, longest)
		}
	}
}

// Rows were spaced by prompt length: beside a target of 1000 and 8000 tokens no row was
// within a factor of 9.
func TestDefectRowsAreSpacedByContext(t *testing.T) {
	b := newLab(three())
	o := options(b, 1)
	enginetest.Check(t, func(t *rapid.T) {
		o := o
		o.ISL, o.OSL = rapid.IntRange(1, 20_000).Draw(t, "isl"), rapid.IntRange(2, 20_000).Draw(t, "osl")
		o.MaxContext = rapid.IntRange(500, 200_000).Draw(t, "context")
		rows := o.surfaceRows(profile.EngineFacts{KVTokens: 10_000_000, BlockSize: 16, MaxNumSeqs: 64}, o.Candidates[0])
		for i := 1; i < len(rows); i++ {
			longer, shorter := rows[i-1].context(), rows[i].context() // of whole tokens: one more or less
			if longer > 1.01*rowRatio*(shorter+1) || longer < 0.99*sameRow*shorter {
				t.Fatalf("rows at %v and %v tokens", rows[i-1].context(), rows[i].context())
			}
		}
	})
}

// Of points at one load, one whose interval is known is better than one of which nothing
// is, and one without any spread, or that a model gave, is better still.
func TestUnknownIntervalIsNotTheBest(t *testing.T) {
	at := func(id string, d profile.Distribution, by profile.Provenance) profile.Point {
		return profile.Point{ID: id, Asked: 10, InFlight: 10, ITL: d, Provenance: by}
	}
	unknown := at("few", profile.Distribution{N: 4, Mean: 20 * ms, Min: 10 * ms, Max: 30 * ms}, profile.Measured)
	one := at("one", profile.Distribution{N: 1, Mean: 20 * ms, Min: 20 * ms, Max: 20 * ms}, profile.Measured)
	known := at("known", profile.Distribution{N: 400, Mean: 20 * ms, Min: 10 * ms, Max: 30 * ms, Half: ms}, profile.Measured)
	alike := at("alike", profile.Distribution{N: 400, Mean: 20 * ms, Min: 20 * ms, Max: 20 * ms}, profile.Measured)
	model := at("model", profile.Distribution{N: 4, Mean: 20 * ms, Min: 10 * ms, Max: 30 * ms}, profile.Estimated)
	for _, thin := range []func([]profile.Point, string) []profile.Point{apart, onceAsked} {
		for want, ps := range map[string][]profile.Point{"known": {unknown, one, known}, "alike": {unknown, known, alike}, "model": {known, model}, "few": {unknown, one}} {
			if got := thin(ps, ""); len(got) != 1 || got[0].ID != want {
				t.Errorf("%+v, want %s", got, want)
			}
		}
		if got := thin([]profile.Point{unknown, known, alike}, "few"); len(got) != 1 || got[0].ID != "few" {
			t.Errorf("%+v, want the pick", got)
		}
	}
}

// No two points of a row are at one load, wherever the pick is, and each that is left out is
// near one that is kept.
func TestPointsOfARowAreApart(t *testing.T) {
	var four []profile.Point
	for _, n := range []int{100, 113, 116, 130} {
		four = append(four, profile.Point{ID: fmt.Sprintf("n%d", n), InFlight: float64(n), ITL: profile.Distribution{N: 100, Mean: 20 * ms, Half: ms / 10}})
	}
	if kept := apart(four, "n113"); len(kept) != 2 || kept[0].ID != "n113" || kept[1].ID != "n130" {
		t.Fatalf("kept %+v", kept)
	}
	enginetest.Check(t, func(t *rapid.T) {
		var ps []profile.Point
		for i, n := range rapid.SliceOfN(rapid.IntRange(20, 400), 1, 30).Draw(t, "loads") {
			half := rapid.IntRange(0, 1000).Draw(t, "half")
			ps = append(ps, profile.Point{ID: fmt.Sprint(i), InFlight: float64(n), ITL: profile.Distribution{N: 100, Mean: 20 * ms, Max: 30 * ms, Half: time.Duration(half) * time.Microsecond}})
		}
		pick := ps[rapid.IntRange(0, len(ps)-1).Draw(t, "pick")]
		kept := apart(ps, pick.ID)
		for i, p := range kept {
			if i > 0 && p.InFlight < sameLoad*kept[i-1].InFlight {
				t.Fatalf("%g and %g are one load", kept[i-1].InFlight, p.InFlight)
			}
		}
		if !slices.ContainsFunc(kept, func(p profile.Point) bool { return p.ID == pick.ID }) {
			t.Fatal("the pick is lost")
		}
		for _, p := range ps {
			if !slices.ContainsFunc(kept, func(k profile.Point) bool {
				return max(p.InFlight, k.InFlight) < sameLoad*sameLoad*min(p.InFlight, k.InFlight)
			}) {
				t.Fatalf("%g is left out, and nothing is near", p.InFlight)
			}
		}
	})
}

// Where ITL bends between two counts of a row, one between them is measured, until what
// is left open is small; straight ITL needs none.
func TestRowsFollowABend(t *testing.T) {
	for bend, want := range map[float64]bool{0: false, 0.1: true} {
		row := func(counts ...int) (ps []profile.Point) {
			for _, n := range counts {
				itl := 20 + 0.05*float64(n) + bend*max(0, float64(n)-150)
				ps = append(ps, profile.Point{InFlight: float64(n), ITL: exactly(time.Duration(itl * float64(ms)))})
			}
			return ps
		}
		counts := []int{1, 11, 24, 53, 116, 256}
		n, more := smoother(row(counts...), 1)
		if more != want || more && (n <= 116 || n >= 256) {
			t.Errorf("bent by %v: %d in flight (%v)", bend, n, more)
		}
		for ; more; n, more = smoother(row(distinct(counts)...), 1) {
			counts = append(counts, n)
		}
		if len(counts) > mostLevels {
			t.Errorf("bent by %v: %v", bend, counts)
		}
	}
}
