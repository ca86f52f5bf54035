package policy

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/interpolation"
	"plimsoll/planner"
	"plimsoll/profile"
)

// last predicts the last value.
type last struct{ V float64 }

func (l *last) Observe(v float64) {
	if !math.IsNaN(v) {
		l.V = v
	}
}
func (l *last) Forecast(int) float64            { return l.V }
func (l *last) Save() (json.RawMessage, error)  { return json.Marshal(l) }
func (l *last) Restore(b json.RawMessage) error { return json.Unmarshal(b, l) }

const ms = time.Millisecond

// surfaces of an engine whose prompt takes 10 ms and 0.1 ms a token, and whose
// step takes 10 ms and 0.2 ms a sequence, up to 100 of them.
func surfaces(t testing.TB) (interpolation.Prefill, interpolation.Decode) {
	t.Helper()
	var p profile.PrefillSurface
	for _, isl := range []int{100, 500, 1000, 2000, 4000, 8000} {
		ttft := 10*ms + time.Duration(isl)*ms/10
		p.Samples = append(p.Samples, profile.PrefillSample{ISL: isl, TTFT: ttft, ThroughputPerGPU: float64(isl) / ttft.Seconds()})
	}
	d := profile.DecodeSurface{MaxKVTokens: 1_000_000}
	for _, c := range []float64{250, 1000, 2000, 5000, 9000} {
		for n := 1.0; n <= 100; n += 11 {
			itl := 10*ms + time.Duration(n*float64(ms)/5)
			d.Samples = append(d.Samples, profile.DecodeSample{KVUsage: n * c / 1e6, Context: c, ITL: itl, ThroughputPerGPU: n / itl.Seconds()})
		}
	}
	pre, err := interpolation.FitPrefill(p)
	if err != nil {
		t.Fatal(err)
	}
	dec, err := interpolation.FitDecode(d, 1)
	if err != nil {
		t.Fatal(err)
	}
	return pre, dec
}

