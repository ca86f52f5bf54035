package virtual

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/engine/sim"
	"plimsoll/profile"
)

func climb(t testing.TB, e *Engine, isl, osl, most int) *Stairs {
	t.Helper()
	s, err := e.Climb(closed(isl, osl, 1, most))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func level(t testing.TB, s *Stairs, n, tokens int) Measurement {
	t.Helper()
	m, err := s.Level(t.Context(), n, tokens)
	if err != nil {
		t.Fatalf("%d streams, %d tokens: %v", n, tokens, err)
	}
	return m
}

// checkLevel wants n streams with a gap for each of so many tokens, each gap as
// long as the step time of n sequences and the context that the records tell.
func checkLevel(t interface {
	Helper()
	Fatalf(string, ...any)
}, m Measurement, n, tokens int,
) {
	t.Helper()
	if m.Void != "" || len(m.Requests) != n || len(m.Running) != tokens {
		t.Fatalf("void %q, %d records, %d counts: want none, %d and %d", m.Void, len(m.Requests), len(m.Running), n, tokens)
	}
	for i := range tokens {
		var b engine.Batch
		for _, r := range m.Requests {
			b.AddDecode(r.ISL + r.Before + i + 1)
		}
		want := steady{}.StepTime(b).Duration()
		for j, r := range m.Requests {
			if len(r.Chunks) != tokens+1 || r.Chunks[0].At != m.Window.From || r.Chunks[tokens].At != m.Window.To {
				t.Fatalf("stream %d: %d chunks from %v to %v in %v", j, len(r.Chunks), r.Chunks[0].At, r.Last, m.Window)
			}
			if gap := r.Chunks[i+1].At - r.Chunks[i].At; gap < want-1 || gap > want+1 { // instants are cut to nanoseconds
				t.Fatalf("stream %d, token %d: gap %v, want the step's %v", j, r.Before+i+2, gap, want)
			}
		}
		if c := m.Running[i]; c.N != n || c.Waiting != 0 || c.At <= m.Window.From || c.At > m.Window.To {
			t.Fatalf("count %+v in %v", c, m.Window)
		}
	}
	for j, r := range m.Requests {
		if !r.OK() || r.End != 0 || r.UsageSeen || r.OutputTokens != r.Before+tokens+1 || r.Last != m.Window.To || r.Sent == 0 || r.First <= r.Sent || r.First > m.Window.From {
			t.Fatalf("stream %d: %+v", j, r)
		}
	}
}

// Up, down, the same again, and up: every gap is the step time at that level and
// context, whatever was there before.
func TestStairsExact(t *testing.T) {
	enginetest.Check(t, func(rt *rapid.T) {
		c := sim.Config{KVBlocks: 4000, Limits: engine.Limits{MaxNumSeqs: 16, MaxNumBatchedTokens: 64, BlockSize: 16}}
		c.AsyncScheduling, c.PrefixCaching = rapid.Bool().Draw(rt, "async"), rapid.Bool().Draw(rt, "caching")
		e := make1(t, c, engine.Picoseconds(rapid.Int64Range(0, int64(5*engine.Millisecond)).Draw(rt, "overhead")))
		s := climb(t, e, rapid.IntRange(1, 200).Draw(rt, "isl"), 2000, 16)
		var before Measurement
		for i := range rapid.IntRange(1, 8).Draw(rt, "levels") {
			n, tokens := rapid.IntRange(1, 16).Draw(rt, "n"), rapid.IntRange(1, 40).Draw(rt, "tokens")
			m := level(t, s, n, tokens)
			checkLevel(rt, m, n, tokens)
			if i > 0 && n <= len(before.Requests) && m.Window.From != before.Window.To {
				rt.Fatalf("from %d streams down to %d: window from %v, the one before ended at %v", len(before.Requests), n, m.Window.From, before.Window.To)
			}
			before = m
		}
		if got, want := e.Elapsed(), before.Window.To-time.Millisecond; got != want {
			rt.Fatalf("%v passed, want %v", got, want)
		}
		s.Close()
		if !e.core.Idle() {
			rt.Fatalf("%d run and %d wait after the end", e.core.Running(), e.core.Waiting())
		}
	})
}

// The first level is, token by token, what a load of as many requests gives.
func TestStairsAgreeWithLoad(t *testing.T) {
	const n, tokens = 8, 30
	for _, noise := range []float64{0, 0.1} {
		c := small()
		c.Noise = noise
		m := level(t, climb(t, make1(t, c, 0), 200, 100, n), n, tokens)
		whole := measure(t, make1(t, c, 0), closed(200, 100, n, n))
		for i, r := range whole.Requests {
			got := m.Requests[i]
			if want := r.Chunks[got.Before : got.Before+tokens+1]; !reflect.DeepEqual(got.Chunks, want) || got.First != r.First || got.Sent != r.Sent {
				t.Errorf("noise %v, stream %d: %v\nwant %v", noise, i, got.Chunks, want)
			}
		}
	}
}

// Streams that would end before the window does are refused beforehand; new
// stairs go on.
func TestStairsGrown(t *testing.T) {
	e := make1(t, small(), 0)
	s := climb(t, e, 20, 50, 4)
	checkLevel(t, level(t, s, 4, 30), 4, 30)
	spent := e.Elapsed()
	if _, err := s.Level(t.Context(), 4, 20); !errors.Is(err, profile.ErrGrown) || e.Elapsed() != spent {
		t.Errorf("%v, after %v more", err, e.Elapsed()-spent)
	}
	checkLevel(t, level(t, s, 2, 10), 2, 10)
	if _, err := s.Level(t.Context(), 4, 10); !errors.Is(err, profile.ErrGrown) {
		t.Error(err)
	}
	if _, err := e.Climb(closed(20, 50, 1, 4)); err == nil {
		t.Error("new stairs begin while the old ones stream")
	}
	s.Close()
	checkLevel(t, level(t, climb(t, e, 20, 50, 4), 4, 40), 4, 40)
}

// While prompts are computed the others decode, and may use up their tokens.
func TestStairsGrownWhileFilling(t *testing.T) {
	s := climb(t, make1(t, small(), 0), 600, 40, 8)
	checkLevel(t, level(t, s, 1, 30), 1, 30)
	if _, err := s.Level(t.Context(), 8, 5); !errors.Is(err, profile.ErrGrown) {
		t.Error(err)
	}
}

// Contexts outgrow the KV cache: the level does not count, and says why.
func TestStairsPreempted(t *testing.T) {
	c := small()
	c.KVBlocks = 20
	s := climb(t, make1(t, c, 0), 60, 200, 4)
	checkLevel(t, level(t, s, 4, 10), 4, 10)
	if m := level(t, s, 4, 50); m.Void != "1 preemption" || len(m.Requests) != 4 || m.Window.To <= m.Window.From {
		t.Errorf("void %q, %d records, %v", m.Void, len(m.Requests), m.Window)
	}
	checkLevel(t, level(t, s, 2, 50), 2, 50)
}

// An engine that does not take all streams in says how many it runs, soon.
func TestStairsNotTakenIn(t *testing.T) {
	few, little, tight := small(), small(), small()
	few.Limits.MaxNumSeqs = 3
	little.KVBlocks, little.ReserveFullPrompt = 15, true
	tight.Limits = engine.Limits{MaxNumSeqs: 3, MaxNumBatchedTokens: 3, BlockSize: 16}
	for name, c := range map[string]sim.Config{"places": few, "blocks": little, "budget": tight} {
		t.Run(name, func(t *testing.T) {
			s := climb(t, make1(t, c, 0), 60, 150, 8)
			m := level(t, s, 8, 10)
			if m.Void != "the engine runs 3 of 8: 5 wait" || len(m.Requests) > 0 {
				t.Errorf("void %q, %d records", m.Void, len(m.Requests))
			}
			checkLevel(t, level(t, s, 3, 5), 3, 5)
		})
	}
	c := small()
	c.KVBlocks = 14 // a fourth prompt starts, and is preempted before it is done
	if m := level(t, climb(t, make1(t, c, 0), 60, 100, 4), 4, 10); !strings.HasSuffix(m.Void, " before all streamed") {
		t.Errorf("void %q", m.Void)
	}
}

func TestStairsCanceled(t *testing.T) {
	s := climb(t, make1(t, small(), 0), 20, 2000, 4)
	level(t, s, 2, 5)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, n := range []int{2, 4} {
		if _, err := s.Level(ctx, n, 5); !errors.Is(err, context.Canceled) {
			t.Errorf("%d streams: %v", n, err)
		}
	}
	checkLevel(t, level(t, s, 4, 5), 4, 5)
}

func TestStairsRefuse(t *testing.T) {
	e := make1(t, small(), 0)
	for _, w := range []profile.Workload{closed(0, 1, 1, 1), closed(1, 0, 1, 1), closed(1, 1, 1, 0), closed(10_000, 10_000, 1, 1)} {
		if _, err := e.Climb(w); err == nil {
			t.Errorf("%+v is taken", w)
		}
	}
	c := small()
	c.Role = engine.RolePrefill
	if _, err := make1(t, c, 0).Climb(closed(10, 10, 1, 1)); err == nil {
		t.Error("a prefill engine is taken")
	}
	s := climb(t, e, 10, 10, 2)
	for _, bad := range [][2]int{{0, 1}, {3, 1}, {1, 0}} {
		if _, err := s.Level(t.Context(), bad[0], bad[1]); err == nil {
			t.Errorf("a level of %d streams and %d tokens is taken", bad[0], bad[1])
		}
	}
}

func BenchmarkStairs(b *testing.B) {
	c := sim.Config{KVBlocks: 100_000, Limits: engine.Limits{MaxNumSeqs: 256, MaxNumBatchedTokens: 8192}}
	b.ReportAllocs()
	for b.Loop() {
		s := climb(b, make1(b, c, 0), 3000, 1000, 256)
		for _, n := range []int{256, 128, 64} {
			level(b, s, n, 100)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*(256+128+64)*100), "ns/token")
}
