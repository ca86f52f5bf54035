package sweep

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/profile"
	"plimsoll/recommend"
)

const ms = time.Millisecond

// law is an engine in virtual time: TTFT and ITL by formula, with faults.
type law struct {
	kv, seqs, block int
	ttft            func(isl int) time.Duration
	itl             func(n int, context float64) time.Duration
	launchErr       error
	dieAt           int // in-flight count at which the engine ends; 0 = never
	failEvery       int // every k-th measured request fails; 0 = never
	stalls          int // the first measurements of a kind hold one request with a stall
}

func (l law) TTFT(isl int) time.Duration               { return l.ttft(isl) }
func (l law) ITL(n int, context float64) time.Duration { return l.itl(n, context) }
func (l law) KVTokens() int                            { return l.kv }
func affine(tp int) law {
	return law{
		kv: 400_000, seqs: 64, block: 16,
		ttft: func(isl int) time.Duration { return 5*ms + time.Duration(isl)*22*time.Microsecond/time.Duration(tp) },
		itl: func(n int, c float64) time.Duration {
			return 3*ms + 5*ms/time.Duration(tp) + time.Duration(float64(n)*(10_000+c*60/float64(tp)))
		},
	}
}

// lab launches laws and keeps count of what runs. Its clock moves only as
// engines work.
type lab struct {
	laws     map[string]law // by label
	now      time.Time
	running  int
	launches []string
	measured []profile.Workload
	cancel   func(id int) // called before every measurement
}