func standard(t testing.TB, change ...func(*DefaultOptions)) *Default {
	t.Helper()
	o := NewDefaultOptions()
	o.Prefill, o.Decode = surfaces(t)
	o.ISL, o.OSL, o.Ahead, o.StableFor = 990, 100, 0, 5*time.Minute
	o.Rate, o.ISLs, o.OSLs = &last{}, &last{}, &last{}
	for _, f := range change {
		f(&o)
	}
	p, err := NewDefault(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// promise is TTFT 500 ms and ITL 20 ms, by means.
func promise() planner.Deployment {
	return planner.Deployment{
		Pools: []planner.Pool{{Role: engine.RolePrefill, GPUs: 1, Min: 1}, {Role: engine.RoleDecode, GPUs: 1, Min: 1}},
		SLA:   profile.SLA{TTFT: 500 * ms, ITL: 20 * ms, Stat: profile.Mean}, Budget: planner.Budget{Max: -1, Min: -1},
	}
}

// minute is what a fleet that is well shows of a minute at a rate.
func minute(rate float64, have planner.Replicas, change ...func(*planner.Situation)) planner.Situation {
	s := planner.Situation{Deployment: promise(), Have: have}
	s.Start, s.Length = time.Unix(0, 0), time.Minute
	s.Arrivals, s.Finished = planner.Known(60*rate), planner.Known(60*rate)
	s.Running, s.Waiting = planner.Known(rate), planner.Known(0.0)
	s.TTFT = planner.Spread[time.Duration]{Count: 60 * rate, Mean: planner.Known(120 * ms)}
	s.ITL = planner.Spread[time.Duration]{Count: 60 * rate, Mean: planner.Known(15 * ms)}
	s.ISL.Mean, s.OSL.Mean = planner.Known(990.0), planner.Known(100.0)
	for _, r := range []planner.Role{engine.RolePrefill, engine.RoleDecode} {
		n := have.Of(r)
		s.Pools = append(s.Pools, planner.PoolObservation{PoolState: planner.PoolState{Role: r, Want: n, Ready: n}})
	}
	for _, f := range change {
		f(&s)
	}
	return s
}

// after proposes for a row of situations, a minute each.
func after(p *Default, all ...planner.Situation) planner.Decision {
	var d planner.Decision
	for i, s := range all {
		s.Start = time.Unix(int64(60*i), 0)
		d = p.Propose(s)
	}
	return d
}

func repeat(n int, s planner.Situation) []planner.Situation {
	return slices.Repeat([]planner.Situation{s}, n)
}

func rulesOf(d planner.Decision, role planner.Role) string {
	var out []string
	for _, s := range d.Steps {
		if s.Role == role {
			out = append(out, s.Rule)
		}
	}
	return strings.Join(out, " ")
}

var off = func(o *DefaultOptions) { o.NoCorrection, o.Margin = true, 0 } //nolint:gochecknoglobals // an option of many tests

// One prompt takes 109 ms, so an engine takes 9.2 of them a second at most; at a
// mean TTFT of 500 ms a queue may wait 391 ms. At ITL 20 ms an engine carries 50
// requests, each there for 2 s, so 25 a second less the crowd's margin.
func TestDefaultSizesByHand(t *testing.T) {
	for _, c := range []struct {
		rate float64
		want planner.Replicas
	}{
		{0.1, planner.Replicas{Prefill: 1, Decode: 1}},
		{6, planner.Replicas{Prefill: 1, Decode: 1}},  // ρ 0.65: waits 0.20 s (cv² = 1)
		{8, planner.Replicas{Prefill: 2, Decode: 1}},  // ρ 0.87: waits 0.74 s
		{20, planner.Replicas{Prefill: 3, Decode: 2}}, // 40 in flight, 54.7 at the fullest
		{40, planner.Replicas{Prefill: 5, Decode: 3}}, // 80 in flight, 100.8
	} {
		p := standard(t, off, func(o *DefaultOptions) { o.MostUp = 100 })
		d := p.Propose(minute(c.rate, planner.Replicas{Prefill: 1, Decode: 1}))
		if d.Want != c.want {
			t.Errorf("%v requests/s: %s, want %s: %+v", c.rate, d.Want, c.want, d.Steps)
		}
	}
}

// dynamo#10528: waiting counts towards TTFT, and what waits now must go too.
func TestQueueWaitAddsPrefill(t *testing.T) {
	have := planner.Replicas{Prefill: 2, Decode: 2}
	calm := standard(t, off).Propose(minute(8, have))
	burst := standard(t, off).Propose(minute(8, have, func(s *planner.Situation) { s.Waiting = planner.Known(600.0) }))
	if burst.Want.Prefill <= calm.Want.Prefill {
		t.Errorf("600 waiting requests: %s, without %s", burst.Want, calm.Want)
	}
}

// dynamo#8861: demand read from completions stays at what the fleet can serve.
func TestCompletionsHideSaturation(t *testing.T) {
	p := standard(t, off)
	have := planner.Replicas{Prefill: 1, Decode: 1}
	saturated := func(waiting float64) planner.Situation {
		return minute(9, have, func(s *planner.Situation) {
			s.Arrivals, s.Waiting, s.Running = planner.Figure[float64]{}, planner.Known(waiting), planner.Known(10.0)
		})
	}
	if d := p.Propose(saturated(0)); len(d.Missing) == 0 {
		t.Errorf("one reading of a gauge gives a demand: %+v", d)
	}
	d := after(p, saturated(660)) // 9·60 finished, 660 more in the system: 20/s came
	if got := d.Forecast.Rate.Value; math.Abs(got-20) > 1e-9 {
		t.Errorf("%v requests/s, want 20", got)
	}
}

// dynamo#14765, #3131: nothing known is not nothing to do; nothing to do is.
func TestIdleIsNotMissing(t *testing.T) {
	have := planner.Replicas{Prefill: 3, Decode: 3}
	blind := minute(0, have, func(s *planner.Situation) {
		s.Arrivals, s.Finished = planner.Figure[float64]{}, planner.Figure[float64]{}
	})
	d := after(standard(t, off), repeat(30, blind)...)
	if len(d.Missing) == 0 || d.Want != have {
		t.Errorf("without metrics: %+v", d)
	}
	idle := minute(0, have, func(s *planner.Situation) {
		s.TTFT, s.ITL, s.ISL, s.OSL = planner.Spread[time.Duration]{}, planner.Spread[time.Duration]{}, planner.Spread[float64]{}, planner.Spread[float64]{}
	})
	d = after(standard(t, off, func(o *DefaultOptions) { o.MostDown = 9 }), repeat(30, idle)...)
	if d.Want != (planner.Replicas{Prefill: 1, Decode: 1}) {
		t.Errorf("idle: %+v", d)
	}
}

// dynamo#9294: from 2 to 1 and back for ever.
func TestNoOscillation(t *testing.T) {
	p := standard(t, off)
	have := planner.Replicas{Prefill: 2, Decode: 2}
	moves := 0
	for i := range 60 {
		s := minute(7.2+0.4*math.Sin(float64(i)), have) // around the edge of one prefill engine
		s.Start = time.Unix(int64(60*i), 0)
		if d := p.Propose(s); d.Want.Prefill != have.Prefill {
			moves++
			have = d.Want
		}
	}
	if moves > 1 {
		t.Errorf("prefill moved %d times within an hour", moves)
	}
}

func TestDownOnlyWhereAllAgree(t *testing.T) {
	have := planner.Replicas{Prefill: 4, Decode: 4}
	for _, c := range []struct {
		name    string
		change  func(*planner.Situation)
		minutes int
		want    planner.Replicas
	}{
		{"everything agrees", func(*planner.Situation) {}, 7, planner.Replicas{Prefill: 3, Decode: 3}},
		{"not for long", func(*planner.Situation) {}, 4, have},
		{"TTFT is above", func(s *planner.Situation) { s.TTFT.Mean.Value = 501 * ms }, 7, planner.Replicas{Prefill: 5, Decode: 3}},
		{"ITL is above", func(s *planner.Situation) { s.ITL.Mean.Value = 21 * ms }, 7, planner.Replicas{Prefill: 3, Decode: 5}},
		{"TTFT is missing", func(s *planner.Situation) { s.TTFT = planner.Spread[time.Duration]{} }, 7, planner.Replicas{Prefill: 4, Decode: 3}},
		{"KV is nearly full", func(s *planner.Situation) { s.Pools[1].KVMost = planner.Known(0.8) }, 7, planner.Replicas{Prefill: 3, Decode: 4}},
		// dynamo#14251: replicas without a place to run must not keep the others.
		{"pending", func(s *planner.Situation) { s.Pools[0].Ready, s.Pools[0].Starting, s.Pools[0].Pending = 2, 2, 2 }, 7, planner.Replicas{Prefill: 3, Decode: 3}},
	} {
		d := after(standard(t, off, func(o *DefaultOptions) { o.MostDown = 1 }), repeat(c.minutes, minute(2, have, c.change))...)
		if d.Want != c.want {
			t.Errorf("%s: %s, want %s: %+v", c.name, d.Want, c.want, d.Steps)
		}
	}
}

// dynamo#11624: replicas cannot make one prompt faster, so the fleet must not
// explode where one alone breaks the SLA.
func TestUnreachableSLADoesNotExplode(t *testing.T) {
	d := standard(t, off).Propose(minute(4, planner.Replicas{Prefill: 2, Decode: 2}, func(s *planner.Situation) {
		s.Deployment.SLA.TTFT, s.Deployment.SLA.ITL = 50*ms, 5*ms
		s.TTFT.Mean.Value, s.ITL.Mean.Value = 120*ms, 15*ms
	}))
	if d.Want.Prefill > 2 || d.Want.Decode > 5 {
		t.Errorf("%s", d.Want)
	}
	var codes []string
	for _, w := range d.Warnings {
		codes = append(codes, w.Code)
	}
	if !slices.Contains(codes, "ttft_unreachable") || !slices.Contains(codes, "itl_unreachable") {
		t.Errorf("warnings are %v", d.Warnings)
	}
}

// An ITL that one request alone breaks is said, and asks for no more engines: neither where
// engines look faster than the formulas.
func TestITLOutOfReachTakesNoEngines(t *testing.T) {
	need := demand{rate: 20, prompts: 20, answers: 20, isl: 990, osl: 100}
	at := func(itl time.Duration) (int, []profile.Warning) {
		e := engines{sla: profile.SLA{TTFT: 500 * ms, ITL: itl, Stat: profile.Mean}, slower: correction{Prefill: 0.8, Full: 1, Decode: 0.8, Tail: 1}}
		e.prefill, e.decode = surfaces(t)
		n, _, warnings := e.least(engine.RoleAggregated, need)
		return n, warnings
	}
	n, warnings := at(9 * ms) // one request takes 10.2
	if holds, _ := at(20 * ms); n > 2*holds || len(warnings) == 0 || warnings[0].Code != "sla_unreachable" {
		t.Errorf("%d engines, %d hold 20 ms: %v", n, holds, warnings)
	}
}

// The correction finds how much slower the engines are than their profile, and
// leaves out intervals of another fleet (dynamo#12430).
func TestCorrection(t *testing.T) {
	slow := minute(2, planner.Replicas{Prefill: 1, Decode: 1}, func(s *planner.Situation) {
		q := queue{rate: 2, mean: 1.5 * 0.109, cv2: 1}
		s.TTFT.Mean.Value = duration(1.5*0.109 + q.wait(1, 0))
		s.Pools[1].Running = planner.Known(10.0)
		s.ITL.Mean.Value = duration(2 * 0.012)
	})
	p := standard(t)
	d := after(p, repeat(40, slow)...)
	if math.Abs(d.Correction.Prefill.Value-1.5) > 0.02 || math.Abs(d.Correction.Decode.Value-2) > 0.02 {
		t.Errorf("%+v", d.Correction)
	}
	for i := range slow.Pools {
		slow.Pools[i].Changed = true
	}
	p = standard(t)
	if d := after(p, repeat(40, slow)...); d.Correction.Prefill.Value != 1 || d.Correction.Decode.Value != 1 {
		t.Errorf("cold engines are learnt from: %+v", d.Correction)
	}
}

func TestStepsAndZero(t *testing.T) {
	one := planner.Replicas{Prefill: 1, Decode: 1}
	d := standard(t, off).Propose(minute(200, one))
	if d.Want != (planner.Replicas{Prefill: 5, Decode: 5}) || !strings.Contains(rulesOf(d, engine.RolePrefill), "step-limit") {
		t.Errorf("%+v", d)
	}

	zero := func(s *planner.Situation) {
		s.Deployment.Pools = slices.Clone(s.Deployment.Pools)
		for i := range s.Deployment.Pools {
			s.Deployment.Pools[i].Min = 0
		}
	}
	p := standard(t, off)
	if d := after(p, repeat(9, minute(0, one, zero))...); d.Want != one {
		t.Errorf("switched off after 9 minutes: %s", d.Want)
	}
	p = standard(t, off)
	if d := after(p, repeat(16, minute(0, one, zero))...); d.Want != (planner.Replicas{}) {
		t.Errorf("not switched off after 16 minutes: %+v", d)
	}
	if d := p.Propose(minute(0.05, planner.Replicas{}, zero)); d.Want != one {
		t.Errorf("a request comes: %s", d.Want)
	}
}

func TestAggregated(t *testing.T) {
	dep := promise()
	dep.Pools = []planner.Pool{{Role: engine.RoleAggregated, GPUs: 1, Min: 1}}
	at := func(rate float64) planner.Decision {
		s := minute(rate, planner.Replicas{})
		s.Deployment, s.Have = dep, planner.Replicas{Aggregated: 1}
		s.Pools = []planner.PoolObservation{{PoolState: planner.PoolState{Role: engine.RoleAggregated, Want: 1, Ready: 1}}}
		return standard(t, off, func(o *DefaultOptions) { o.MostUp = 1000 }).Propose(s)
	}
	// ITL 20 ms: (10 + 0.2 n)/(1 − 0.109 r) = 20 with n = r·100·0.02 = 2r gives
	// r = 10/2.58 = 3.876.
	e := standard(t, off).engines(dep.SLA)
	if got, want := e.aggregatedRate(demand{isl: 990, osl: 100}), 10/2.58; math.Abs(got/want-1) > 0.01 {
		t.Errorf("an engine carries %v requests/s, want %v", got, want)
	}
	before := 0
	for _, rate := range []float64{0.1, 1, 3, 10, 30, 100} {
		d := at(rate)
		if d.Want.Aggregated < before || float64(d.Want.Aggregated) < rate/(10/2.58) {
			t.Errorf("%v requests/s: %s", rate, d.Want)
		}
		before = d.Want.Aggregated
	}
}

// More demand never asks for less, and the same observations after a restart
// give the same decisions.
func TestDefaultLaws(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		have := planner.Replicas{Prefill: rapid.IntRange(1, 9).Draw(t, "p"), Decode: rapid.IntRange(1, 9).Draw(t, "d")}
		rate := rapid.Float64Range(0, 100).Draw(t, "rate")
		build := func() *Default {
			return standard(&quietTB{}, func(o *DefaultOptions) { o.Rate = &last{} })
		}
		less, more := build().Propose(minute(rate, have)), build().Propose(minute(rate*1.3, have))
		if more.Want.Prefill < less.Want.Prefill || more.Want.Decode < less.Want.Decode {
			t.Fatalf("%v requests/s: %s; %v: %s", rate, less.Want, rate*1.3, more.Want)
		}
		p := build()
		var all []planner.Situation
		for range rapid.IntRange(1, 12).Draw(t, "minutes") {
			all = append(all, minute(rapid.Float64Range(0, 60).Draw(t, "r"), have))
		}
		after(p, all...)
		b, err := p.Save()
		if err != nil {
			t.Fatal(err)
		}
		q := build()
		if err := q.Restore(b); err != nil {
			t.Fatal(err)
		}
		next := minute(rate, have)
		next.Start = time.Unix(int64(60*len(all)), 0)
		if a, b := p.Propose(next), q.Propose(next); a.Want != b.Want || len(a.Steps) != len(b.Steps) {
			t.Fatalf("%+v\nafter a restart %+v", a, b)
		}
	})
}

