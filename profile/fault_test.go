package profile

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// paced are n streams of one engine that begin at once: step k takes steps(k).
func paced(n, steps int, step func(k int) time.Duration) []Request {
	rs := make([]Request, n)
	for i := range rs {
		rs[i] = Request{Index: i, ISL: 100, PromptTokens: 100, OSL: steps + 1, OutputTokens: steps + 1, UsageSeen: true, Due: ms, Sent: ms}
	}
	at := 50 * ms
	for k := range steps + 1 {
		if k > 0 {
			at += step(k - 1)
		}
		for i := range rs {
			rs[i].Chunks = append(rs[i].Chunks, Chunk{At: at + time.Duration(i)*10*time.Microsecond})
		}
	}
	for i := range rs {
		c := rs[i].Chunks
		rs[i].First, rs[i].Last, rs[i].End = c[0].At, c[steps].At, c[steps].At
	}
	return rs
}

func even() func(int) time.Duration {
	return func(int) time.Duration { return 10 * ms }
}

func codesOf(ws []Warning) (cs []string) {
	for _, w := range ws {
		cs = append(cs, w.Code)
	}
	return cs
}

// Fault 2: a chunk is not a token. What an SLA's ITL is held against counts
// tokens, the gaps stay gaps, and the figure says which it is.
func TestFault02ChunkIsNotTokenInITL(t *testing.T) {
	rs := paced(4, 40, even())
	for i := range rs {
		rs[i].OutputTokens = 3 * 41
	}
	w, _ := Steady(rs)
	s := Summarize(rs, w)
	p := Point{Phase: Decode, Requests: 4, ITL: s.ITL, TPOT: s.TPOT}
	if got := p.Latency(SLA{}); got != 10*ms/3 || s.ITL.Mean != 10*ms {
		t.Errorf("ITL %v against the SLA, gaps of %v: want 3.33 ms of 10 ms", got, s.ITL.Mean)
	}
	if !slices.Contains(codesOf(s.Warnings), CodeChunk) || math.Abs(s.TokensPerSec-1200) > 1e-6 {
		t.Errorf("%v tokens/s, warnings %v", s.TokensPerSec, s.Warnings)
	}
	single := paced(4, 40, even())
	s = Summarize(single, w)
	if p := (Point{Phase: Decode, ITL: s.ITL, TPOT: s.TPOT}); p.Latency(SLA{}) != s.ITL.Mean {
		t.Errorf("where a chunk is a token, TPOT is %v and the mean gap %v", p.Latency(SLA{}), s.ITL.Mean)
	}
}

// Fault 4: a client that waits to send hides the wait. TTFT from the due instant
// stands beside that from sending.
func TestFault04CoordinatedOmission(t *testing.T) {
	var rs []Request
	for i := range 40 {
		due := time.Duration(i+1) * 10 * ms
		sent := time.Duration(i+1) * 30 * ms // one at a time, 30 ms each
		r := stream(sent, sent+30*ms, ms, 2)
		r.Due = due
		rs = append(rs, r)
	}
	s := Summarize(rs, Whole(rs))
	if s.TTFT.Mean != 30*ms || s.TTFT.Max != 30*ms {
		t.Errorf("service %v, at most %v", s.TTFT.Mean, s.TTFT.Max)
	}
	if due := Attain(rs, Window{To: time.Hour}, SLA{}, 1).TTFT; due.Mean != 440*ms || due.Max != 830*ms {
		t.Errorf("from the due instant %v, at most %v: want 440 ms and 830 ms", due.Mean, due.Max)
	}
}

// Fault 5: tokens counted by re-tokenising the text with another tokenizer than
// the engine's. Content comes in more chunks than there are tokens, or prompts
// are of another length: the point is no answer.
func TestFault05TokenCountingByRetokenising(t *testing.T) {
	for _, tt := range []struct {
		name    string
		spoil   func(r *Request)
		code    string
		invalid string
	}{
		{"a little off", func(r *Request) { r.OutputTokens = 38 }, CodeUsage, ""},
		{"a third less", func(r *Request) { r.OutputTokens = 27 }, CodeUsage, "the server counts 0.66 tokens per chunk"},
		{"prompts a little longer", func(r *Request) { r.PromptTokens = 105 }, CodeTokenizer, ""},
		{"prompts of half the length", func(r *Request) { r.PromptTokens = 50 }, CodeTokenizer, "prompts had 50 tokens, not the requested 100"},
	} {
		rs := paced(4, 40, even())
		for i := range rs {
			tt.spoil(&rs[i])
		}
		w, _ := Steady(rs)
		s := Summarize(rs, w)
		if !slices.Contains(codesOf(s.Warnings), tt.code) || (s.Invalid == "") != (tt.invalid == "") || !strings.HasPrefix(s.Invalid, tt.invalid) {
			t.Errorf("%s: invalid %q, warnings %v", tt.name, s.Invalid, s.Warnings)
		}
		p := Point{Phase: Decode, Requests: 4, ITL: s.ITL, TPOT: s.TPOT, Invalid: s.Invalid}
		if p.Meets(SLA{ITL: time.Hour}) != (tt.invalid == "") {
			t.Errorf("%s: meets an SLA of an hour: %v", tt.name, p.Meets(SLA{ITL: time.Hour}))
		}
	}
}