func newLab(laws map[string]law) *lab {
	return &lab{laws: laws, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
}

func (b *lab) Launch(_ context.Context, cfg engine.Config) (*Instance, error) {
	label := cfg.Parallelism.Label()
	b.launches = append(b.launches, fmt.Sprintf("%s cache=%v", label, cfg.PrefixCaching))
	b.now = b.now.Add(time.Second)
	l := b.laws[label]
	if l.launchErr != nil {
		return nil, l.launchErr
	}
	b.running++
	e := &virtual{lab: b, law: l}
	return &Instance{
		Facts:    profile.EngineFacts{KVTokens: l.kv, BlockSize: l.block, MaxNumSeqs: l.seqs, Provenance: profile.Simulated},
		Measurer: e,
		Died:     func() error { return e.died },
		Stop:     func(context.Context) error { b.running--; return nil },
	}, nil
}

type virtual struct {
	lab  *lab
	law  law
	died error

	stalled int
}

func (v *virtual) Measure(_ context.Context, w profile.Workload) (Measurement, error) {
	if v.lab.cancel != nil {
		v.lab.cancel(len(v.lab.measured))
	}
	v.lab.measured = append(v.lab.measured, w)
	if v.law.dieAt > 0 && w.InFlight >= v.law.dieAt {
		v.died = errors.New("exit code 137")
	}
	var m Measurement
	base := time.Millisecond
	itl := v.law.itl(w.InFlight, float64(w.ISL)+float64(w.OSL)/2)
	first := v.law.ttft(w.ISL)
	if w.SharedPrompts {
		first = ms
	}
	for i := range w.Requests {
		start := base
		if w.InFlight == 1 {
			start += time.Duration(i) * (first + time.Duration(w.OSL)*itl)
		}
		r := profile.Request{
			Index: i, ISL: w.ISL, OSL: w.OSL, PromptTokens: w.ISL, OutputTokens: w.OSL, UsageSeen: true,
			Due: start, Sent: start, First: start + first,
		}
		if w.SharedPrompts {
			r.CachedTokens = w.ISL
		}
		for k := range w.OSL {
			r.Chunks = append(r.Chunks, profile.Chunk{At: r.First + time.Duration(k)*itl})
		}
		r.Last = r.Chunks[len(r.Chunks)-1].At
		r.End = r.Last
		if v.stalled < v.law.stalls && !w.Warmup && i == 0 && w.Requests > 3 {
			v.stalled++
			late := 400 * ms
			r.First += late
			for k := range r.Chunks {
				r.Chunks[k].At += late * time.Duration(1+k) // every gap of this stream
			}
			r.Last = r.Chunks[len(r.Chunks)-1].At
		}
		if v.law.failEvery > 0 && (i+1)%v.law.failEvery == 0 {
			r.Failure = profile.FailStatus
		}
		m.Requests = append(m.Requests, r)
		v.lab.now = v.lab.now.Add(0)
	}
	last := m.Requests[len(m.Requests)-1]
	v.lab.now = v.lab.now.Add(last.Last)
	m.Running = []Running{{At: (last.First + last.Last) / 2, N: float64(w.InFlight)}}
	return m, nil
}

// notes is a Recorder in memory.
type notes struct {
	Known
	after func() // called after every point
}

func (n *notes) Point(p profile.Point, _ []profile.Request, spent Cost) error {
	n.Points = append(n.Points, p)
	n.Cost = spent
	if n.after != nil {
		n.after()
	}
	return nil
}
func (n *notes) Skip(s profile.Skip) error { n.Skips = append(n.Skips, s); return nil }
func (n *notes) Engine(k string, f profile.EngineFacts) error {
	if n.Engines == nil {
		n.Engines = map[string]profile.EngineFacts{}
	}
	n.Engines[k] = f
	return nil
}

func options(b *lab, tps ...int) Options {
	var cs []engine.Config
	for _, tp := range tps {
		cs = append(cs, engine.Config{Kind: engine.KindSim, Model: "m", Parallelism: engine.TP(tp), Limits: engine.Limits{MaxNumSeqs: 64, BlockSize: 16}})
	}
	return Options{
		Candidates: cs, ISL: 3000, OSL: 150, SLA: profile.SLA{TTFT: 200 * ms, ITL: 20 * ms, Stat: profile.Mean},
		Rank: recommend.ByThroughput, Search: Adaptive,
		PrefillRequests: 5, PrefillWarmups: 2, SurfaceRequests: 3, PrefillGranularity: 6, DecodeGranularity: 4,
		SurfaceOSL: 40, MaxContext: 16384, RequestTimeout: time.Minute, Seed: 1,
		Now:    func() time.Time { return b.now },
		Expect: func(c engine.Config) (Expectation, bool) { return b.laws[c.Parallelism.Label()], true },
	}
}

func run(t *testing.T, b *lab, o Options, known Known) (Result, *notes, error) {
	t.Helper()
	n := &notes{}
	res, err := Run(t.Context(), o, b, n, known, nil)
	if b.running != 0 {
		t.Errorf("%d engines left running", b.running)
	}
	return res, n, err
}

func three() map[string]law {
	return map[string]law{"TP:1": affine(1), "TP:2": affine(2), "TP:4": affine(4)}
}

func TestRunPicksAndFillsSurfaces(t *testing.T) {
	b := newLab(three())
	res, _, err := run(t, b, options(b, 1, 2, 4), Known{})
	if err != nil {
		t.Fatal(err)
	}
	if got := res.Prefill.Picked.Label(); got != "TP:1" {
		t.Errorf("prefill pick %s, want TP:1", got)
	}
	// ITL at TP:1 is 8 ms + n·(0.01 + 0.184725) ms <= 20 ms up to n = 61.
	if got := res.Decode.Picked; got.Label() != "TP:1" || got.Point.Asked < 59 || got.Point.Asked > 61 {
		t.Errorf("decode pick %s n=%d, want TP:1 n=59..61", got.Label(), got.Point.Asked)
	}
	if n := len(res.PrefillSurface.Samples); n != 7 {
		t.Errorf("%d prefill samples, want 6 and the target", n)
	}
	contexts := map[float64]int{}
	for _, s := range res.DecodeSurface.Samples {
		contexts[s.Context]++
	}
	if len(contexts) != 5 {
		t.Errorf("decode rows %v, want 4 contexts and the target's", contexts)
	}
	if res.DecodeSurface.Provenance != profile.Simulated || res.DecodeSurface.MaxKVTokens != 400_000 {
		t.Errorf("surface %v, %d KV tokens", res.DecodeSurface.Provenance, res.DecodeSurface.MaxKVTokens)
	}
	want := []string{"TP:1 cache=false", "TP:2 cache=false", "TP:4 cache=false", "TP:1 cache=true", "TP:2 cache=true", "TP:4 cache=true", "TP:1 cache=false", "TP:1 cache=true"}
	if !slices.Equal(b.launches, want) {
		t.Errorf("launches %v, want %v", b.launches, want)
	}
	if res.Cost.Launches != 8 || res.Cost.Requests == 0 || res.Cost.GPUSeconds <= res.Cost.EngineSeconds {
		t.Errorf("cost %+v", res.Cost)
	}
}

// Upstream's config edits for prefill leaked into the config decode started from.
func TestDefectPrefillEditsLeakIntoDecode(t *testing.T) {
	b := newLab(three())
	o := options(b, 1)
	if _, _, err := run(t, b, o, Known{}); err != nil {
		t.Fatal(err)
	}
	if o.Candidates[0].PrefixCaching || o.Candidates[0].Role != "" {
		t.Errorf("candidate changed: %+v", o.Candidates[0])
	}
}

// Upstream used the loop's last TP size for the surfaces instead of the pick.
func TestDefectSurfaceAtLastSizeNotPick(t *testing.T) {
	b := newLab(three())
	res, _, err := run(t, b, options(b, 1, 2, 4), Known{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range res.Points {
		if p.Stage == profile.StageSurface && p.Config.Parallelism != engine.TP(1) {
			t.Errorf("surface point %s at %s", p.ID, p.Config.Parallelism.Label())
		}
	}
}

// One engine that would not start ended upstream's whole sweep and leaked.
func TestDefectOneFailureEndsTheSweep(t *testing.T) {
	laws := three()
	two, four := laws["TP:2"], laws["TP:4"]
	two.dieAt, four.launchErr = 30, errors.New("not ready after 2s")
	laws["TP:2"], laws["TP:4"] = two, four
	b := newLab(laws)
	res, n, err := run(t, b, options(b, 1, 2, 4), Known{})
	if err != nil {
		t.Fatal(err)
	}
	if res.Decode.Picked.Label() != "TP:1" {
		t.Errorf("picked %s", res.Decode.Picked.Label())
	}
	want := []string{"/TP:4: not ready after 2s", "decode/TP:2: engine ended at sweep/decode/tp2/isl3000/n64: exit code 137"}
	var got []string
	for _, s := range n.Skips {
		got = append(got, fmt.Sprintf("%s/%s: %s", s.Phase, s.Label, s.Reason))
	}
	if !slices.Equal(got, want) {
		t.Errorf("skips %q, want %q", got, want)
	}
	for _, p := range res.Decode.All {
		if p.Label() == "TP:2" {
			t.Error("a configuration whose engine died may not be compared")
		}
	}
}

func TestRunNothingWorks(t *testing.T) {
	bad := law{launchErr: errors.New("exit code 3")}
	b := newLab(map[string]law{"TP:1": bad})
	o := options(b, 1)
	o.Expect = nil
	res, _, err := run(t, b, o, Known{})
	if !errors.Is(err, ErrNothing) || len(res.Skips) != 1 {
		t.Errorf("err %v, skips %v", err, res.Skips)
	}
}

// Stopped after every possible point, a resumed run measures only the rest and
// ends with the same points, picks and surfaces.
func TestResumeContinuesExactly(t *testing.T) {
	b := newLab(three())
	whole, all, err := run(t, b, options(b, 1, 2, 4), Known{})
	if err != nil {
		t.Fatal(err)
	}
	stripped := func(ps []profile.Point) (out []string) {
		for _, p := range ps {
			out = append(out, fmt.Sprintf("%s %v %v %v", p.ID, p.InFlight, p.TTFT.Mean, p.ITL.Mean))
		}
		return out
	}
	for stop := 1; stop < len(all.Points); stop++ {
		ctx, cancel := context.WithCancel(t.Context())
		b := newLab(three())
		n := &notes{}
		n.after = func() {
			if len(n.Points) == stop {
				cancel()
			}
		}
		if _, err := Run(ctx, options(b, 1, 2, 4), b, n, Known{}, nil); !errors.Is(err, context.Canceled) {
			t.Fatalf("stop %d: err %v", stop, err)
		}
		if b.running != 0 {
			t.Fatalf("stop %d: %d engines left running", stop, b.running)
		}
		again := newLab(three())
		res, rest, err := run(t, again, options(again, 1, 2, 4), n.Known)
		if err != nil {
			t.Fatal(err)
		}
		if len(rest.Points) != len(all.Points)-stop {
			t.Fatalf("stop %d: measured %d again, want %d", stop, len(rest.Points), len(all.Points)-stop)
		}
		if !slices.Equal(stripped(res.Points), stripped(whole.Points)) || !slices.Equal(res.DecodeSurface.Samples, whole.DecodeSurface.Samples) {
			t.Fatalf("stop %d: another result than undisturbed", stop)
		}
		if res.Cost.Requests != whole.Cost.Requests || res.Cost.Launches < whole.Cost.Launches {
			t.Fatalf("stop %d: cost %+v, undisturbed %+v", stop, res.Cost, whole.Cost)
		}
	}
}

func TestRunStopsOverloadingAServer(t *testing.T) {
	l := affine(1)
	l.failEvery = 10
	b := newLab(map[string]law{"TP:1": l})
	o := options(b, 1)
	o.StopErrorShare = 0.05
	_, n, err := run(t, b, o, Known{})
	if !errors.Is(err, ErrOverload) {
		t.Fatalf("err %v", err)
	}
	for _, p := range n.Points[:len(n.Points)-1] {
		if p.Failures > 0 {
			t.Errorf("went on after %s had failures", p.ID)
		}
	}
}

func TestRunMaxInFlightIsNeverPassed(t *testing.T) {
	b := newLab(three())
	o := options(b, 1)
	o.MaxInFlight = 7
	if _, _, err := run(t, b, o, Known{}); err != nil {
		t.Fatal(err)
	}
	for _, w := range b.measured {
		if w.InFlight > 7 {
			t.Fatalf("%d in flight", w.InFlight)
		}
	}
}

func TestRunDeadlineKeepsWhatIsKnown(t *testing.T) {
	b := newLab(three())
	o := options(b, 1, 2, 4)
	o.Deadline = b.now.Add(24 * time.Second)
	res, _, err := run(t, b, o, Known{})
	if err != nil {
		t.Fatal(err)
	}
	if res.Partial == "" || len(res.Points) == 0 || res.Decode.Picked.Label() == "" {
		t.Errorf("partial %q, %d points", res.Partial, len(res.Points))
	}
	if b.now.After(o.Deadline.Add(5 * time.Second)) {
		t.Errorf("ran until %v, deadline %v", b.now, o.Deadline)
	}
}

// Upstream's lists: step 0 at small tops, division by zero at granularity 1.
func TestDefectInFlightListStepsByZero(t *testing.T) {
	check := func(top, g int, want ...int) {
		t.Helper()
		if got := spaced(top, g); !slices.Equal(got, want) {
			t.Errorf("spaced(%d, %d) = %v, want %v", top, g, got, want)
		}
	}
	check(1200, 6, 1, 240, 480, 720, 960, 1200) // upstream's own test
	check(3, 6, 1, 2, 3)
	check(1, 6, 1)
	check(0, 6)
	check(64, 1, 64)
	check(64, 2, 1, 64)
}

// However ITL rises, the search ends within its budget at a count that holds
// and whose successor (within the tolerance) does not.
func TestBoundaryAgainstExhaustive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		top := rapid.IntRange(1, 400).Draw(t, "top")
		a := rapid.Float64Range(1, 20).Draw(t, "a")
		slope := rapid.Float64Range(0.001, 1).Draw(t, "slope")
		bend := rapid.Float64Range(0.7, 1.6).Draw(t, "bend")
		limit := rapid.Float64Range(1, 40).Draw(t, "limit")
		itl := func(n int) time.Duration {
			return time.Duration((a + slope*math.Pow(float64(n), bend)) * float64(ms))
		}
		sla := profile.SLA{ITL: time.Duration(limit * float64(ms)), Stat: profile.Mean}
		best, count := 0, 0
		err := boundary(top, sla, func(n int) (profile.Point, error) {
			count++
			if n < 1 || n > top {
				t.Fatalf("asked for %d of %d", n, top)
			}
			p := profile.Point{Phase: profile.Decode, Requests: n, ITL: profile.Distribution{Mean: itl(n)}}
			if p.Meets(sla) {
				best = max(best, n)
			}
			return p, nil
		})
		if err != nil || count > probes+3 {
			t.Fatalf("err %v after %d probes", err, count)
		}
		exact := 0
		for n := 1; n <= top && itl(n) <= sla.ITL; n++ {
			exact = n
		}
		if slack := max(1, exact/10); exact-best > slack {
			t.Fatalf("found %d, exhaustive %d of %d after %d probes", best, exact, top, count)
		}
	})
}

