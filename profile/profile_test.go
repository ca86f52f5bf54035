package profile

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"plimsoll/engine/enginetest"

	"pgregory.net/rapid"
)

const ms = time.Millisecond

// stream is a request sent at sent whose chunks come every gap.
func stream(sent, first, gap time.Duration, tokens int) Request {
	r := Request{ISL: 100, PromptTokens: 100, CachedTokens: 90, OSL: tokens, OutputTokens: tokens, UsageSeen: true, Due: sent, Sent: sent, First: first}
	for i := range tokens {
		r.Chunks = append(r.Chunks, Chunk{At: first + time.Duration(i)*gap})
	}
	r.Last = r.Chunks[tokens-1].At
	r.End = r.Last
	return r
}

func TestDescribeAgainstNumpy(t *testing.T) {
	// numpy 1.24.2, scipy 1.10.1: x=[3,1,4,1,5,9,2,6]; np.percentile(x,[50,90,95,99]), mean, std(ddof=1);
	// scipy.stats.t.ppf(.975,7)*std/sqrt(8)
	xs := []time.Duration{3 * ms, 1 * ms, 4 * ms, 1 * ms, 5 * ms, 9 * ms, 2 * ms, 6 * ms}
	d := Describe(xs)
	want := map[string][2]float64{
		"mean": {float64(d.Mean), 3.875e6}, "std": {float64(d.Std), 2.748376143938713e6},
		"p50": {float64(d.P50), 3.5e6}, "p90": {float64(d.P90), 6.9e6}, "p95": {float64(d.P95), 7.95e6}, "p99": {float64(d.P99), 8.79e6},
		"half": {float64(d.Half), 2.2976999562747555e6}, "min": {float64(d.Min), 1e6}, "max": {float64(d.Max), 9e6},
	}
	for name, v := range want {
		if math.Abs(v[0]-v[1]) > 2 {
			t.Errorf("%s = %.0f ns, want %.0f", name, v[0], v[1])
		}
	}
	if got := Describe(nil); got != (Distribution{}) {
		t.Errorf("Describe(nil) = %+v, want zero", got)
	}
	if got := Describe(xs[:1]); got.Mean != 3*ms || got.P99 != 3*ms || got.Half != 0 {
		t.Errorf("one sample: %+v", got)
	}
}

func TestDescribeOrderLaws(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		v := rapid.SliceOfN(rapid.Int64Range(1, 1e12), 1, 50).Draw(t, "v")
		xs := make([]time.Duration, len(v))
		for i := range v {
			xs[i] = time.Duration(v[i])
		}
		d := Describe(xs)
		order := []time.Duration{d.Min, d.P50, d.P90, d.P95, d.P99, d.Max}
		for i := 1; i < len(order); i++ {
			if order[i] < order[i-1] {
				t.Fatalf("quantiles fall: %v", order)
			}
		}
		if d.Mean < d.Min || d.Mean > d.Max {
			t.Fatalf("mean %v outside [%v, %v]", d.Mean, d.Min, d.Max)
		}
	})
}

// Upstream's decode figure includes the ramp of its N-request burst; ours must not.
func TestDefectBurstRampCountsAsLoad(t *testing.T) {
	rs := []Request{
		stream(1*ms, 10*ms, 5*ms, 100),   // alone until 300 ms at 5 ms
		stream(1*ms, 300*ms, 20*ms, 100), // both from here on
	}
	w, ok := Steady(rs)
	if !ok || w.From != 300*ms || w.To != 505*ms {
		t.Fatalf("window %v %v, want 300ms..505ms", w, ok)
	}
	s := Summarize(rs, w)
	if want := 1/0.005 + 1/0.020; math.Abs(s.TokensPerSec-want) > 1e-6 {
		t.Errorf("TokensPerSec = %v, want %v", s.TokensPerSec, want)
	}
	if s.InFlight != 2 {
		t.Errorf("InFlight = %v, want 2", s.InFlight)
	}
}

func TestSummarizeSteadyStreams(t *testing.T) {
	var rs []Request
	for i := range 8 {
		// streams of one step arrive within a millisecond of each other
		rs = append(rs, stream(1*ms, 50*ms+time.Duration(i)*100*time.Microsecond, 10*ms, 51))
	}
	w, ok := Steady(rs)
	if !ok {
		t.Fatal("no steady window")
	}
	s := Summarize(rs, w)
	if s.ITL.Mean != 10*ms || s.ITL.Half != 0 {
		t.Errorf("ITL %v ± %v, want 10ms ± 0", s.ITL.Mean, s.ITL.Half)
	}
	if math.Abs(s.TokensPerSec-800) > 1e-6 {
		t.Errorf("TokensPerSec = %v, want 800", s.TokensPerSec)
	}
	if s.Context < 100+25 || s.Context > 100+27 {
		t.Errorf("Context = %v, want about 126", s.Context)
	}
	if math.Abs(s.Cached-0.9) > 1e-9 {
		t.Errorf("Cached = %v, want 0.9", s.Cached)
	}
	if len(s.Warnings) != 0 {
		t.Errorf("warnings %v", s.Warnings)
	}
}

