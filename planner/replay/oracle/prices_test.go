package oracle

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/engine/sim/fleet"
)

// Whatever an engine puts into a step, its pieces' prices are no more than the
// step's time.
func TestNoStepIsCheaperThanItsPieces(t *testing.T) {
	pools := map[string]fleet.Pool{"model": llama8B(t, engine.RoleAggregated, 0), "profile": measured(t, engine.RoleAggregated)}
	enginetest.Check(t, func(t *rapid.T) {
		pool, ok := pools[rapid.SampledFrom([]string{"model", "profile", "small"}).Draw(t, "engine")]
		if !ok {
			pool = smallPool(t, engine.RoleAggregated)
		}
		m, err := machineOf(pool)
		if err != nil {
			t.Fatal(err)
		}
		low := rapid.IntRange(1, 40).Draw(t, "low")
		high := low + rapid.IntRange(1, max(1, min(m.kv, 9000)-low)).Draw(t, "more")
		o := offer{token: rapid.Float64Range(0, 1).Draw(t, "share") * m.dearest(), wait: rapid.Float64Range(0, 0.1).Draw(t, "wait")}
		p := m.prices(o, nodes(low, high, manyNodes), tolerance)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		for range 200 {
			m.holds(t, p, low, high, rng)
		}
	})
}

// holds draws a step that the engine can do and compares.
func (m *machine) holds(t *rapid.T, p prices, low, high int, rng *rand.Rand) {
	var b engine.Batch
	sum := 0.0
	for range rng.IntN(m.sequences + 1) {
		c := low + rng.IntN(high-low+1)
		if b.DecodeContext+int64(c) > int64(m.kv) {
			break
		}
		b.AddDecode(c)
		sum += p.decode.of(c)
	}
	for range rng.IntN(m.sequences - b.DecodeSeqs + 1) {
		left := m.tokens - b.DecodeSeqs - b.PrefillTokens
		if left < 1 {
			break
		}
		n, past := 1+rng.IntN(left), rng.IntN(2)*rng.IntN(3000)
		b.AddChunk(n, past)
		sum += p.prompt(float64(n), pairs(past, past+n))
	}
	if b.Empty() || b.PrefillTokens > m.kv {
		return
	}
	if most := (1 + p.wait*float64(b.DecodeSeqs)) * m.time(b); sum > most*(1+slack) {
		t.Fatalf("step %+v takes %v ps, at a wait of %v; its pieces cost %v", b, most, p.wait, sum)
	}
}

// The least time per prompt token is that of the fullest step, whose weights are
// shared by the most tokens.
func TestDearestTokenIsThatOfTheBestStep(t *testing.T) {
	a := affine{base: 10, weights: 100, token: 5, stream: 7}
	p := fleet.Pool{Timer: a}
	p.Engine.KVBlocks, p.Engine.Limits = 100, engine.Limits{MaxNumSeqs: 4, MaxNumBatchedTokens: 64, BlockSize: 4}
	m, err := machineOf(p)
	if err != nil {
		t.Fatal(err)
	}
	least := 1e18
	for n := 1; n <= 64; n++ {
		least = min(least, m.step(n, 0, 0)/float64(n))
	}
	if got := m.dearest(); got > least || got < least*(1-tolerance) {
		t.Errorf("a prompt token costs %v ps at most, want %v or a little less", got, least)
	}
}

// A timer that takes less for more is refused: nothing is proved of it.
func TestTimersThatFallAreRefused(t *testing.T) {
	p := llama8B(t, engine.RoleAggregated, 0)
	p.Timer = falls{}
	if _, err := machineOf(p); err == nil {
		t.Error("a timer whose steps are shorter with more sequences was taken")
	}
}

type falls struct{}

func (falls) StepTime(b engine.Batch) engine.Picoseconds {
	return engine.Second - engine.Picoseconds(min(b.DecodeSeqs, 400))*2*engine.Millisecond
}