func TestCandidates(t *testing.T) {
	fits := func(c engine.Config) error {
		if c.Parallelism.TP == 1 {
			return errors.New("weights 141 GB do not fit in 76 GB")
		}
		return nil
	}
	cs, skips := Candidates(engine.Config{}, 6, nil, fits)
	if len(cs) != 2 || cs[0].Parallelism != engine.TP(2) || cs[1].Parallelism != engine.TP(4) {
		t.Errorf("candidates %v", cs)
	}
	if len(skips) != 1 || skips[0].Label != "TP:1" || !strings.Contains(skips[0].Reason, "141 GB") {
		t.Errorf("skips %v", skips)
	}
	cs, skips = Candidates(engine.Config{}, 4, []int{3, 8}, nil)
	if len(cs) != 1 || len(skips) != 1 || skips[0].Reason != "needs 8 GPUs, 4 are visible" {
		t.Errorf("candidates %v, skips %v", cs, skips)
	}
}

func TestInFlightIsWhatWasSeen(t *testing.T) {
	v := &virtual{lab: newLab(nil), law: affine(1)}
	m, _ := v.Measure(t.Context(), profile.Workload{ISL: 1000, OSL: 100, Requests: 16, InFlight: 16, SharedPrompts: true})
	m.Running[0].N = 8
	p := summarizeDecode(m, engine.Config{Parallelism: engine.TP(1)}, 100_000)
	if p.InFlight != 8 || math.Abs(p.KVUsage-8*p.Context/100_000) > 1e-12 {
		t.Errorf("in flight %v, KV %v", p.InFlight, p.KVUsage)
	}
	if len(p.Warnings) != 1 || p.Warnings[0].Code != "in_flight_short" {
		t.Errorf("warnings %v", p.Warnings)
	}
}