func TestSummarizeLeavesFailuresOut(t *testing.T) {
	bad := Request{ISL: 100, OSL: 10, Sent: 1 * ms, Failure: FailTimeout, Error: "no answer"}
	rs := []Request{stream(1*ms, 10*ms, 5*ms, 10), bad}
	w, _ := Steady(rs)
	s := Summarize(rs, w)
	if s.Failures != 1 || s.TTFT.N != 1 || s.TTFT.Mean != 9*ms {
		t.Errorf("failures %d, TTFT %+v", s.Failures, s.TTFT)
	}
	if len(s.Warnings) != 1 || s.Warnings[0].Code != "failures" {
		t.Errorf("warnings %v", s.Warnings)
	}
	if _, ok := Steady([]Request{bad}); ok {
		t.Error("a failed request alone has a steady window")
	}
}

func TestSummarizeChunksOfSeveralTokens(t *testing.T) {
	r := stream(1*ms, 10*ms, 30*ms, 10)
	r.OutputTokens = 30
	w, _ := Steady([]Request{r})
	s := Summarize([]Request{r}, w)
	if math.Abs(s.TokensPerSec-100) > 1e-6 {
		t.Errorf("TokensPerSec = %v, want 100 (three tokens each 30 ms)", s.TokensPerSec)
	}
	if len(s.Warnings) != 1 || s.Warnings[0].Code != "chunk_not_token" {
		t.Errorf("warnings %v", s.Warnings)
	}
}

func TestProvenance(t *testing.T) {
	if got := Weakest(Measured, Estimated, Simulated); got != Estimated {
		t.Errorf("Weakest = %v", got)
	}
	for _, p := range []Provenance{Measured, Simulated, Estimated, Published} {
		b, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var q Provenance
		if err := json.Unmarshal(b, &q); err != nil || q != p {
			t.Errorf("%v: round trip gives %v, %v", p, q, err)
		}
	}
	if _, err := ParseProvenance("real"); err == nil {
		t.Error("unknown word accepted")
	}
	if _, err := json.Marshal(Provenance(7)); err == nil {
		t.Error("invalid provenance written")
	}
}

func TestPointMeets(t *testing.T) {
	sla := SLA{TTFT: 50 * ms, ITL: 10 * ms, Stat: Mean}
	p := Point{Phase: Decode, Requests: 4, ITL: Distribution{N: 10, Mean: 10 * ms, P99: 20 * ms}}
	if !p.Meets(sla) {
		t.Error("ITL equal to the SLA must meet it (<=)")
	}
	sla.Stat = P99
	if p.Meets(sla) {
		t.Error("p99 20 ms must miss 10 ms")
	}
	sla.Stat = Mean
	if p.Failures, sla.MaxFailures = 1, 0.01; !p.Meets(sla) {
		t.Error("a failure below the limit is no miss")
	}
	p.FailsTooOften = true
	if p.Meets(sla) {
		t.Error("a point with too many failures must not meet an SLA")
	}
	if (Point{Phase: Prefill, Requests: 1}).Meets(sla) {
		t.Error("a point without latency must not meet an SLA")
	}
}

// A limit of 1 %: what a server that fails 1 % does by chance is no miss, nor is a single
// failure. The bounds are binomial: P(X ≥ 4 | 100, 1 %) = 1.8 %, P(X ≥ 3) = 7.9 %.
func TestFailsTooOften(t *testing.T) {
	for _, c := range []struct {
		most        float64
		failures, n int
		want        bool
	}{
		{0.01, 0, 100, false},
		{0.01, 1, 145, false},
		{0.01, 1, 3, false},
		{0.01, 2, 20, true},
		{0.01, 2, 100, false},
		{0.01, 3, 100, false},
		{0.01, 4, 100, true},
		{0.01, 16, 1000, false},
		{0.01, 18, 1000, true},
		{0.01, 3, 3, true},
		{0, 1, 1000, true},
		{0, 0, 1000, false},
	} {
		if got := (SLA{MaxFailures: c.most}).FailsTooOften(c.failures, c.n); got != c.want {
			t.Errorf("%d of %d, %g allowed: %v", c.failures, c.n, c.most, got)
		}
	}
	rs := make([]Request, 145)
	for i := range rs {
		at := time.Duration(i+1) * time.Second
		rs[i] = Request{Index: i, OSL: 2, Due: at, Sent: at, First: at + 50*ms, Last: at + 60*ms, End: at + 60*ms, OutputTokens: 2, UsageSeen: true}
	}
	rs[70].Failure, rs[70].First, rs[70].Last = FailStatus, 0, 0
	sla := SLA{TTFT: 60 * ms, ITL: 20 * ms, Stat: P95, MaxFailures: 0.01}
	a := Attain(rs, Window{From: 0, To: time.Hour}, sla, 1)
	if a.Requests != 145 || a.Failures != 1 || !a.Holds(Aggregated, sla) || a.WithinTTFT != 144 {
		t.Errorf("1 of 145: %+v", a)
	}
	sla.MaxFailures = 0
	if Attain(rs, Window{From: 0, To: time.Hour}, sla, 1).Holds(Aggregated, sla) {
		t.Error("none may fail, and one did")
	}
}

