package accuracy

import (
	"math"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/latency"
)

// row is one of Llama-3.1-8B on an H100, and its model.
func row(t *testing.T, kind engine.Kind, r Row) (latency.Model, Row) {
	t.Helper()
	cat, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	if r.Model, err = cat.Model("llama-3.1-8b"); err != nil {
		t.Fatal(err)
	}
	if r.GPU, err = cat.GPU("h100-sxm"); err != nil {
		t.Fatal(err)
	}
	r.Config = engine.Config{Kind: kind, Parallelism: engine.TP(1)}
	m, err := latency.NewWith(r.Model, r.GPU, r.Config, r.Fit())
	if err != nil {
		t.Fatal(err)
	}
	return m, r
}

func predict(t *testing.T, kind engine.Kind, r Row) Prediction {
	t.Helper()
	m, r := row(t, kind, r)
	p, err := Predict(m, r)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func within(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	if math.Abs(got/want-1) > share {
		t.Errorf("%s is %g, want %g", what, got, want)
	}
}

// One prompt alone, a closed loop of one, and a load that leaves the engine idle between
// requests are the same.
func TestLoopsAgreeWithoutLoad(t *testing.T) {
	single := predict(t, "vllm", Row{Loop: Single, ISL: 2000, OSL: 200})
	for name, r := range map[string]Row{
		"closed": {Loop: Closed, ISL: 2000, OSL: 200, Concurrency: 1},
		"open":   {Loop: Open, ISL: 2000, OSL: 200, Rate: 0.01},
	} {
		p := predict(t, "vllm", r)
		within(t, name+" TTFT", p.TTFT, single.TTFT, 0.03)
		within(t, name+" TPOT", p.TPOT, single.TPOT, 0.03)
	}
	step := predict(t, "vllm", Row{Loop: Step, ISL: 2100, Concurrency: 1})
	within(t, "a step's TPOT", step.TPOT, single.TPOT, 1e-6)
	within(t, "tokens per second", step.Throughput, 1/step.TPOT, 1e-9)
}

// More load makes both latencies longer and throughput higher; what requests take and
// what the engine gives agree (Little's law).
func TestClosedLoop(t *testing.T) {
	var before Prediction
	for _, n := range []int{4, 32, 128} {
		p := predict(t, "vllm", Row{Loop: Closed, ISL: 921, OSL: 300, Concurrency: n})
		if p.TTFT <= before.TTFT || p.TPOT <= before.TPOT || p.Throughput <= before.Throughput || p.TTFT90 < p.TTFT50 {
			t.Errorf("%d in flight: %+v after %+v", n, p, before)
		}
		lives := p.TTFT + 299*p.TPOT
		within(t, "requests in flight", p.Throughput/300*lives, float64(n), 0.1) // they come and go at either end
		before = p
	}
}

// A cached prefix is not computed, and prompts with a decode step of their own in between
// wait for it: SGLang looks for arrivals when it is told to.
func TestCachedAndPoll(t *testing.T) {
	whole := predict(t, "vllm", Row{Loop: Open, ISL: 4000, OSL: 50, Rate: 1})
	cached := predict(t, "vllm", Row{Loop: Open, ISL: 4000, OSL: 50, Rate: 1, Cached: 3200})
	if cached.TTFT > 0.6*whole.TTFT {
		t.Errorf("four fifths cached: TTFT %g instead of %g", cached.TTFT, whole.TTFT)
	}
	at := Row{Loop: Closed, ISL: 921, OSL: 921, Concurrency: 16}
	each := predict(t, "sglang", at)
	at.Poll = 30
	polled := predict(t, "sglang", at)
	if more := polled.TTFT - each.TTFT; more < 8*polled.TPOT || more > 22*polled.TPOT {
		t.Errorf("a look every 30 steps costs %g s, steps take %g", more, polled.TPOT)
	}
	within(t, "TPOT", polled.TPOT, each.TPOT, 0.1)
}

// Where the engine does not keep up, TTFT is how long the test went on.
func TestSaturatedLoopsHaveNoTTFT(t *testing.T) {
	r := Row{Loop: Open, ISL: 4000, OSL: 200, Rate: 100, TTFT: 1, TPOT: 0.05}
	p := predict(t, "vllm", r)
	got := Residuals{}.Of(p, r)
	if !math.IsNaN(got[TTFT]) || !math.IsNaN(got[ClosedTTFT]) || math.IsNaN(got[TPOT]) {
		t.Errorf("%v of %+v", got, p)
	}
}

// Requests at equal distances meet fewer others than those at random.
func TestRegularArrivals(t *testing.T) {
	r := Row{Loop: Open, ISL: 547, OSL: 248, Rate: 20}
	random := predict(t, "vllm", r)
	r.Regular = true
	regular := predict(t, "vllm", r)
	if regular.TTFT90/regular.TTFT > 0.9*random.TTFT90/random.TTFT || regular.TTFT >= random.TTFT {
		t.Errorf("%+v at equal distances, %+v at random", regular, random)
	}
}

// Recorded requests come when they came, each with its own lengths.
func TestRecordedRequests(t *testing.T) {
	one := predict(t, "vllm", Row{Loop: Open, Requests: []Request{{ISL: 2000, OSL: 200}}})
	two := predict(t, "vllm", Row{Loop: Open, Requests: []Request{{ISL: 2000, OSL: 200}, {At: 100, ISL: 2000, OSL: 200}}})
	within(t, "TTFT of the same alone again", two.TTFT, one.TTFT, 1e-9)
	long := predict(t, "vllm", Row{Loop: Open, Requests: []Request{{ISL: 2000, OSL: 200}, {ISL: 8000, OSL: 2}}})
	if long.TTFT90 < 2*one.TTFT || long.TPOT < 1.02*one.TPOT {
		t.Errorf("beside a long prompt %+v, alone %+v", long, one)
	}
}

// A client in Python gets no more tokens than it can take, one after the other; engines
// that stream many at once are not held up.
func TestStreamedTokens(t *testing.T) {
	most := 1 / streamed.Seconds()
	one := predict(t, "vllm", Row{Loop: Closed, ISL: 128, OSL: 256, Concurrency: 512})
	many := predict(t, "vllm", Row{Loop: Closed, ISL: 127, OSL: 257, Concurrency: 512})
	if one.Throughput > most || many.Throughput < 1.05*most || one.TTFT < 2*many.TTFT {
		t.Errorf("%+v, %+v: a client takes %g tokens/s", one, many, most)
	}
}

func TestTally(t *testing.T) {
	var sum Tally
	nan := math.NaN()
	var group Residuals
	for _, e := range []float64{0.1, -0.1, 0.2, 0.3, 0.3} {
		group = append(group, math.Log(1+e), nan, math.Log(1-e))
	}
	sum.Add(group)
	sum.Add(Residuals{math.Log(2), nan, nan}) // too few rows for a median of their own
	if m, w, p := sum.Of(TPOT); math.Abs(m-0.2) > 1e-9 || math.Abs(w-0.2) > 1e-9 || math.Abs(p-1) > 1e-9 {
		t.Errorf("TPOT %g, %g, %g", m, w, p)
	}
	if m, _, _ := sum.Of(TTFT); !math.IsNaN(m) {
		t.Errorf("a median of nothing is %g", m)
	}
	h := Summary("five", group)
	if h.TPOT.N != 5 || h.TTFT.N != 0 || h.Closed.N != 5 || h.TPOT.Basis != "five" {
		t.Errorf("%+v", h)
	}
}

func TestKVOf(t *testing.T) {
	hopper, blackwell := catalog.GPU{FP8FLOPS: 1}, catalog.GPU{FP8FLOPS: 1, FP4FLOPS: 1}
	for _, tt := range []struct {
		kind    engine.Kind
		gpu     catalog.GPU
		weights engine.DType
		want    engine.DType
	}{
		{"vllm", hopper, "fp8", "bf16"},
		{"vllm", blackwell, "fp8", "fp8"},
		{"vllm", blackwell, "bf16", "bf16"},
		{"sglang", blackwell, "fp4", "fp8"},
		{"sglang", hopper, "fp8", "bf16"},
		{"trtllm", hopper, "fp8", "fp8"},
		{"trtllm", hopper, "", "bf16"},
	} {
		if got := KVOf(tt.kind, tt.gpu, tt.weights); got != tt.want {
			t.Errorf("%s, weights %s: %s, want %s", tt.kind, tt.weights, got, tt.want)
		}
	}
}