// quietTB lets a helper of tests be called within a property.
type quietTB struct{ testing.TB }

func (*quietTB) Helper()           {}
func (*quietTB) Fatal(args ...any) { panic(args) }

func TestDefaultRefuses(t *testing.T) {
	o := NewDefaultOptions()
	o.Margin, o.KVHigh = 5, 0
	_, err := NewDefault(o)
	for _, want := range []string{"forecaster is missing", "the margin is 5", "KV use", "ISL 0"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	p := standard(t)
	for _, bad := range []string{"", "{}", `{"policy":"load"}`, `{"policy":"default","memory":{"slower":{"prefill":0}}}`} {
		if err := p.Restore(json.RawMessage(bad)); err == nil {
			t.Errorf("%q is restored", bad)
		}
	}
}

// An aggregated pool of whose engine a rate was measured is as many engines as that takes,
// at other lengths in proportion to what the surfaces say.
func TestRated(t *testing.T) {
	dep := promise()
	rated := Rated{RPS: 2, ISL: 990, OSL: 100, SLA: dep.SLA}
	e := standard(t, off, func(o *DefaultOptions) { o.Rated = rated }).engines(dep.SLA)
	profiled := demand{isl: 990, osl: 100, varies: true}
	if got := e.ratedRate(profiled); math.Abs(got/2-1) > 1e-6 {
		t.Errorf("at the profile's lengths an engine carries %v requests/s, want the 2 that were measured", got)
	}
	for rate, want := range map[float64]int{0.5: 1, 3.9: 2, 4.1: 3, 39.9: 20} {
		need := profiled
		need.rate = rate
		if n, why, _ := e.leastAggregated(need); n != want {
			t.Errorf("%v requests/s: %d engines, want %d: %s", rate, n, want, why)
		}
		if c := e.capacity(engine.RoleAggregated, need, want); math.Abs(c.Rate.Value/2-1) > 1e-6 {
			t.Errorf("an engine is said to carry %v", c.Rate)
		}
	}
	longer, varied, slow := profiled, profiled, e
	longer.isl, varied.spread2, slow.slower.Prefill = 1980, 1, 2
	for what, got := range map[string]float64{"longer prompts": e.ratedRate(longer), "prompts that vary": e.ratedRate(varied), "slower prompts": slow.ratedRate(profiled)} {
		if !(got > 0 && got < 2) {
			t.Errorf("%s: an engine carries %v requests/s, 2 without", what, got)
		}
	}
	fast := e
	fast.slower.Prefill, fast.slower.Decode = 0.5, 0.5
	if got := fast.knowing(profiled).ratedRate(profiled); math.Abs(got/2-1) > 1e-6 {
		t.Errorf("seen to be faster than its surfaces an engine carries %v requests/s, want the 2 that were measured", got)
	}
	strict := e
	strict.sla.TTFT /= 2
	if got := strict.ratedRate(profiled); !(got < 2) {
		t.Errorf("with half the TTFT an engine carries %v requests/s", got)
	}
	o := standard(t, off).o
	o.Rated = Rated{RPS: 2}
	if o.Check() == nil {
		t.Error("a rate of no lengths is taken")
	}
}
