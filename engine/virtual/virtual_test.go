package virtual

import (
	"context"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/engine/sim"
	"plimsoll/profile"
)

// steady times a step: 1 ms, 1 µs for each prompt token, 100 µs for each
// decoding sequence, 1 ns for each token of its context.
type steady struct{}

func (steady) StepTime(b engine.Batch) engine.Picoseconds {
	return engine.Millisecond + engine.Picoseconds(b.PrefillTokens)*engine.Microsecond +
		engine.Picoseconds(b.DecodeSeqs)*100*engine.Microsecond + engine.Picoseconds(b.DecodeContext)*engine.Nanosecond
}

func small() sim.Config {
	return sim.Config{KVBlocks: 1000, Limits: engine.Limits{MaxNumSeqs: 8, MaxNumBatchedTokens: 256, BlockSize: 16}}
}

func make1(t testing.TB, c sim.Config, overhead engine.Picoseconds) *Engine {
	t.Helper()
	e, err := New(c, steady{}, overhead, 0)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func measure(t testing.TB, e *Engine, w profile.Workload) Measurement {
	t.Helper()
	m, err := e.Measure(context.Background(), w)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func closed(isl, osl, requests, inFlight int) profile.Workload {
	return profile.Workload{ISL: isl, OSL: osl, Requests: requests, InFlight: inFlight, Seed: 1}
}

// played are the records of requests of one length that are due at these instants.
func played(t testing.TB, e *Engine, isl, osl int, due ...time.Duration) []profile.Request {
	t.Helper()
	s := profile.Script{Seed: 3}
	for _, d := range due {
		s.Asks = append(s.Asks, profile.Ask{Due: d, ISL: isl, OSL: osl})
	}
	m, err := e.Play(context.Background(), s, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m.Requests
}

// A prompt of 300 tokens takes steps of 256 and of 44 tokens; then each token's
// step has one token of context more.
func TestOneRequest(t *testing.T) {
	const us = time.Microsecond
	for _, overhead := range []time.Duration{0, 3 * time.Millisecond} {
		r := measure(t, make1(t, small(), engine.FromDuration(overhead)), closed(300, 3, 1, 1)).Requests[0]
		ttft := overhead + 1256*us + 1044*us
		if r.TTFT() != ttft || r.Due != time.Millisecond || r.Sent != r.Due || !r.OK() {
			t.Errorf("TTFT %v, want %v; %+v", r.TTFT(), ttft, r)
		}
		second, third := 1100*us+301, 1100*us+302
		want := []profile.Chunk{{At: r.First}, {At: r.First + second}, {At: r.First + second + third}}
		if !reflect.DeepEqual(r.Chunks, want) || r.Last != want[2].At || r.End != r.Last {
			t.Errorf("chunks %v, want %v; last %v, end %v", r.Chunks, want, r.Last, r.End)
		}
		if r.PromptTokens != 300 || r.OutputTokens != 3 || !r.UsageSeen || r.Status != 200 || r.CachedTokens != 0 || r.Finish != "length" {
			t.Errorf("%+v", r)
		}
	}
}

// Elapsed adds up what loads take, from the first request to the end of the last
// step, the wait for an arrival included.
func TestElapsed(t *testing.T) {
	e := make1(t, small(), 0)
	first := measure(t, e, closed(20, 5, 1, 1)).Requests[0].E2E()
	played(t, e, 20, 5, 0, time.Second)
	if got, want := e.Elapsed(), time.Second+2*first; got < want-10 || got > want+10 { // instants are cut to nanoseconds
		t.Errorf("%v passed, want %v", got, want)
	}
}

// In a closed loop a request is sent when another one ends, never more than
// asked for at once.
func TestClosedLoop(t *testing.T) {
	m := measure(t, make1(t, small(), 0), closed(20, 5, 7, 3))
	var ends []time.Duration
	for i, r := range m.Requests {
		if i < 3 {
			if r.Sent != time.Millisecond {
				t.Errorf("request %d was sent at %v", i, r.Sent)
			}
		} else if r.Sent != ends[i-3] {
			t.Errorf("request %d was sent at %v, %v ended a place", i, r.Sent, ends)
		}
		ends = append(ends, r.End)
	}
	for _, c := range m.Running {
		if c.N < 1 || c.N > 3 {
			t.Errorf("%d run at %v", c.N, c.At)
		}
	}
}

// In an open loop a request is sent when it is due, whatever the others do.
func TestOpenLoop(t *testing.T) {
	due := []time.Duration{0, time.Millisecond, 2 * time.Second, 2 * time.Second}
	rs := played(t, make1(t, small(), 0), 100, 50, due...)
	for i, r := range rs {
		if r.Due != time.Millisecond+due[i] || r.Sent != r.Due || !r.OK() {
			t.Errorf("request %d is due at %v: %+v", i, due[i], r)
		}
	}
	if rs[1].TTFT() <= rs[0].TTFT() { // it waits for the step that runs
		t.Errorf("TTFT %v, the one before had %v", rs[1].TTFT(), rs[0].TTFT())
	}
	if rs[2].TTFT() != rs[3].TTFT() {
		t.Errorf("TTFT %v and %v of two that came together", rs[2].TTFT(), rs[3].TTFT())
	}
}

// With asynchronous scheduling a request that comes to a busy engine waits for one
// step more, and a lone one does not.
func TestAsynchronousScheduling(t *testing.T) {
	ttfts := func(async bool) (lone, late time.Duration) {
		c := small()
		c.AsyncScheduling = async
		rs := played(t, make1(t, c, 0), 100, 50, 0, 10*time.Millisecond)
		return rs[0].TTFT(), rs[1].TTFT()
	}
	lone, late := ttfts(false)
	loneAsync, lateAsync := ttfts(true)
	step := 1100 * time.Microsecond // that decodes the other one, with 1 ns for each token of its context
	if more := lateAsync - late - step; lone != loneAsync || more < 100 || more > 200 {
		t.Errorf("TTFT %v alone and %v with another; with asynchronous scheduling %v and %v", lone, late, loneAsync, lateAsync)
	}
}

// Warm-up fills the prefix cache in no time; shared prompts find it in the next
// load, others never do.
func TestPrefixCache(t *testing.T) {
	c := small()
	c.PrefixCaching = true
	e := make1(t, c, 0)
	w := closed(100, 1, 2, 2)
	w.SharedPrompts, w.Warmup = true, true
	for _, r := range measure(t, e, w).Requests {
		if r.TTFT() != 0 || !r.OK() {
			t.Errorf("a warm-up took %v: %+v", r.TTFT(), r)
		}
	}
	w.Warmup = false
	for _, r := range measure(t, e, w).Requests {
		if r.CachedTokens != 96 {
			t.Errorf("%d tokens cached, want the 6 full blocks", r.CachedTokens)
		}
	}
	w.SharedPrompts = false
	for range 2 {
		for _, r := range measure(t, e, w).Requests {
			if r.CachedTokens != 0 {
				t.Errorf("%d tokens of a new prompt are cached", r.CachedTokens)
			}
		}
	}
}

// What the engine cannot hold is a record, as from a server, and the loop goes on.
func TestTooLong(t *testing.T) {
	c := small()
	c.Limits.MaxModelLen = 50
	for _, r := range measure(t, make1(t, c, 0), closed(40, 20, 5, 2)).Requests {
		if r.Failure != profile.FailStatus || r.Status != 400 || r.End == 0 || len(r.Chunks) != 0 {
			t.Errorf("%+v", r)
		}
	}
}

// A request that takes too long ends at its deadline, and the next takes its place.
func TestTimeout(t *testing.T) {
	e := make1(t, small(), 0)
	w := closed(20, 100, 6, 2)
	w.Timeout = 10 * time.Millisecond
	for _, r := range measure(t, e, w).Requests {
		if r.Failure != profile.FailTimeout || r.End != r.Sent+w.Timeout || r.OutputTokens != len(r.Chunks) || len(r.Chunks) == 0 {
			t.Errorf("%+v", r)
		}
	}
	w.Timeout = time.Minute
	for _, r := range measure(t, e, w).Requests { // the engine is empty again
		if !r.OK() {
			t.Errorf("%+v", r)
		}
	}
}

// A request given up before it reaches the engine costs it nothing.
func TestTimeoutBeforeTheEngine(t *testing.T) {
	w := closed(20, 5, 6, 2)
	w.Timeout = 10 * time.Millisecond
	m := measure(t, make1(t, small(), 20*engine.Millisecond), w)
	if len(m.Running) > 0 {
		t.Errorf("the engine ran in %d steps", len(m.Running))
	}
	for i, r := range m.Requests {
		if sent := time.Millisecond + time.Duration(i/2)*w.Timeout; r.Failure != profile.FailTimeout || r.Sent != sent || r.End != sent+w.Timeout || len(r.Chunks) > 0 {
			t.Errorf("request %d: %+v", i, r)
		}
	}
}

// In a closed loop a client that gives up sends its next request at that instant,
// in the midst of a step or before the engine has seen the one given up; and
// never are more in flight than asked for.
func TestTimeoutInAClosedLoop(t *testing.T) {
	enginetest.Check(t, func(rt *rapid.T) {
		overhead := engine.Picoseconds(rapid.Int64Range(0, int64(20*engine.Millisecond)).Draw(rt, "overhead"))
		w := closed(rapid.IntRange(1, 100).Draw(rt, "isl"), rapid.IntRange(1, 60).Draw(rt, "osl"),
			rapid.IntRange(1, 30).Draw(rt, "requests"), rapid.IntRange(1, 12).Draw(rt, "in flight"))
		w.Timeout = time.Duration(rapid.Int64Range(int64(50*time.Microsecond), int64(30*time.Millisecond)).Draw(rt, "timeout"))
		c := small()
		c.AsyncScheduling = rapid.Bool().Draw(rt, "async")
		e := make1(t, c, overhead)
		m := measure(t, e, w)
		var ends []time.Duration
		for i, r := range m.Requests {
			ends = append(ends, r.End)
			switch {
			case r.Failure == profile.FailTimeout && r.End != r.Sent+w.Timeout, r.OK() && r.End > r.Sent+w.Timeout, !r.OK() && r.Failure != profile.FailTimeout:
				rt.Fatalf("timeout %v: request %d: %+v", w.Timeout, i, r)
			case i < w.InFlight && r.Sent != time.Millisecond:
				rt.Fatalf("request %d was sent at %v", i, r.Sent)
			}
		}
		slices.Sort(ends)
		for i, r := range m.Requests[min(w.InFlight, len(m.Requests)):] {
			if r.Sent != ends[i] {
				rt.Fatalf("request %d was sent at %v, a place became free at %v", w.InFlight+i, r.Sent, ends[i])
			}
		}
		w.Timeout = time.Minute
		for _, r := range measure(t, e, w).Requests { // the engine is empty again
			if !r.OK() {
				rt.Fatalf("%+v", r)
			}
		}
	})
}

func TestCanceled(t *testing.T) {
	e := make1(t, small(), 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m, err := e.Measure(ctx, closed(20, 5, 4, 2))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range m.Requests {
		if r.Failure != profile.FailCanceled {
			t.Errorf("%+v", r)
		}
	}
	if r := measure(t, e, closed(20, 5, 1, 1)).Requests[0]; !r.OK() {
		t.Errorf("%+v", r)
	}
}

func TestRefuses(t *testing.T) {
	if _, err := New(sim.Config{}, steady{}, 0, 0); err == nil {
		t.Error("an engine without KV cache is taken")
	}
	if _, err := New(small(), steady{}, -1, 0); err == nil {
		t.Error("a negative overhead is taken")
	}
	for _, w := range []profile.Workload{closed(0, 1, 1, 1), closed(1, 0, 1, 1), closed(1, 1, 0, 1), closed(1, 1, 1, 0)} {
		if _, err := make1(t, small(), 0).Measure(t.Context(), w); err == nil {
			t.Errorf("%+v is taken", w)
		}
	}
}

// Whatever the load, preemptions included: every request gets its tokens at
// rising instants, and equal calls give equal records.
func TestRecords(t *testing.T) {
	enginetest.Check(t, func(rt *rapid.T) {
		c := small()
		c.KVBlocks = rapid.IntRange(10, 60).Draw(rt, "blocks") // few enough to preempt
		c.PrefixCaching = rapid.Bool().Draw(rt, "caching")
		c.Noise, c.Seed = rapid.SampledFrom([]float64{0, 0.2}).Draw(rt, "noise"), 7
		w := closed(rapid.IntRange(1, 100).Draw(rt, "isl"), rapid.IntRange(1, 60).Draw(rt, "osl"),
			rapid.IntRange(1, 20).Draw(rt, "requests"), rapid.IntRange(1, 20).Draw(rt, "in flight"))
		w.SharedPrompts = rapid.Bool().Draw(rt, "shared")
		overhead := engine.Picoseconds(rapid.Int64Range(0, int64(5*engine.Millisecond)).Draw(rt, "overhead"))
		a, b := measure(t, make1(t, c, overhead), w), measure(t, make1(t, c, overhead), w)
		if !reflect.DeepEqual(a, b) {
			rt.Fatal("two equal calls differ")
		}
		for _, r := range a.Requests {
			if !r.OK() || len(r.Chunks) != w.OSL || r.OutputTokens != w.OSL || r.First != r.Chunks[0].At || r.Last != r.Chunks[w.OSL-1].At {
				rt.Fatalf("%+v", r)
			}
			for i := range r.Chunks[1:] {
				if r.Chunks[i+1].At <= r.Chunks[i].At {
					rt.Fatalf("token %d came at %v after %v", i+1, r.Chunks[i+1].At, r.Chunks[i].At)
				}
			}
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	c := sim.Config{KVBlocks: 100_000, PrefixCaching: true, Limits: engine.Limits{MaxNumSeqs: 256, MaxNumBatchedTokens: 8192}}
	e := make1(b, c, 0)
	w := closed(3000, 150, 256, 256)
	w.SharedPrompts = true
	b.ReportAllocs()
	for b.Loop() {
		measure(b, e, w)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*256*150), "ns/token")
}