// A prefix cache leaves the last block of a prompt of whole blocks to compute (vLLM 0.32:
// 256 tokens on blocks of 128 count 128 cached, 1,000 tokens 896).
func TestCachedPrompt(t *testing.T) {
	for _, c := range []struct{ block, isl, cacheable, low, high, want int }{
		{128, 256, 128, 240, 272, 257},
		{128, 1000, 896, 980, 1020, 1000}, // the nearest are 897 and 1,025
		{128, 1000, 896, 980, 1025, 1025},
		{128, 260, 256, 244, 276, 260}, // leaves 4
		{16, 3000, 2992, 2940, 3060, 3000},
		{528, 1056, 528, 1040, 1072, 1057},
		{528, 1056, 528, 1040, 1056, 1056}, // no room for one more
		{128, 64, 0, 48, 80, 64},
		{0, 100, 99, 90, 110, 100},
	} {
		f := EngineFacts{BlockSize: c.block}
		if f.Cacheable(c.isl) != c.cacheable || f.CachedPrompt(c.isl, c.low, c.high) != c.want {
			t.Errorf("%+v: %d cacheable, %d", c, f.Cacheable(c.isl), f.CachedPrompt(c.isl, c.low, c.high))
		}
	}
}

func TestMaxInFlight(t *testing.T) {
	f := EngineFacts{KVTokens: 10_000, BlockSize: 16, MaxNumSeqs: 64}
	// ceil(3150/16) = 197 blocks each of 625.
	if got := f.MaxInFlight(3000, 150, 0); got != 3 {
		t.Errorf("MaxInFlight = %d, want 3", got)
	}
	if got := f.MaxInFlight(10, 10, 0); got != 64 {
		t.Errorf("MaxInFlight = %d, want 64", got)
	}
	if got := f.MaxInFlight(10, 10, 5); got != 5 {
		t.Errorf("MaxInFlight = %d, want 5", got)
	}
	if got := f.MaxInFlight(20_000, 10, 0); got != 0 {
		t.Errorf("MaxInFlight = %d, want 0", got)
	}
}

// A context that grows makes ITL drift; the interval is of the noise around it.
func TestIntervalLeavesDriftOut(t *testing.T) {
	drift := func(noise func(i int) time.Duration) time.Duration {
		r := stream(1*ms, 10*ms, 5*ms, 2)
		at := 10 * ms
		r.Chunks = nil
		for i := range 500 {
			at += 10*ms + time.Duration(i)*10*time.Microsecond + noise(i)
			r.Chunks = append(r.Chunks, Chunk{At: at})
		}
		r.First, r.Last, r.OutputTokens = r.Chunks[0].At, at, 500
		w, _ := Steady([]Request{r})
		return Summarize([]Request{r}, w).ITL.Half
	}
	// Windows are cut by time, so a drifting gap leaves a slight bend behind.
	if h := drift(func(int) time.Duration { return 0 }); h > 100*time.Microsecond {
		t.Errorf("drift alone: ± %v", h)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	if h := drift(func(int) time.Duration { return time.Duration(rng.NormFloat64() * float64(3*ms)) }); h < 100*time.Microsecond || h > time.Millisecond {
		t.Errorf("3 ms of noise on 500 gaps: ± %v, want near 0.26 ms", h)
	}
}

// A model's error stands in for the noise of a measurement, and its absence
// leaves that alone.
func TestPointIntervals(t *testing.T) {
	p := Point{Phase: Decode, ITL: Distribution{N: 9, Mean: 1000, P99: 2000, Half: 10}, ThroughputPerGPU: 50, Throughput95: Interval{49, 51}}
	if l, th := p.LatencyInterval(SLA{}), p.ThroughputInterval(); l != (Interval{990, 1010}) || th != (Interval{49, 51}) {
		t.Errorf("measured: %v, %v", l, th)
	}
	if l := p.LatencyInterval(SLA{Stat: P99}); l != (Interval{}) {
		t.Errorf("the mean's interval is given for the p99: %v", l)
	}
	p.Provenance = Estimated
	p.ModelError = ModelError{Median: 0.1, P90: 0.25, Factor50: 1.1, Factor90: 1.25, N: 3, Basis: "b"}
	p.TPOT = p.ITL
	if l, th := p.LatencyInterval(SLA{Stat: P99}), p.ThroughputInterval(); l != (Interval{1600, 2500}) || th != (Interval{40, 62.5}) {
		t.Errorf("estimated: %v, %v", l, th)
	}
	p.ModelError.Factor90 = 2.5
	if l := p.LatencyInterval(SLA{}); l != (Interval{400, 2500}) {
		t.Errorf("an error above 100 %%: %v", l)
	}
	if l := (Point{Phase: Decode, ITL: Distribution{N: 1, Mean: 1000}}).LatencyInterval(SLA{}); l != (Interval{}) {
		t.Errorf("nothing known: %v", l)
	}
}
