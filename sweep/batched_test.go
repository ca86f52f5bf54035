package sweep

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

// budgeted are the options of a lab whose engines say how many tokens a step takes.
func budgeted(b *lab, tokens int, tps ...int) Options {
	o := options(b, tps...)
	for i := range o.Candidates {
		o.Candidates[i].Limits.MaxNumBatchedTokens = tokens
	}
	return o
}

func batchedPoints(ps []profile.Point) (out []profile.Point) {
	for _, p := range ps {
		if p.Batch > 0 {
			out = append(out, p)
		}
	}
	return out
}

// Prompts below the knee are measured several at once: as many as fill a step,
// within the engine's limit of sequences, at what the steady rounds gave.
func TestBatchedPrefill(t *testing.T) {
	b := newLab(three())
	o := budgeted(b, 8192, 1)
	res, _, err := run(t, b, o, Known{})
	if err != nil {
		t.Fatal(err)
	}
	points := batchedPoints(res.Points)
	if len(points) < 3 || len(points) != len(res.Batched.Samples) || res.Batched.MaxBatchedTokens != 8192 || res.Batched.Provenance != profile.Simulated {
		t.Fatalf("%d points, %+v", len(points), res.Batched)
	}
	law := affine(1)
	for i, p := range points {
		k := min(8192/p.ISL, 64)
		want := float64(k*p.ISL) / law.ttft(k*p.ISL).Seconds()
		if p.Batch != k || k < 2 || p.Asked != k || p.Stage != profile.StageSurface || p.ID != fmt.Sprintf("surface/prefill/tp1/isl%d/k%d", p.ISL, k) {
			t.Errorf("%+v: want k %d", p, k)
		}
		if math.Abs(p.ThroughputPerGPU/want-1) > 1e-6 || p.TTFT.Mean != law.ttft(k*p.ISL) || p.TTFT.N != (batchRounds-2)*k {
			t.Errorf("ISL %d: %g tokens/s/GPU at %v, want %g", p.ISL, p.ThroughputPerGPU, p.TTFT.Mean, want)
		}
		s := res.Batched.Samples[i]
		if s.ISL != p.ISL || s.K != k || s.ThroughputPerGPU != p.ThroughputPerGPU {
			t.Errorf("sample %+v of %+v", s, p)
		}
	}
	if !slices.ContainsFunc(points, func(p profile.Point) bool { return near(p.ISL, o.ISL) }) {
		t.Error("the target's length was not batched")
	}
	for _, s := range res.PrefillSurface.Samples {
		if s.TTFT != law.ttft(s.ISL) {
			t.Errorf("ISL %d: a batch is in the surface of prompts one at a time: %v", s.ISL, s.TTFT)
		}
	}
	planned := 0
	for _, s := range Plan(o) {
		if s.Stage == profile.StageSurface && s.Phase == profile.Prefill {
			planned = s.Points
		}
	}
	if want := len(res.PrefillSurface.Samples) - 1 + len(points); planned < want { // the search takes fewer lengths where it can
		t.Errorf("%d points planned, %d measured", planned, want)
	}
	b2 := newLab(three())
	again, _, err := run(t, b2, budgeted(b2, 8192, 1), Known{Points: res.Points, Engines: res.Engines})
	if err != nil || len(b2.measured) > 0 || len(again.Batched.Samples) != len(points) {
		t.Errorf("resumed: %v, %d loads, %+v", err, len(b2.measured), again.Batched)
	}
}

// Where the shortest prompts are no faster together than one at a time, longer ones
// are not batched.
func TestBatchedPrefillEndsWhereItGainsNothing(t *testing.T) {
	l := affine(1)
	l.ttft = func(isl int) time.Duration { return time.Duration(isl) * 25 * time.Microsecond }
	b := newLab(map[string]law{"TP:1": l})
	res, _, err := run(t, b, budgeted(b, 8192, 1), Known{})
	if err != nil {
		t.Fatal(err)
	}
	if got := res.Batched.Samples; len(got) != 1 || got[0].ISL != res.PrefillSurface.Samples[0].ISL {
		t.Errorf("batched %+v, want the shortest alone", got)
	}
}

// A prompt that fills half a step or more is not batched, nor is anything on an
// engine whose replicas take one sequence each, nor in upstream's plan.
func TestWhatIsNotBatched(t *testing.T) {
	c := engine.Config{Kind: engine.KindVLLM, Parallelism: engine.TP(1), Limits: engine.Limits{MaxNumBatchedTokens: 2000}}
	spread := c
	spread.Parallelism = engine.Parallelism{TP: 1, DP: 4}
	for _, tc := range []struct {
		o    Options
		c    engine.Config
		f    profile.EngineFacts
		isl  int
		want int
	}{
		{Options{}, c, profile.EngineFacts{}, 1001, 1},
		{Options{}, c, profile.EngineFacts{}, 1000, 2},
		{Options{}, c, profile.EngineFacts{}, 100, 20},
		{Options{MaxInFlight: 7}, c, profile.EngineFacts{}, 100, 7},
		{Options{}, c, profile.EngineFacts{MaxNumSeqs: 8}, 100, 8},
		{Options{}, c, profile.EngineFacts{KVTokens: 1000, BlockSize: 1}, 99, 10},
		{Options{Search: Grid}, c, profile.EngineFacts{}, 100, 0},
		{Options{}, spread, profile.EngineFacts{}, 100, 0},
		{Options{}, engine.Config{Kind: engine.KindVLLM}, profile.EngineFacts{}, 100, 81},
		{Options{}, engine.Config{Kind: engine.KindLlamaCpp}, profile.EngineFacts{}, 100, 20},
		{Options{GPUMemory: 180 << 30}, engine.Config{Kind: engine.KindVLLM}, profile.EngineFacts{}, 100, 163},
		{Options{GPUMemory: 180 << 30}, engine.Config{Kind: engine.KindVLLM}, profile.EngineFacts{Version: "0.27.1"}, 100, 81},
	} {
		if got := tc.o.together(tc.c, tc.f, tc.isl); got != tc.want {
			t.Errorf("%+v %+v at ISL %d: %d at once, want %d", tc.c, tc.f, tc.isl, got, tc.want)
		}
	}
}

func TestBatchedISLs(t *testing.T) {
	o := Options{ISL: 500}
	c := engine.Config{Limits: engine.Limits{MaxNumBatchedTokens: 4000}}
	got := o.batchedISLs(c, profile.EngineFacts{}, []int{100, 150, 210, 500, 600, 1100, 1600, 2000, 3000})
	if want := []int{100, 500, 1600}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A batch with failures or without any rate is a point but no sample.
func TestBatchedPrefillInDoubt(t *testing.T) {
	cfg := engine.Config{Parallelism: engine.TP(1)}
	var rs []profile.Request
	for i := range 3 * batchRounds {
		rs = append(rs, profile.Request{Index: i, ISL: 9, OSL: 1, Sent: ms, First: 2 * ms, Last: 2 * ms, End: 2 * ms, OutputTokens: 1})
	}
	if p := summarizeBatched(Measurement{Requests: rs}, cfg, 3); p.ThroughputPerGPU != 0 {
		t.Errorf("all at once: %+v", p)
	}
	rs[4].Failure = profile.FailStatus
	p := summarizeBatched(Measurement{Requests: rs}, cfg, 3)
	if p.Failures != 1 || p.ThroughputPerGPU != 0 || len(batchedPrefillOf([]profile.Point{p}, cfg, 0).Samples) != 0 {
		t.Errorf("with a failure: %+v", p)
	}
}