func TestPlanStartsNothing(t *testing.T) {
	b := newLab(three())
	steps := Plan(options(b, 1, 2, 4))
	if len(b.launches) != 0 || len(steps) != 8 {
		t.Fatalf("%d launches, %d steps", len(b.launches), len(steps))
	}
	for _, s := range steps {
		if s.Points == 0 || s.Requests == 0 || s.Expected <= 0 || !s.Known {
			t.Errorf("step %+v", s)
		}
	}
}

func TestProgressReachesTheEnd(t *testing.T) {
	b := newLab(three())
	last := -1.0
	var final Progress
	_, err := Run(t.Context(), options(b, 1, 2, 4), b, &notes{}, Known{}, func(p Progress) { final = p; last = max(last, p.Share) })
	if err != nil {
		t.Fatal(err)
	}
	if final.Share < 0.95 || final.Remaining > 3*time.Second {
		t.Errorf("ended at %+v", final)
	}
}

// A stall of the machine, not of the engine, is measured again, and said.
func TestDisturbedPointIsMeasuredAgain(t *testing.T) {
	l := affine(1)
	l.stalls = 1
	b := newLab(map[string]law{"TP:1": l})
	res, _, err := run(t, b, options(b, 1), Known{})
	if err != nil {
		t.Fatal(err)
	}
	p := res.Prefill.Picked.Point
	if want := l.ttft(3000); p.TTFT.Mean != want {
		t.Errorf("TTFT %v, want %v", p.TTFT.Mean, want)
	}
	if len(p.Warnings) != 1 || p.Warnings[0].Code != "disturbed" || p.Warnings[0].Message != "measured 2 times: there were stalls in the ones before" {
		t.Errorf("warnings %v", p.Warnings)
	}
	l.stalls = 1000
	b = newLab(map[string]law{"TP:1": l})
	res, _, err = run(t, b, options(b, 1), Known{})
	if err != nil {
		t.Fatal(err)
	}
	if p := res.Prefill.Picked.Point; len(p.Warnings) != 1 || p.Warnings[0].Code != "noisy" {
		t.Errorf("an engine that always stalls: warnings %v", p.Warnings)
	}
}

