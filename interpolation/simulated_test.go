package interpolation

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/latency"
	"plimsoll/profile"
)

// truth is an engine whose times are known, in ns.
type truth struct {
	ttft func(isl float64) float64
	itl  func(n, context float64) float64
	kv   int
	seqs float64
}

// modelled is the latency model's engine, which is not of this package's form: it
// has a knee for each kind of layer, chunks of prompts, and experts counted one by one.
func modelled(t testing.TB, model, gpu string, tp, chunk, seqs int) truth {
	t.Helper()
	cat, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	m, err := cat.Model(model)
	if err != nil {
		t.Fatal(err)
	}
	g, err := cat.GPU(gpu)
	if err != nil {
		t.Fatal(err)
	}
	// Round coefficients: a refit of the shipped ones changes no fixture.
	l, err := latency.NewWith(m, g, engine.Config{Parallelism: engine.TP(tp)}, latency.Fit{Name: "round", Coefficients: latency.Physical()})
	if err != nil {
		t.Fatal(err)
	}
	return truth{
		ttft: func(isl float64) float64 { return float64(l.TTFT(int(isl), chunk)) },
		itl:  func(n, c float64) float64 { return float64(l.ITL(int(math.Round(n)), c)) },
		kv:   l.KVTokens(), seqs: float64(seqs),
	}
}

// bowed obeys no law of this package: powers that are neither 1 nor 2.
func bowed() truth {
	return truth{
		ttft: func(x float64) float64 { return 12e6 + 9e3*math.Pow(x, 1.06) + 4e5*math.Sqrt(x) },
		itl:  func(n, c float64) float64 { return 5e6 + 2e5*math.Pow(n, 0.8) + 60*math.Pow(n*c, 0.97) },
		kv:   500_000, seqs: 1024,
	}
}

// flaw is what measuring does to a truth.
type flaw struct {
	seed  uint64
	noise float64 // relative standard deviation
	wild  int     // index of a sample that is three times as slow; −1 = none
}

func (f flaw) of(y []float64) []time.Duration {
	r := rand.New(rand.NewPCG(f.seed, 7))
	var d []time.Duration
	for i, v := range y {
		v *= math.Exp(f.noise * r.NormFloat64())
		if i == f.wild {
			v *= 3
		}
		d = append(d, time.Duration(math.Round(v)))
	}
	return d
}

// prompts measures TTFT as upstream's plan does, at equal distances from 100.
func (e truth) prompts(points int, f flaw) (s profile.PrefillSurface, want []float64) {
	var isl []int
	for i := range points {
		isl = append(isl, 100+i*16_000/(points-1))
		want = append(want, e.ttft(float64(isl[i])))
	}
	for i, d := range f.of(want) {
		s.Samples = append(s.Samples, profile.PrefillSample{ISL: isl[i], TTFT: d, ThroughputPerGPU: float64(isl[i]) / d.Seconds()})
	}
	return s, want
}

// loads measures ITL as upstream's plan does: at each context from one request to
// what the cache, or the limit on sequences, holds.
func (e truth) loads(contexts []float64, points int, f flaw) (s profile.DecodeSurface, want []float64) {
	s.MaxKVTokens = e.kv
	var n, context []float64
	for _, c := range contexts {
		top := math.Floor(min(e.seqs, float64(e.kv)/c))
		for i := range points {
			load := math.Round(1 + (top-1)*float64(i)/float64(points-1))
			n, context, want = append(n, load), append(context, c), append(want, e.itl(load, c))
		}
	}
	for i, d := range f.of(want) {
		s.Samples = append(s.Samples, profile.DecodeSample{
			KVUsage: n[i] * context[i] / float64(e.kv), Context: context[i], ITL: d, ThroughputPerGPU: n[i] / d.Seconds(),
		})
	}
	return s, want
}

// prefillSet and decodeSet are surfaces with what their samples are in truth.
type prefillSet struct {
	name    string
	surface profile.PrefillSurface
	truth   []float64
}

type decodeSet struct {
	name    string
	surface profile.DecodeSurface
	truth   []float64
}

var (
	clean = flaw{wild: -1}
	noisy = flaw{seed: 1, noise: 0.03, wild: -1}
	spike = flaw{seed: 2, noise: 0.03, wild: 9}
)

var sixContexts = []float64{350, 2997, 5644, 8291, 10938, 13585}

func simulated(t testing.TB) (p []prefillSet, d []decodeSet) {
	t.Helper()
	engines := []struct {
		name string
		e    truth
	}{
		{"dense 8B", modelled(t, "Llama-3.1-8B", "H100-SXM", 1, 0, 1024)},
		{"dense 70B, sequence limit", modelled(t, "Llama-3.1-70B", "H200-SXM", 4, 8192, 128)},
		{"experts 30B-A3B", modelled(t, "Qwen3-30B-A3B", "H100-SXM", 1, 0, 1024)},
		{"chunks of 2048", modelled(t, "Llama-3.1-8B", "H100-SXM", 1, 2048, 256)},
		{"bowed", bowed()},
	}
	flaws := []struct {
		name string
		f    flaw
	}{{"clean", clean}, {"3 % noise", noisy}, {"3 % noise, one ×3", spike}}
	for _, e := range engines {
		for _, f := range flaws {
			name := e.name + ", " + f.name
			s, want := e.e.prompts(17, f.f)
			p = append(p, prefillSet{name, s, want})
			g, known := e.e.loads(sixContexts, 7, f.f)
			d = append(d, decodeSet{name, g, known})
		}
	}
	few, want := engines[0].e.prompts(3, noisy)
	p = append(p, prefillSet{"three points, 3 % noise", few, want})
	row, known := engines[0].e.loads([]float64{3000}, 7, noisy)
	d = append(d, decodeSet{"one context, 3 % noise", row, known})
	return p, d
}
