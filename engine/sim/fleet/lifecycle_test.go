package fleet

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim"
)

// TestDisaggregatedByHand follows three requests through prefill, a link that
// carries one prompt at a time, and decode.
func TestDisaggregatedByHand(t *testing.T) {
	const s = engine.Second
	var got []Outcome
	f, err := New(Config{
		Pools: []Pool{
			{Engine: sim.Config{Role: engine.RolePrefill, KVBlocks: 100}, Timer: affine{token: s / 10}, Replicas: 1, Overhead: s},
			{Engine: sim.Config{Role: engine.RoleDecode, KVBlocks: 100}, Timer: steady(s), Replicas: 1, Overhead: 2 * s},
		},
		Transfer: Transfer{Latency: s, KV: engine.KVBytes{PerToken: 3}, BytesPerSecond: 10, Serial: true},
		Done:     func(o Outcome) { got = append(got, o) },
	})
	if err != nil {
		t.Fatal(err)
	}
	// Both prompts are one step of 2 s, from 1 s on. The link then takes 3 s
	// for each, one second passes, and two more until the decode router.
	offerAll(t, f, Request{ID: 7, At: 0, ISL: 10, OSL: 3}, Request{ID: 8, At: 0, ISL: 10, OSL: 1})
	if err := f.Advance(5 * s); err != nil {
		t.Fatal(err)
	}
	if u := f.Report().Links.Utilisation; u != 2.0/5 {
		t.Errorf("the link was busy %v of the first 5 s, want 2 s of them", u)
	}
	if err := f.Finish(Forever); err != nil {
		t.Fatal(err)
	}
	want := []Outcome{
		{Number: 1, ID: 7, ISL: 10, OSL: 3, Status: Finished, started: s, prefilled: 3 * s, Moved: 9 * s, decodeStart: 9 * s, First: 10 * s, Last: 12 * s},
		{Number: 2, ID: 8, ISL: 10, OSL: 1, Status: Finished, started: s, prefilled: 3 * s, Moved: 12 * s, decodeStart: 12 * s, First: 13 * s, Last: 13 * s},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("outcomes\n%+v, want\n%+v", got, want)
	}
	r := f.Report()
	if r.ITL.Count() != 2 || r.ITL.Mean() != float64(s) {
		t.Errorf("%d gaps of %v ps on average, want 2 of a second", r.ITL.Count(), r.ITL.Mean())
	}
	l := r.Links
	if l.Wait.Count() != 2 || l.Wait.Mean() != 1.5*float64(s) || l.Move.Mean() != 4*float64(s) || l.Utilisation != 6.0/13 {
		t.Errorf("links waited for %v ps, moving %v ps, busy %v: want 1.5 s, 4 s and 6 s of 13", l.Wait.Mean(), l.Move.Mean(), l.Utilisation)
	}
}

