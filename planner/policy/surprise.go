package policy

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// surprise is how far a load went above its forecasts: what the headroom is made of.
// A decision must do until the replicas of the next one serve, so that what counts is
// the highest load of all intervals till then over what was forecast of it. The
// distribution of that excess, over the latest memory, is what to size for, whatever
// makes it: Poisson noise, bursts, trends, seasons that no forecast saw.
type surprise struct {
	Open []foreseen `json:"open"` // whose time is not over, oldest first
	Past []foreseen `json:"past"` // newest last
	Kept int        `json:"kept"` // of Past, at most
}

// foreseen is a forecast, and the highest load in its time.
type foreseen struct {
	Forecast float64 `json:"forecast"`
	Highest  float64 `json:"highest"`
	Left     int     `json:"left"` // intervals
}

const (
	// What went above forecasts is kept for memory, but of leastKept decisions, which
	// tell what one in forty exceeds, and of mostKept at most.
	memory    = 50 * time.Minute
	leastKept = 100
	mostKept  = 1000
	// Before anything is known loads are taken to go above forecasts by a tenth, as one
	// standard deviation of a normal distribution. That counts as much as a tenth of
	// the decisions that are kept.
	prior      = 0.1
	priorShare = 10
	// mostReserve is the most that is kept for surprises, as a share of the load: what
	// goes further, such as a jump to several times as much, is not waited for but
	// followed.
	mostReserve = 0.5
)

// see takes in the load of the interval just ended, and how long that was.
func (s *surprise) see(load float64, length time.Duration) {
	s.Kept = min(max(leastKept, int(memory/length)), mostKept)
	for i := range s.Open {
		o := &s.Open[i]
		o.Highest, o.Left = max(o.Highest, load), o.Left-1
	}
	s.over(func(o foreseen) { s.Past = append(s.Past, o) })
	s.Past = s.Past[max(0, len(s.Past)-s.Kept):]
}

// pass lets an interval go by of which nothing was seen: of forecasts whose time ends
// with it the highest load is not known.
func (s *surprise) pass() {
	for i := range s.Open {
		s.Open[i].Left--
	}
	s.over(func(foreseen) {})
}

// over takes out the forecasts whose time is over.
func (s *surprise) over(each func(foreseen)) {
	s.Open = slices.DeleteFunc(s.Open, func(o foreseen) bool {
		if o.Left <= 0 {
			each(o)
		}
		return o.Left <= 0
	})
}

// expect notes a forecast for so many intervals. Those that were made for half as many
// more, when replicas took longer to start, answer another question.
func (s *surprise) expect(load float64, intervals int) {
	passed := len(s.Open) + 1 // since the oldest was made
	s.Open = slices.DeleteFunc(s.Open, func(o foreseen) bool {
		passed--
		return o.Left+passed > intervals+intervals/2
	})
	s.Open = append(s.Open, foreseen{load, 0, intervals})
}

// above is what the load exceeds a forecast by in one case of those that a normal
// number exceeds by so many standard deviations: of n excesses that of rank
// ⌈(n+1)·probability⌉ (conformal prediction: Lei et al., JASA 113, 2018, section 2.2).
// What is rarer than one in n is not in them: it is the largest, as much larger as a
// normal one were. One of a larger load counts less, by the root, as of arrivals that
// come independently; one of a smaller load counts as it was. Of each the noise of its
// load is taken off.
func (s *surprise) above(forecast, deviations float64, n noise) float64 {
	if deviations <= 0 {
		return 0
	}
	guesses := max(s.Kept, leastKept) / priorShare
	all := s.excesses(forecast, n)
	for i := range guesses {
		all = append(all, prior*forecast*normal((float64(i)+0.5)/float64(guesses)))
	}
	slices.Sort(all)
	count := float64(len(all))
	excess := 0.0
	if rank := (count + 1) * (1 + math.Erf(deviations/math.Sqrt2)) / 2; rank > count {
		excess = all[len(all)-1] * deviations / normal(count/(count+1))
	} else {
		excess = all[max(1, int(math.Ceil(rank-1e-9)))-1]
	}
	return within(excess, 0, mostReserve*forecast)
}

// excesses are those of the past, as for a load like the forecast, less noise of
// their rank.
func (s *surprise) excesses(forecast float64, n noise) []float64 {
	all := make([]foreseen, len(s.Past))
	for i, p := range s.Past {
		scale := 1.0
		if p.Forecast > forecast {
			scale = math.Sqrt(forecast / p.Forecast)
		}
		all[i] = foreseen{Forecast: p.Forecast, Highest: scale * (p.Highest - p.Forecast)}
	}
	slices.SortStableFunc(all, func(a, b foreseen) int { return cmp.Compare(a.Highest, b.Highest) })
	out := make([]float64, len(all))
	for i, p := range all {
		load := 1.0
		if p.Forecast < forecast {
			load = p.Forecast / forecast
		}
		out[i] = n.without(p.Highest, (float64(i)+0.5)/float64(len(all)), load)
	}
	return out
}

// check refuses what see and expect cannot have left.
func (s surprise) check() error {
	bad := func(v float64) bool { return !(v >= 0 && v <= mostOfAnything*mostOfAnything) }
	if s.Kept < 0 || s.Kept > mostKept || len(s.Past) > max(s.Kept, leastKept) || len(s.Open) > mostAhead+1 {
		return fmt.Errorf("it holds %d forecasts past, %d of them at most, and %d open: want at most %d and %d", len(s.Past), s.Kept, len(s.Open), mostKept, mostAhead+1)
	}
	for _, o := range slices.Concat(s.Past, s.Open) {
		if bad(o.Forecast) || bad(o.Highest) || o.Left > mostAhead+1 {
			return fmt.Errorf("it holds the forecast %+v: want 0 or more, and at most %d intervals left", o, mostAhead+1)
		}
	}
	return nil
}