func codes(ws []profile.Warning) (out []string) {
	for _, w := range ws {
		out = append(out, w.Code)
	}
	return out
}

// With two output tokens there is one gap, and streams hardly overlap: the
// rate of such a burst says nothing, and must never be picked.
func TestShortOutputIsMeasuredLonger(t *testing.T) {
	b := newLab(three())
	o := options(b, 1)
	o.OSL = 2
	res, _, err := run(t, b, o, Known{})
	if err != nil {
		t.Fatal(err)
	}
	if p := res.Decode.Picked.Point; p.OSL != minOSL || p.Asked < 59 {
		t.Errorf("picked n=%d measured with OSL %d", p.Asked, p.OSL)
	}
	if !slices.Contains(codes(res.Warnings), "osl_raised") {
		t.Errorf("warnings %v", res.Warnings)
	}
	v := &virtual{lab: newLab(nil), law: affine(1)}
	m, _ := v.Measure(t.Context(), profile.Workload{ISL: 1000, OSL: 3, Requests: 16, InFlight: 16, SharedPrompts: true})
	p := summarizeDecode(m, engine.Config{Parallelism: engine.TP(1)}, 100_000)
	if p.ITL.N != 0 || p.ThroughputPerGPU != 0 || !slices.Contains(codes(p.Warnings), "no_steady_part") {
		t.Errorf("a window of two gaps gave ITL %v, %v tokens/s, warnings %v", p.ITL.Mean, p.ThroughputPerGPU, codes(p.Warnings))
	}
}

