package policy

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"plimsoll/engine/enginetest"
	"plimsoll/planner"
	"plimsoll/profile"
)

// byAnswers are engines with an ITL of 20 ms promised to 99 of 100 answers.
func byAnswers(t testing.TB) engines {
	e := standard(t, off).engines(promise().SLA)
	e.sla.Stat = profile.P99
	return e
}

// poisson is a number of events of which mean are expected.
func poisson(r *rand.Rand, mean float64) (n int) {
	for at := r.ExpFloat64(); at < mean; at += r.ExpFloat64() {
		n++
	}
	return n
}

// lengthened is a length around a mean, lognormal with a squared coefficient of
// variation.
func lengthened(r *rand.Rand, mean, cv2 float64) float64 {
	sigma := math.Sqrt(math.Log1p(cv2))
	return mean * math.Exp(sigma*r.NormFloat64()-sigma*sigma/2)
}

// The share of answers that prompts interrupt too long is what drawing them gives.
func TestInterruptedIsWhatIsDrawn(t *testing.T) {
	e := byAnswers(t)
	for name, need := range map[string]demand{
		"alike":           {isl: 990, osl: 100},
		"prompts vary":    {isl: 990, osl: 100, spread2: 2},
		"answers vary":    {isl: 990, osl: 100, answer2: 2},
		"long, and short": {isl: 4000, osl: 60, spread2: 1, answer2: 1},
	} {
		for _, rate := range []float64{0.3, 1, 2} {
			need.rate = rate
			itl, _, ok := e.shared(need, rate)
			if !ok {
				continue
			}
			r := rand.New(rand.NewPCG(11, 12))
			alone, _ := e.prompt(need)
			left := e.sla.ITL.Seconds() - e.fullestStep(need, rate, itl)
			missed, draws := 0.0, 20_000
			for range draws {
				gaps := math.Max(1, lengthened(r, need.osl, need.answer2)-1)
				prompts := 0.0
				for range poisson(r, rate*gaps*e.sla.ITL.Seconds()) {
					prompts += lengthened(r, alone, need.spread2)
				}
				if prompts > gaps*left {
					missed += 1 / float64(draws)
				}
			}
			if got := e.interrupted(need, rate, itl); math.Abs(got-missed) > 0.02+0.25*missed {
				t.Errorf("%s, %v/s: %.4f miss, drawn %.4f", name, rate, got, missed)
			}
		}
	}
}

// Lengths that vary take more engines than those that do not; more requests never
// fewer; and no more are asked for than keep each request alone.
func TestSpreadLaws(t *testing.T) {
	e := byAnswers(t)
	enginetest.Check(t, func(t *rapid.T) {
		need := demand{
			rate: rapid.Float64Range(0.1, 50).Draw(t, "rate"), isl: rapid.Float64Range(100, 8000).Draw(t, "isl"),
			osl: rapid.Float64Range(20, 400).Draw(t, "osl"), spread2: rapid.Float64Range(0, 3).Draw(t, "c2"), answer2: rapid.Float64Range(0, 3).Draw(t, "answers"),
		}
		engines := func(need demand) int {
			most := e.aggregatedRate(need)
			if most == 0 {
				t.Skip("the ITL cannot be held")
			}
			itl, _, _ := e.shared(need, most)
			return e.spread(need, most, itl)
		}
		n := engines(need)
		more := need
		more.rate *= 1.5
		if m := engines(more); m < n {
			t.Fatalf("%+v: %d engines, %d for more requests", need, n, m)
		}
		alone, _ := e.prompt(need)
		if most := engineCount(crowdHigh(need.rate * (alone + need.osl*e.decode.ITLAt(1, need.context()).Value.Seconds()))); n > most {
			t.Fatalf("%+v: %d engines, each request has its own with %d", need, n, most)
		}
	})
	alike, varied := demand{rate: 20, isl: 990, osl: 100}, demand{rate: 20, isl: 990, osl: 100, spread2: 2, answer2: 2}
	if a, b := e.aggregatedRate(alike), e.aggregatedRate(varied); !(b < 0.8*a) {
		t.Errorf("an engine carries %.3g requests/s of like lengths, %.3g of others", a, b)
	}
}

// Prompts too short to interrupt anything do not leave an engine without room for the
// fullest moment of its answers.
func TestFullestMomentOfAnswers(t *testing.T) {
	e := byAnswers(t)
	need := demand{rate: 1, isl: 10, osl: 400}
	most := e.aggregatedRate(need)
	need.rate = most
	itl, _, _ := e.shared(need, most)
	if step := e.fullestStep(need, most, itl); step > e.sla.ITL.Seconds() || itl > 0.97*e.sla.ITL.Seconds() {
		t.Errorf("%.3g requests/s: ITL %.4g ms in the mean, %.4g at the fullest", most, 1e3*itl, 1e3*step)
	}
}

// What is remembered of answers' lengths is theirs, and none is below 0.
func TestAnswersSpreadIsRemembered(t *testing.T) {
	p := standard(t, off)
	s := minute(10, pd(2, 2))
	s.OSL.Count, s.OSL.P99 = 600, planner.Exactly(600.0)
	p.Propose(s)
	if got, want := p.m.OSLSpread.Or(-1), profile.Spread2(100, 600); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	p.m.OSLSpread.Value = -1
	if p.m.check() == nil {
		t.Error("a spread below 0 is taken")
	}
}
