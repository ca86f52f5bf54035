package profile_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

// A stream over some hundred steps tells how the means of requests vary: the p99 that
// is worked out from the steps is that of the means themselves, over thousands of requests
// one after the other; its interval holds it in 85 of 100.
func TestRequestMeansFromSteps(t *testing.T) {
	const osl, runs = 51, 400
	for name, tt := range map[string]struct{ phi, sigma float64 }{
		"steps by themselves":          {0, 0.3},
		"slow steps follow slow ones":  {0.5, 0.1},
		"much is left over many steps": {0.7, 0.05},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var means []time.Duration // the oracle: of requests, each measured alone
			for i := range uint64(4000) {
				means = append(means, burst(t, newHum(tt.phi, tt.sigma, 1e6+i), 0, 1, 1, osl).TPOT.Mean)
			}
			slices.Sort(means)
			truth := float64(means[len(means)*99/100])
			sla := profile.SLA{Stat: profile.P99}
			given, held, off := 0, 0, 0.0
			for i := range uint64(runs) {
				s := burst(t, newHum(tt.phi, tt.sigma, i), 0, i+1, 1, 401)
				p := profile.Point{Phase: profile.Decode, OSL: osl, Requests: 1, InFlight: 1, TokensPerChunk: 1, ITL: s.ITL, TPOT: s.TPOT}
				if p.Undecided(sla) {
					continue // steps that hang together so long that they are few
				}
				given++
				in := p.LatencyInterval(sla)
				if in.Low <= truth && truth <= in.High {
					held++
				}
				off += float64(p.Latency(sla)) / truth
			}
			off /= float64(given)
			if given < runs*9/10 || held < given*85/100 || off < 0.985 || off > 1.015 {
				t.Errorf("%d of %d intervals hold the p99 of %v, the mean of what is worked out is %.4f of it", held, given, time.Duration(truth), off)
			}
		})
	}
	few := profile.Point{Phase: profile.Decode, OSL: osl, InFlight: 4, ITL: profile.Distribution{N: 16, Mean: 10, Std: 1, Neff: 4}, TPOT: profile.Distribution{N: 4, Mean: 10, Neff: 500}}
	if sla := (profile.SLA{Stat: profile.P99, ITL: time.Second}); !few.Undecided(sla) || few.Meets(sla) {
		t.Error("four steps are taken for enough")
	} else if have, need := few.Samples(sla), sla.Needed(profile.Decode); have != 4 || need != 20 {
		t.Errorf("%g samples of %d, want 4 of 20", have, need)
	}
}

// Ranks of attention replicas step by themselves: requests vary by one rank's steps, where
// the mean over all of them hides what each does.
func TestRequestMeansOfSeveralRanks(t *testing.T) {
	p := profile.Point{
		Phase: profile.Decode, OSL: 101, Requests: 8, InFlight: 8, TokensPerChunk: 1,
		ITL:  profile.Distribution{N: 3200, Mean: 10 * time.Millisecond, Std: 2 * time.Millisecond, Neff: 300},
		TPOT: profile.Distribution{N: 8, Mean: 10 * time.Millisecond},
	}
	sla := profile.SLA{Stat: profile.P99}
	one := p.Latency(sla) - p.TPOT.Mean
	p.Config.Parallelism = engine.Parallelism{TP: 1, DP: 4, EP: 4}
	if four := p.Latency(sla) - p.TPOT.Mean; one <= 0 || four < 2*one-time.Microsecond || four > 2*one+time.Microsecond {
		t.Errorf("%v above the mean with one rank, %v with four: want twice", one, four)
	}
}

// A percentile of requests is what it is, however many streams share the steps: it does
// not become the mean where streams are as many as samples that the percentile takes.
func TestRequestMeansOfManyStreams(t *testing.T) {
	const osl, runs = 151, 20
	var means []time.Duration // the oracle: of requests, each measured alone
	for i := range uint64(3000) {
		means = append(means, burst(t, newHum(0, 0.3, 1e6+i), 0, 1, 1, osl).TPOT.Mean)
	}
	slices.Sort(means)
	truth := func(q float64) float64 {
		return float64(means[int(float64(len(means))*q)]) / float64(means[len(means)/2])
	}
	for _, tt := range []struct {
		stat profile.Statistic
		n    []int // below the number of streams that would be samples enough, and from it on
	}{{profile.P90, []int{30, 40}}, {profile.P95, []int{65, 80}}, {profile.P99, []int{350, 380}}} {
		for _, n := range tt.n {
			got := 0.0
			for i := range uint64(runs) {
				s := burst(t, newHum(0, 0.3, i), 0, i+1, n, osl)
				p := profile.Point{Phase: profile.Decode, OSL: osl, Requests: n, InFlight: float64(n), TokensPerChunk: 1, ITL: s.ITL, TPOT: s.TPOT}
				got += float64(p.Latency(profile.SLA{Stat: tt.stat})) / float64(s.TPOT.Mean) / runs
			}
			if want := truth(tt.stat.Quantile()); got < 1+0.85*(want-1) || got > 1+1.15*(want-1) {
				t.Errorf("%s of %d in flight: %.4f of the mean, want %.4f", tt.stat, n, got, want)
			}
		}
	}
}

// What differs between streams beside their steps is added, whether they share all of
// them or none: the p95 that is worked out is that of requests with both.
func TestRequestMeansOfStreamsThatDiffer(t *testing.T) {
	const osl, n, runs, mean = 151, 200, 40, 10e6
	sla := profile.SLA{Stat: profile.P95}
	for _, share := range []bool{true, false} {
		for _, own := range []float64{0, 0.03, 0.1} { // deviation of the tokens that a stream gets of a step
			got := 0.0
			for run := range uint64(runs) {
				rng := rand.New(rand.NewPCG(run, 3))
				steps := make([]float64, n*osl)
				for i := range steps {
					steps[i] = mean * (1 + 0.3*rng.NormFloat64())
				}
				var rs []profile.Request
				at := 0.0
				for i := range n {
					tokens := math.Round(osl / (1 + own*rng.NormFloat64()))
					r := profile.Request{Index: i, ISL: 10, OSL: osl, OutputTokens: int(tokens), PromptTokens: 10, UsageSeen: true}
					from := i * (osl - 1)
					if share {
						at, from = 0, 0
					}
					for k := range osl {
						if r.Chunks = append(r.Chunks, profile.Chunk{At: time.Duration(1e6 + at)}); k < osl-1 {
							at += steps[from+k]
						}
					}
					r.Sent, r.First, r.Last = r.Chunks[0].At-1, r.Chunks[0].At, r.Chunks[osl-1].At
					r.Due, r.End = r.Sent, r.Last
					rs = append(rs, r)
				}
				s := profile.Summarize(rs, profile.Whole(rs))
				p := profile.Point{Phase: profile.Decode, OSL: osl, Requests: n, InFlight: s.InFlight, TokensPerChunk: 1, ITL: s.ITL, TPOT: s.TPOT}
				got += (float64(p.Latency(sla))/float64(s.TPOT.Mean) - 1) / runs
			}
			if want := 1.645 * math.Hypot(0.3/math.Sqrt(osl-1), own); got < 0.9*want || got > 1.1*want {
				t.Errorf("all steps shared: %v, streams differ by %g: p95 %.4f above the mean, want %.4f", share, own, got, want)
			}
		}
	}
}