// A proxy that hands the whole stream over at once shows gaps of nothing.
func TestBufferedStreamIsNotMeasured(t *testing.T) {
	v := &virtual{lab: newLab(nil), law: affine(1)}
	m, _ := v.Measure(t.Context(), profile.Workload{ISL: 1000, OSL: 100, Requests: 4, InFlight: 4, SharedPrompts: true})
	for i := range m.Requests {
		r := &m.Requests[i]
		for k := range r.Chunks[:90] {
			r.Chunks[k].At = r.First + time.Duration(k)*time.Microsecond
		}
	}
	p := summarizeDecode(m, engine.Config{Parallelism: engine.TP(1)}, 100_000)
	if p.ITL.N != 0 || p.ThroughputPerGPU != 0 || !slices.Contains(codes(p.Warnings), "buffered") {
		t.Errorf("ITL %v, %v tokens/s, warnings %v", p.ITL.Mean, p.ThroughputPerGPU, codes(p.Warnings))
	}
}

func TestGridSaysWhereItIsTooCoarse(t *testing.T) {
	b := newLab(three())
	o := options(b, 1)
	o.Search, o.DecodeGranularity = Grid, 2
	res, _, err := run(t, b, o, Known{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(codes(res.Warnings), "coarse_grid") {
		t.Errorf("between n=1 and n=64 lies the answer, and the warnings are %v", res.Warnings)
	}
}

// Somebody else's load on a shared server is not ours.
func TestForeignLoadIsSaid(t *testing.T) {
	v := &virtual{lab: newLab(nil), law: affine(1)}
	m, _ := v.Measure(t.Context(), profile.Workload{ISL: 1000, OSL: 100, Requests: 4, InFlight: 4, SharedPrompts: true})
	m.Running[0].N = 9
	p := summarizeDecode(m, engine.Config{Parallelism: engine.TP(1)}, 100_000)
	if !slices.Contains(codes(p.Warnings), "foreign_load") || p.InFlight != 4 {
		t.Errorf("in flight %v, warnings %v", p.InFlight, codes(p.Warnings))
	}
}

// A measurement with failures is never replaced by one without.
func TestFailuresAreNeverThrownAway(t *testing.T) {
	l := affine(1)
	l.stalls, l.failEvery = 1, 4 // the first is disturbed, and failing
	b := newLab(map[string]law{"TP:1": l})
	res, _, err := run(t, b, options(b, 1), Known{})
	if err != nil {
		t.Fatal(err)
	}
	if p := res.Prefill.Picked.Point; p.Failures == 0 || res.Prefill.Feasible {
		t.Errorf("%d failures, feasible %v", p.Failures, res.Prefill.Feasible)
	}
	if s, short := res.Prefill.Shortfall(options(b, 1).SLA); !short || s.Metric != "failures" || s.Promise != 0 {
		t.Errorf("shortfall %+v", s)
	}
}

// Where time ran out, sizes that were never reached are named, not beaten.
func TestDeadlineNamesWhatWasNotReached(t *testing.T) {
	b := newLab(three())
	o := options(b, 1, 2, 4)
	o.Deadline = b.now.Add(14 * time.Second)
	res, _, err := run(t, b, o, Known{})
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, s := range res.Skips {
		if s.Phase == profile.Decode && strings.HasPrefix(s.Reason, "not measured") {
			left = append(left, s.Label)
		}
	}
	if len(left) == 0 || !strings.Contains(res.Decode.Why, "before the time was up") {
		t.Errorf("left out %v, why %q", left, res.Decode.Why)
	}
}

// A resumed run may try again what failed before, and only what failed.
func TestResumeKeepsSkips(t *testing.T) {
	laws := three()
	bad := laws["TP:2"]
	bad.launchErr = errors.New("not ready")
	laws["TP:2"] = bad
	b := newLab(laws)
	_, n, err := run(t, b, options(b, 1, 2), Known{})
	if err != nil {
		t.Fatal(err)
	}
	again := newLab(three())
	if _, _, err := run(t, again, options(again, 1, 2), n.Known); err != nil || len(again.launches) != 0 {
		t.Errorf("err %v, launched %v, want nothing: the skip is kept", err, again.launches)
	}
	known := n.Known
	known.Skips = nil
	again = newLab(three())
	res, _, err := run(t, again, options(again, 1, 2), known)
	if err != nil || len(res.Skips) != 0 || !slices.Equal(again.launches, []string{"TP:2 cache=false", "TP:2 cache=true"}) {
		t.Errorf("err %v, skips %v, launched %v", err, res.Skips, again.launches)
	}
}
