//go:build full

package main

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
	"plimsoll/profile/store"
)

const (
	agreementISL, agreementOSL = 8000, 40
	agreementTTFT              = 250 * time.Millisecond
)

// Few streams are measured over HTTP against what a model states, or the steps of a
// simulated engine. These tests wait nearly all of their time, so they run at the same
// time, and before everything else.
func TestLatenciesOverHTTP(t *testing.T) {
	for name, f := range map[string]func(*testing.T){
		"estimate and sim": estimateAgreesWithSim, "calibrated model and server": calibratedModelAgrees,
		"model below 20 in flight": engineAgreesBelow20, "model above 20 in flight": engineAgreesAbove20,
	} {
		t.Run(name, func(t *testing.T) {
			timed(t)
			t.Parallel()
			f(t)
		})
	}
	for name, f := range stairsTests() {
		t.Run("stairs "+name, func(t *testing.T) {
			t.Parallel()
			f(t)
		})
	}
}

// What the embedded engine does over HTTP is what its latency model states, to
// within 3 % or 1 ms, whichever is larger, at every point; and the pick is that
// of an exhaustive search over the model. Other processes disturb the machine
// that this runs on, so a run may be repeated: a point has to agree once.
func agreesWithModel(t *testing.T, itl time.Duration) {
	sla := profile.SLA{TTFT: agreementTTFT, ITL: itl, Stat: profile.Mean}
	best := map[string]deviation{}
	once(t, func() []string { return agreementRun(t, sla, best) })
}

// once wants a run without complaints, of three at most.
func once(t *testing.T, run func() (complaints []string)) {
	t.Helper()
	const runs = 3
	for i := range runs {
		complaints := run()
		if len(complaints) == 0 {
			return
		}
		for _, c := range complaints {
			if i == runs-1 {
				t.Error(c)
			} else {
				t.Logf("run %d: %s", i+1, c)
			}
		}
	}
}

// The search closes in to one request below 20 in flight, to 5 % above.
func engineAgreesBelow20(t *testing.T) { agreesWithModel(t, 6030*time.Microsecond) }

func engineAgreesAbove20(t *testing.T) {
	agreesWithModel(t, 12*time.Millisecond)
}

// deviation is how far a measured latency is from what the model states.
type deviation struct{ got, want time.Duration }

func (d deviation) excess() time.Duration { return max(d.got-d.want, d.want-d.got) }

func (d deviation) share() float64 { return math.Abs(float64(d.got)/float64(d.want) - 1) }

func (d deviation) agrees() bool { return d.share() <= 0.03 || d.excess() <= time.Millisecond }

func (d deviation) String() string {
	return fmt.Sprintf("measured %v, the model states %v (%+.2f %%)", d.got, d.want, 100*(float64(d.got)/float64(d.want)-1))
}

// agreementRun profiles once, keeps in best the nearest that each point came,
// and returns what does not agree.
func agreementRun(t *testing.T, sla profile.SLA, best map[string]deviation) []string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "results")
	ms := func(d time.Duration) string { return fmt.Sprint(float64(d) / float64(time.Millisecond)) }
	p := start(t, nil, "profile-sla", "--engine", "sim", "--max-num-seqs", "64", "--isl", itoa(agreementISL), "--osl", itoa(agreementOSL),
		"--ttft", ms(sla.TTFT), "--itl", ms(sla.ITL), "--prefill-interpolation-granularity", "4", "--decode-interpolation-granularity", "2",
		"--max-context-length", itoa(agreementISL+agreementOSL), "--verify", "never", "--output-dir", dir, "--quiet")
	if code := p.wait(t); code != exitDone { // 4 too: points that could not be measured
		return []string{fmt.Sprintf("exit code %d\n%s", code, &p.errout)}
	}
	run, rec := results(t, dir)
	var complaints []string
	var worst deviation
	var where string
	for _, p := range unbatched(run.Points) {
		d := deviate(t, p)
		if worst.want == 0 || d.share() > worst.share() {
			worst, where = d, p.ID
		}
		if old, ok := best[p.ID]; !ok || d.excess() < old.excess() {
			best[p.ID] = d
		}
		if d := best[p.ID]; !d.agrees() {
			complaints = append(complaints, fmt.Sprintf("%s: %s", p.ID, d))
		}
	}
	t.Logf("worst of %d points: %s: %s", len(run.Points), where, worst)
	return append(complaints, wrongPick(t, rec, sla)...)
}

// unbatched are the points without those of prompts sent together: over HTTP these
// reach an engine one by one, so that no step holds them as in virtual time.
func unbatched(ps []profile.Point) []profile.Point {
	return slices.DeleteFunc(slices.Clone(ps), func(p profile.Point) bool { return p.Batch > 0 })
}

func deviate(t *testing.T, p profile.Point) deviation {
	t.Helper()
	m := modelOf(t, p.Config)
	if p.Phase == profile.Prefill {
		return deviation{undisturbed(p), m.TTFT(p.ISL, 0)}
	}
	return deviation{undisturbed(p), m.ITL(p.Asked, p.Context)}
}

// wrongPick compares the recommendation with an exhaustive search over the
// model: every size, every number in flight.
func wrongPick(t *testing.T, rec store.Recommendation, sla profile.SLA) []string {
	t.Helper()
	var prefillTP, decodeTP, decodeN int
	var prefillBest, decodeBest float64
	for _, tp := range []int{1, 2, 4} {
		m := modelOf(t, engine.Config{
			Kind: engine.KindSim, Model: simModel, GPU: simGPU, Parallelism: engine.TP(tp), Limits: engine.Limits{MaxNumSeqs: 64},
		})
		if ttft := m.TTFT(agreementISL, 0); ttft <= sla.TTFT {
			if v := agreementISL / ttft.Seconds() / float64(tp); v > prefillBest {
				prefillBest, prefillTP = v, tp
			}
		}
		facts := profile.EngineFacts{KVTokens: m.KVTokens(), BlockSize: m.Limits().BlockSize, MaxNumSeqs: 64}
		for n := 1; n <= facts.MaxInFlight(agreementISL, agreementOSL, 0); n++ {
			itl := m.ITL(n, agreementISL+agreementOSL/2)
			if v := float64(n) / itl.Seconds() / float64(tp); itl <= sla.ITL && v > decodeBest {
				decodeBest, decodeTP, decodeN = v, tp, n
			}
		}
	}
	t.Logf("model's own answer: prefill TP:%d, decode TP:%d at %d in flight; picked: TP:%d, TP:%d at %.1f",
		prefillTP, decodeTP, decodeN, rec.Prefill.TP, rec.Decode.TP, rec.Decode.InFlight)
	var wrong []string
	if rec.Prefill.TP != prefillTP || !rec.Feasible {
		wrong = append(wrong, fmt.Sprintf("prefill picked TP:%d, feasible %v; the model's best is TP:%d", rec.Prefill.TP, rec.Feasible, prefillTP))
	}
	near := max(1, float64(decodeN)/20)
	if rec.Decode.TP != decodeTP || math.Abs(math.Round(rec.Decode.InFlight)-float64(decodeN)) > near {
		wrong = append(wrong, fmt.Sprintf("decode picked TP:%d at %.1f in flight; the model's best is TP:%d at %d", rec.Decode.TP, rec.Decode.InFlight, decodeTP, decodeN))
	}
	return wrong
}
