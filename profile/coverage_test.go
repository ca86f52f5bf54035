package profile_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/engine/virtual"
	"plimsoll/profile"
)

// hum is an engine whose steps take 10 ms and 1 µs for each 100 tokens in its
// KV cache, with noise in which a slow step is followed by a slow one:
// e(k) = φ·e(k−1) + √(1−φ²)·z, of standard deviation sigma.
type hum struct {
	phi, sigma float64
	rng        *rand.Rand
	e          *float64
}

func newHum(phi, sigma float64, seed uint64) hum {
	rng := rand.New(rand.NewPCG(seed, 7))
	e := rng.NormFloat64()
	return hum{phi, sigma, rng, &e}
}

func (h hum) StepTime(b engine.Batch) engine.Picoseconds {
	d := 10e-3 + float64(b.DecodeContext)*1e-8
	if h.sigma > 0 {
		*h.e = h.phi**h.e + math.Sqrt(1-h.phi*h.phi)*h.rng.NormFloat64()
		d *= 1 + h.sigma**h.e
	}
	return engine.Picoseconds(d * float64(engine.Second))
}

// burst is what a client sees of n streams of osl tokens that begin at once.
func burst(t *testing.T, timer sim.StepTimer, noise float64, seed uint64, n, osl int) profile.Summary {
	t.Helper()
	c := sim.Config{KVBlocks: 1 << 16, Noise: noise, Seed: seed, Limits: engine.Limits{MaxNumSeqs: n, MaxNumBatchedTokens: 1 << 16}}
	e, err := virtual.New(c, timer, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	m, err := e.Measure(t.Context(), profile.Workload{ISL: 100, OSL: osl, Requests: n, InFlight: n})
	if err != nil {
		t.Fatal(err)
	}
	w, ok := profile.Steady(m.Requests)
	if !ok {
		t.Fatal("no steady part")
	}
	return profile.Summarize(m.Requests, w)
}

// Of 1500 noisy runs, 93 to 97 in 100 hold the truth in the 95 % interval of
// their mean ITL: the mean of the same run without noise, whose contexts grow
// alike. By gaps, as if 8 streams were 8 samples, it would be half of them.
func TestIntervalOfMeanCoversTheTruth(t *testing.T) {
	const runs = 1500
	for _, tt := range []struct {
		name       string
		phi, sigma float64 // of hum
		noise      float64 // of the simulator
		n, osl     int
	}{
		{"the simulator's noise, 100 steps", 0, 0, 0.1, 8, 101},
		{"the simulator's noise, 400 steps", 0, 0, 0.3, 4, 401},
		{"slow steps follow slow ones a little", 0.3, 0.1, 0, 8, 151},
		{"half of it is left a step later", 0.5, 0.1, 0, 8, 201},
		{"much is left, over many steps", 0.7, 0.05, 0, 4, 501},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			truth := burst(t, newHum(0, 0, 0), 0, 1, tt.n, tt.osl).ITL.Mean
			held, naive, neff := 0, 0, 0.0
			for i := range uint64(runs) {
				s := burst(t, newHum(tt.phi, tt.sigma, i), tt.noise, i+1, tt.n, tt.osl)
				off := (s.ITL.Mean - truth).Abs()
				if off <= s.ITL.Half {
					held++
				}
				if float64(off) <= 1.96*float64(s.ITL.Std)/math.Sqrt(float64(s.ITL.N)) {
					naive++
				}
				neff += s.ITL.Neff / runs
			}
			share := 100 * float64(held) / runs
			t.Logf("%.1f %% hold the truth (%.1f %% by gaps); %d steps are worth %.0f samples", share, 100*float64(naive)/runs, tt.osl-1, neff)
			if share < 93 || share > 97 {
				t.Errorf("%.1f %% of %d intervals hold the truth, want 93 to 97", share, runs)
			}
			if naive > held*9/10 {
				t.Errorf("by gaps %d of %d hold it: this tells nothing apart", naive, runs)
			}
		})
	}
}

// A percentile's interval, where it is given, holds the truth at least as often
// as it says, and is not given from fewer steps than it takes.
func TestIntervalOfPercentileCoversTheTruth(t *testing.T) {
	const runs = 1000
	for _, tt := range []struct {
		stat profile.Statistic
		osl  int
	}{{profile.P50, 101}, {profile.P90, 151}, {profile.P95, 201}, {profile.P99, 601}} {
		t.Run(string(tt.stat), func(t *testing.T) {
			t.Parallel()
			z := map[profile.Statistic]float64{profile.P50: 0, profile.P90: 1.2815515655446004, profile.P95: 1.6448536269514722, profile.P99: 2.3263478740408408}[tt.stat] // scipy.stats.norm.ppf
			given, held := 0, 0
			for i := range uint64(runs) {
				s := burst(t, flat{}, 0.2, i+1, 3, tt.osl)
				in := s.ITL.Interval(tt.stat)
				if in == (profile.Interval{}) {
					continue
				}
				given++
				// lognormal of mean 1: exp(σz − σ²/2)
				if truth := 10e6 * math.Exp(0.2*z-0.02); in.Low <= truth && truth <= in.High {
					held++
				}
			}
			share := 100 * float64(held) / float64(max(given, 1))
			t.Logf("given in %d of %d runs, and %.1f %% of those hold the truth", given, runs, share)
			if given < runs*95/100 || share < 93.5 {
				t.Errorf("given in %d of %d, %.1f %% hold the truth", given, runs, share)
			}
		})
	}
}

// flat is an engine whose steps take 10 ms.
type flat struct{}

func (flat) StepTime(engine.Batch) engine.Picoseconds { return 10 * engine.Millisecond }

// 500 streams of 100 steps are 100 samples.
func TestStreamsShareSteps(t *testing.T) {
	s := burst(t, flat{}, 0.1, 3, 500, 101)
	if s.ITL.N != 50_000 || s.Steps != 100 || s.ITL.Neff < 60 || s.ITL.Neff > 100 {
		t.Errorf("%d gaps of %d steps are worth %.0f samples", s.ITL.N, s.Steps, s.ITL.Neff)
	}
	p := profile.Point{Phase: profile.Decode, Requests: 500, ITL: s.ITL, TPOT: s.TPOT}
	sla := profile.SLA{ITL: time.Second, Stat: profile.Mean}
	if l, i := float64(p.Latency(sla)), p.LatencyInterval(sla); !p.Meets(sla) || i.Low > l || i.High < l || i.Low == i.High {
		t.Errorf("mean %v in %v", p.Latency(sla), i)
	}
}