// Fault 12: warm-up, ramp-down and lock-step. Steps in which the engine is not
// yet warm are cut off by rule, a stall in the middle is not; steps that all
// streams share count once.
func TestFault12WarmUpRampAndLockStep(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	noise := func() time.Duration { return time.Duration(rng.NormFloat64() * float64(200*time.Microsecond)) }
	warm := func(k int) time.Duration {
		d := 10*ms + noise()
		if k < 20 {
			d += 15 * ms
		}
		return d
	}
	rs := paced(8, 200, warm)
	w, ok := Steady(rs)
	if cut := w.From - 50*ms; !ok || cut < 450*ms || cut > 650*ms {
		t.Errorf("the window begins %v after the first token, want after 20 steps of 25 ms", cut)
	}
	if s := Summarize(rs, w); (s.ITL.Mean - 10*ms).Abs() > 100*time.Microsecond {
		t.Errorf("ITL %v, want 10 ms", s.ITL.Mean)
	}
	stall := func(k int) time.Duration {
		if k == 60 {
			return 300 * ms
		}
		return 10*ms + noise()
	}
	rs = paced(8, 200, stall)
	w, _ = Steady(rs)
	if s := Summarize(rs, w); w.From != 50*ms || s.ITL.Max < 299*ms {
		t.Errorf("a stall was cut off: the window begins at %v, the longest gap is %v", w.From, s.ITL.Max)
	}
	s := Summarize(rs, w)
	if s.ITL.N != 1600 || s.Steps != 200 || s.ITL.Neff > 200 {
		t.Errorf("%d gaps of %d steps are worth %.0f samples", s.ITL.N, s.Steps, s.ITL.Neff)
	}
	// One stream goes on alone: nothing of that is in the window.
	long := rs[0]
	for range 100 {
		long.Last += 2 * ms
		long.Chunks = append(slices.Clone(long.Chunks), Chunk{At: long.Last})
	}
	long.OutputTokens += 100
	if got, _ := Steady(append([]Request{long}, rs[1:]...)); got.To > w.To+2*ms {
		t.Errorf("the window ends at %v, and %v without the ramp", got.To, w.To)
	}
}

// A staircase's records are parts: neither usage nor an end is missed, and what
// came before counts as context.
func TestPartOfARecord(t *testing.T) {
	rs := paced(4, 40, even())
	for i := range rs {
		r := &rs[i]
		r.Before, r.Chunks = 20, r.Chunks[20:]
		r.First, r.Last, r.End, r.UsageSeen, r.OutputTokens, r.PromptTokens = 0, 0, 0, false, 0, 0
	}
	w, ok := Steady(rs)
	s := Summarize(rs, w)
	if !ok || s.ITL.Mean != 10*ms || s.ITL.N != 4*20 || len(s.Warnings) != 0 {
		t.Errorf("steady %v, ITL %v of %d gaps, warnings %v", ok, s.ITL.Mean, s.ITL.N, s.Warnings)
	}
	if s.Context != 100+20+11 || s.InFlight < 3.9 || s.Streaming != 4 {
		t.Errorf("context %v, in flight %v, streaming %d", s.Context, s.InFlight, s.Streaming)
	}
}

// Little's law: a queue that grows is said, a load that is steady is not.
func TestLittlesLaw(t *testing.T) {
	load := func(service time.Duration) Summary {
		var rs []Request
		free := ms
		for i := range 200 {
			sent := ms + time.Duration(i)*10*ms
			free = max(free, sent) + service // one server
			rs = append(rs, stream(sent, free, ms, 1))
		}
		return Summarize(rs, Window{From: 500 * ms, To: 1500 * ms})
	}
	if s := load(5 * ms); len(s.Warnings) != 0 {
		t.Errorf("steady: %v", s.Warnings)
	}
	if s := load(15 * ms); !slices.Contains(codesOf(s.Warnings), CodeLittle) {
		t.Errorf("a queue that grows: %v", s.Warnings)
	}
}

// Instants that go backwards are no latency.
func TestInstantsOutOfOrderAreInvalid(t *testing.T) {
	rs := paced(2, 40, even())
	rs[1].Chunks[7].At -= 25 * ms
	if s := Summarize(rs, Whole(rs)); s.Invalid == "" || !slices.Contains(codesOf(s.Warnings), CodeOutOfOrder) {
		t.Errorf("invalid %q, warnings %v", s.Invalid, s.Warnings)
	}
}
