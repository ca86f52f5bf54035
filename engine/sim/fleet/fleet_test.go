package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/engine/sim"
)

// cases is how many random fleets a test looks at.
func cases() uint64 {
	if enginetest.Full {
		return 2400
	}
	return 300
}

// TestAgainstOracle holds every instant of every request in random small
// fleets, and the figures of their reports, against the dumb fleet.
func TestAgainstOracle(t *testing.T) {
	finished, lost, rejected, unfinished, retried, preempted, stalled := 0, 0, 0, 0, 0, int64(0), 0
	for seed := range cases() {
		s := drawScenario(seed)
		d := newDumb(s.config)
		d.play(s.acts, s.horizon)
		var got []Outcome
		s.config.Done = func(o Outcome) { got = append(got, o) }
		f, err := New(s.config)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.play(s, nil); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		r := f.Report()
		slices.SortFunc(got, func(a, b Outcome) int { return cmp.Compare(a.Number, b.Number) })
		if err := compareOutcomes(s, r, got, d.requests); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err := compareReport(s, r, d); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		finished, lost, rejected = finished+int(r.Finished), lost+int(r.Lost), rejected+int(r.Rejected)
		unfinished, retried = unfinished+int(r.Unfinished), retried+int(r.Retries)
		for _, p := range r.Pools {
			preempted += p.Preemptions
			if p.stalled > 0 {
				stalled++
			}
		}
	}
	t.Logf("finished %d, lost %d, rejected %d, unfinished %d, retries %d, preemptions %d, %d fleets held back", finished, lost, rejected, unfinished, retried, preempted, stalled)
	if min(finished, lost, rejected, unfinished, retried, int(preempted), stalled) < int(cases()/100) {
		t.Fatal("the random fleets leave a kind of outcome out")
	}
}

func compareOutcomes(s scenario, r Report, got []Outcome, want []*dumbRequest) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d outcomes, want %d", len(got), len(want))
	}
	for i, x := range want {
		w, g := x.out, got[i]
		if !x.gone {
			w.Status = Unfinished
		}
		// The dumb fleet knows the start of what is computed in one piece and
		// gets its first token; what is neither must at least be in order.
		if w.started == 0 || !inOnePiece(s, r) {
			if g.started != 0 && (g.started < g.At || w.started != 0 && g.started > w.started) {
				return fmt.Errorf("request %+v starts at an odd instant", g)
			}
			w.started = g.started
		}
		if w.decodeStart == 0 || !inOnePiece(s, r) {
			w.decodeStart = g.decodeStart
		}
		if g != w {
			return fmt.Errorf("outcome\n%+v, want\n%+v", g, w)
		}
	}
	return nil
}

// inOnePiece reports whether every prompt was computed in one step, once.
func inOnePiece(s scenario, r Report) bool {
	for i, p := range s.config.Pools {
		if p.Engine.Limits.MaxNumBatchedTokens < 1000 || r.Pools[i].Preemptions > 0 {
			return false
		}
	}
	return true
}

func compareReport(s scenario, r Report, d *dumb) error {
	if n := r.Finished + r.Rejected + r.Lost + r.Unfinished; n != r.Offered || r.InFlight != 0 {
		return fmt.Errorf("%d requests offered, but %d left and %d are in flight", r.Offered, n, r.InFlight)
	}
	if r.At != d.now {
		return fmt.Errorf("the fleet is at %d, want %d", r.At, d.now)
	}
	span := float64(max(d.now, 1))
	for i, p := range r.Pools {
		if err := near("mean queue", p.WaitingMean, d.waitingArea[i]/span, 1e-9); err != nil {
			return err
		}
		c := s.config.Pools[i].Engine
		serving := math.Max(d.servingArea[i], 1)
		// Within a run, a request's use of blocks is within one of a line.
		slack := float64(c.Limits.MaxNumSeqs) / float64(c.KVBlocks) * d.busyArea[i] / serving
		held, stalled := 0.0, 0.0
		if c.Role == engine.RolePrefill {
			slack, held, stalled = 0, d.heldArea, d.stalledArea // no runs
		}
		if err := errors.Join(near("held", p.heldMean, held/span, 1e-9), near("stalled", p.stalled, stalled/serving, 1e-9)); err != nil {
			return err
		}
		if err := near("KV use", p.KVUseMean, d.kvArea[i]/float64(c.KVBlocks)/serving, slack+1e-9); err != nil {
			return err
		}
		if err := near("utilisation", p.Utilisation, d.busyArea[i]/serving, 1e-9); err != nil {
			return err
		}
	}
	if err := near("GPU seconds", r.GPUSeconds, d.gpuArea/float64(engine.Second), 1e-9); err != nil {
		return err
	}
	if err := near("mean in flight", r.MeanInFlight, d.inFlight/span, 1e-9); err != nil {
		return err
	}
	if err := compareAttainment(s, r, d); err != nil {
		return err
	}
	return compareLatencies(s, r, d)
}