// A link that cannot carry the load is named, though no queue of an engine
// grows; what it has still to carry does not count as done.
func TestBusyLinksAreReported(t *testing.T) {
	const s = engine.Second
	f, err := New(Config{
		Pools: []Pool{
			{Engine: sim.Config{Role: engine.RolePrefill, KVBlocks: 100}, Timer: steady(s / 10), Replicas: 2},
			{Engine: sim.Config{Role: engine.RoleDecode, KVBlocks: 100}, Timer: steady(s / 10), Replicas: 1},
		},
		Transfer: Transfer{KV: engine.KVBytes{PerToken: 1}, BytesPerSecond: 10, Serial: true}, // a second for each prompt
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 400 {
		offerAll(t, f, Request{At: engine.Picoseconds(i) * s / 4, ISL: 10, OSL: 2}) // two a second at each link
	}
	if err := f.Advance(50 * s * 2); err != nil {
		t.Fatal(err)
	}
	r := f.Report()
	if u := r.Links.Utilisation; u < 0.99 || u > 1 {
		t.Errorf("links busy %v of the time, want nearly all of it", u)
	}
	if !slices.Contains(codes(r), "links_busy") {
		t.Errorf("warnings %v", r.Warnings)
	}
	if err := f.Finish(Forever); err != nil {
		t.Fatal(err)
	}
	if r := f.Report(); r.Links.Utilisation < 0.99 || r.Links.Wait.Max() < int64(90*s) {
		t.Errorf("links busy %v of the time, the longest wait %d ps", r.Links.Utilisation, r.Links.Wait.Max())
	}
}

func TestLengthsAreOfOfferedRequests(t *testing.T) {
	f, err := New(Config{Pools: []Pool{{Engine: sim.Config{KVBlocks: 10}, Timer: steady(engine.Second), Replicas: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	offerAll(t, f, Request{ISL: 10, OSL: 10}, Request{ISL: 1000, OSL: 50}) // the second is too long
	if err := f.Finish(Forever); err != nil {
		t.Fatal(err)
	}
	r := f.Report()
	if r.Rejected != 1 || r.ISL.Mean() != 505 || r.OSL.Mean() != 30 {
		t.Errorf("%d rejected; ISL %v and OSL %v on average, want 505 and 30", r.Rejected, r.ISL.Mean(), r.OSL.Mean())
	}
	if v := f.Interval(); v.OSL.Count() != 1 {
		t.Errorf("an interval has the output of %d requests, want the finished one's", v.OSL.Count())
	}
}

// TestScalingByHand starts and drains replicas and counts their GPU time.
func TestScalingByHand(t *testing.T) {
	const s = engine.Second
	f, err := New(Config{Pools: []Pool{{
		Engine: sim.Config{KVBlocks: 100}, Timer: steady(s), GPUs: 4, StartUp: 10 * s,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	scale := func(n int, at engine.Picoseconds) {
		t.Helper()
		if err := f.Scale(engine.RoleAggregated, n, at); err != nil {
			t.Fatal(err)
		}
	}
	offerAll(t, f, Request{At: 0, ISL: 1, OSL: 20}) // waits at the router
	scale(1, 5*s)                                   // ready at 15 s, done at 35 s
	scale(3, 20*s)                                  // two more, ready at 30 s
	scale(2, 29*s)                                  // one of them goes at once: 9 s
	scale(0, 31*s)                                  // the idle one goes: 11 s; the other drains until 35 s: 30 s
	if got := f.AppendReplicas(nil); len(got) != 1 || got[0] != (Replica{Number: 0, Role: engine.RoleAggregated, State: Draining, Requests: 1, Running: 1, KVUse: 0.01}) {
		t.Errorf("replicas %+v", got)
	}
	if err := f.Finish(Forever); err != nil {
		t.Fatal(err)
	}
	r := f.Report()
	if want := 4.0 * (9 + 11 + 30); math.Abs(r.GPUSeconds-want) > 1e-9 {
		t.Errorf("%v GPU s, want %v", r.GPUSeconds, want)
	}
	if r.TTFT.Max() != int64(16*s) || r.At != 35*s || r.Finished != 1 {
		t.Errorf("TTFT %d ps, end at %d ps", r.TTFT.Max(), r.At)
	}
	want := []ScaleEvent{
		{At: 5 * s, Role: engine.RoleAggregated, From: 0, To: 1},
		{At: 20 * s, Role: engine.RoleAggregated, From: 1, To: 3},
		{At: 29 * s, Role: engine.RoleAggregated, From: 3, To: 2},
		{At: 31 * s, Role: engine.RoleAggregated, From: 2, To: 0},
	}
	if !reflect.DeepEqual(r.Scales, want) {
		t.Errorf("scale events %+v", r.Scales)
	}
}

// A decode-only run of many tokens costs few events: a request of a million
// tokens is simulated at once.
func TestCostIsIndependentOfOSL(t *testing.T) {
	f, err := New(Config{Pools: []Pool{{Engine: sim.Config{KVBlocks: 1 << 20}, Timer: steady(engine.Millisecond), Replicas: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	instants := 0
	offerAll(t, f, Request{ISL: 100, OSL: 1_000_000})
	for f.flights.n > 0 {
		f.instant(f.nextInstant())
		instants++
	}
	if instants > 4 {
		t.Errorf("%d instants for one request", instants)
	}
	if want := 1_000_000 * engine.Millisecond; f.Now() != want || f.Report().ITL.Count() != 999_999 {
		t.Errorf("it ended at %d, want %d, with %d gaps", f.Now(), want, f.Report().ITL.Count())
	}
}

func TestNonsenseIsRefused(t *testing.T) {
	good := Pool{Engine: sim.Config{KVBlocks: 10}, Timer: steady(1), Replicas: 1}
	change := func(f func(*Pool)) []Pool {
		p := good
		f(&p)
		return []Pool{p}
	}
	for want, c := range map[string]Config{
		"want one aggregated pool":      {},
		"roles [aggregated aggregated]": {Pools: []Pool{good, good}},
		"no step timer":                 {Pools: change(func(p *Pool) { p.Timer = nil })},
		"-1 replicas":                   {Pools: change(func(p *Pool) { p.Replicas = -1 })},
		"unknown router \"x\"":          {Pools: change(func(p *Pool) { p.Router = "x" })},
		"kv_aware needs prefix":         {Pools: change(func(p *Pool) { p.Router = KVAware })},
		"overhead -1ns":                 {Pools: change(func(p *Pool) { p.Overhead = -engine.Nanosecond })},
		"kv cache of 0 blocks":          {Pools: change(func(p *Pool) { p.Engine.KVBlocks = 0 })},
		"1 bins":                        {Pools: []Pool{good}, Bins: 1},
		"transfer bytes per token":      {Pools: []Pool{good}, Transfer: Transfer{KV: engine.KVBytes{PerToken: math.NaN()}}},
		"transfer bytes per second":     {Pools: []Pool{good}, Transfer: Transfer{BytesPerSecond: -1}},
		"transfer latency":              {Pools: []Pool{good}, Transfer: Transfer{Latency: -1}},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New: %v, want it to say %q", err, want)
		}
	}
	f, err := New(Config{Pools: []Pool{good}})
	if err != nil {
		t.Fatal(err)
	}
	offerAll(t, f, Request{At: 1000, ISL: 1, OSL: 1})
	for want, do := range map[string]func() error{
		"request 2 arrives at":       func() error { return f.Offer(Request{At: 999, ISL: 1, OSL: 1}) },
		"request 2: ISL of 0":        func() error { return f.Offer(Request{At: 1000, OSL: 1}) },
		"request 2: OSL of -1":       func() error { return f.Offer(Request{At: 1000, ISL: 1, OSL: -1}) },
		"end of time":                func() error { return f.Advance(Forever) },
		"already":                    func() error { return f.Advance(1) },
		"no such replica":            func() error { return f.Fail(9, 1000) },
		"no pool of role \"decode\"": func() error { return f.Scale(engine.RoleDecode, 1, 1000) },
		"to -1 replicas":             func() error { return f.Scale(engine.RoleAggregated, -1, 1000) },
	} {
		if err := do(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want it to say %q", err, want)
		}
	}
	if err := errors.Join(f.Finish(Forever)); err != nil {
		t.Fatal(err)
	}
	if r := f.Report(); r.Offered != 1 || r.Finished != 1 {
		t.Errorf("refused requests left traces: %+v", r.Attainment)
	}
	for _, err := range []error{f.Offer(Request{At: engine.FromDuration(time.Hour), ISL: 1, OSL: 1}), f.Finish(Forever), f.Advance(1 << 40)} {
		if err == nil || !strings.Contains(err.Error(), "finished") {
			t.Errorf("after the end: %v", err)
		}
	}
}