func compareAttainment(s scenario, r Report, d *dumb) error {
	met := func(o Outcome, ttft, itl bool) bool {
		gaps := engine.Picoseconds(o.OSL - 1)
		return o.Status == Finished &&
			(!ttft || s.config.SLA.TTFT == 0 || o.First-o.At <= engine.FromDuration(s.config.SLA.TTFT)) &&
			(!itl || s.config.SLA.ITL == 0 || o.Last-o.First <= gaps*engine.FromDuration(s.config.SLA.ITL))
	}
	want := Attainment{Requests: int64(len(d.requests))}
	tokens, good := 0, 0
	for _, x := range d.requests {
		share := func(is bool) float64 {
			if is {
				return 1 / float64(len(d.requests))
			}
			return 0
		}
		want.TTFT += share(met(x.out, true, false))
		want.ITL += share(met(x.out, false, true))
		want.Both += share(met(x.out, true, true))
		if x.out.Status == Finished {
			tokens += x.OSL
		}
		if met(x.out, true, true) {
			good += x.OSL
		}
	}
	got, span := r.Attainment, max(d.now.Seconds(), 1e-12)
	return errors.Join(
		near("requests", float64(got.Requests), float64(want.Requests), 0),
		near("TTFT attainment", got.TTFT, want.TTFT, 1e-9), near("ITL attainment", got.ITL, want.ITL, 1e-9),
		near("attainment of both", got.Both, want.Both, 1e-9),
		near("token rate", r.Tokens, float64(tokens)/span, 1e-9), near("good token rate", r.GoodTokens, float64(good)/span, 1e-9),
	)
}

// compareCounters holds what the engines counted against the dumb fleet's.
func compareCounters(r Report, d *dumb) error {
	for i, p := range r.Pools {
		var stats sim.Stats
		for _, rep := range d.reps {
			if rep.pool == i {
				stats = sum(stats, rep.engine.Stats())
			}
		}
		q := math.Max(float64(stats.PrefixQueries), 1)
		want := PrefixHits{DRAM: float64(stats.PrefixHitsDRAM) / q, NVMe: float64(stats.PrefixHitsNVMe) / q}
		want.HBM = float64(stats.PrefixHits-stats.PrefixHitsDRAM-stats.PrefixHitsNVMe) / q
		if p.PrefixHits != want || p.Steps != stats.Steps || p.Preemptions != stats.Preemptions || p.recomputed != stats.Recomputed {
			return fmt.Errorf("pool %d: hits %+v, %d steps, %d preemptions; want %+v, %d, %d",
				i, p.PrefixHits, p.Steps, p.Preemptions, want, stats.Steps, stats.Preemptions)
		}
	}
	return nil
}

// compareLatencies holds the sketches against exact lists.
func compareLatencies(s scenario, r Report, d *dumb) error {
	var ttft, e2e, tpot []int64
	for _, x := range d.requests {
		if x.out.First > 0 {
			ttft = append(ttft, int64(x.out.TTFT()))
		}
		if x.out.Status == Finished {
			e2e = append(e2e, int64(x.out.E2E()))
			if x.OSL > 1 {
				tpot = append(tpot, int64(x.out.TPOT()))
			}
		}
	}
	for _, c := range []struct {
		name   string
		sketch Sketch
		want   []int64
	}{{"TTFT", r.TTFT, ttft}, {"E2E", r.E2E, e2e}, {"TPOT", r.TPOT, tpot}} {
		if err := compareSketch(&c.sketch, c.want); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	if r.Unfinished > 0 || slices.ContainsFunc(r.Scales, func(e ScaleEvent) bool { return e.Failed }) {
		return nil // steps that began did not all end
	}
	if err := compareSketch(&r.ITL, d.itl); err != nil {
		return fmt.Errorf("ITL: %w", err)
	}
	return compareCounters(r, d)
}

func near(what string, got, want, tolerance float64) error {
	if math.Abs(got-want) > tolerance*math.Max(1, math.Abs(want)) {
		return fmt.Errorf("%s %v, want %v", what, got, want)
	}
	return nil
}

// Whatever is asked of a fleet in between, and however finely it advances, the
// answers at the end are the same.
func TestAskingChangesNothing(t *testing.T) {
	for seed := range cases() / 8 {
		var reports []Report
		var outcomes [][]Outcome
		for peeking := range 2 {
			s := drawScenario(seed)
			rng := rand.New(rand.NewPCG(seed, 9))
			peek := func(f *Fleet, until engine.Picoseconds) error {
				for f.Now() < until && peeking == 1 {
					if err := f.Advance(min(until, f.Now()+1+engine.Picoseconds(rng.IntN(40_000)))); err != nil {
						return err
					}
					f.Report()
					f.Interval()
					f.AppendReplicas(nil)
				}
				return nil
			}
			var got []Outcome
			s.config.Done = func(o Outcome) { got = append(got, o) }
			f, err := New(s.config)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.play(s, peek); err != nil {
				t.Fatal(err)
			}
			r := f.Report()
			for i := range r.Pools { // a line between more points is another line
				r.Pools[i].KVUseMean = 0
			}
			for i := range r.Series {
				r.Series[i].KVUse = 0
			}
			reports, outcomes = append(reports, r), append(outcomes, got)
		}
		if !reflect.DeepEqual(outcomes[0], outcomes[1]) {
			t.Fatalf("seed %d: outcomes differ", seed)
		}
		if !reflect.DeepEqual(reports[0], reports[1]) {
			t.Fatalf("seed %d: reports differ: %s", seed, firstDifference(reports[0], reports[1]))
		}
	}
}

// firstDifference names the first field in which two values of a type differ.
func firstDifference[T any](a, b T) string {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		if p, q := x.Field(i).Interface(), y.Field(i).Interface(); !reflect.DeepEqual(p, q) {
			return fmt.Sprintf("%s: %.600v, %.600v", x.Type().Field(i).Name, p, q)
		}
	}
	return "nothing"
}
