package operator

import (
	"math"
	"slices"
	"testing"

	"plimsoll/engine/catalog"
)

var kinds = []Kind{KindMatMul, KindPrefill, KindDecode, KindMLAPrefill, KindMLADecode, KindExperts, KindAllReduce, KindAllGather, KindScatter, KindAllToAll}

// grow are shapes of a kind, each with more work than the one before it.
func grow(k Kind) (time func(p []float64, d DType, x []float64) float64, shapes [][]float64) {
	for i := range 15 {
		n := math.Exp2(float64(i))
		var x []float64
		switch k {
		case KindMatMul:
			time, x = ProductX, []float64{n, 28672, 8192}
		case KindPrefill:
			time, x = PrefillX, []float64{64, 8, 128, 0, 1, n, n * n / 2}
		case KindDecode:
			time, x = DecodeX, []float64{32, 8, 128, 0, 64, n}
		case KindMLAPrefill:
			time, x = MLAPrefillX, []float64{128, 1, n, n * n / 2}
		case KindMLADecode:
			time, x = MLADecodeX, []float64{128, 64, n}
		case KindExperts:
			time, x = ExpertsX, []float64{n, 7168, 2048, 8, 256, 8}
		default:
			time, x = CollectiveX, []float64{16 * n * n, 4}
		}
		shapes = append(shapes, x)
	}
	return time, shapes
}

// Every curve gives a time for every shape, from a launch to seconds, and hardly less for
// more work.
func TestCurvesAreTimes(t *testing.T) {
	for _, c := range Curves() {
		time, shapes := grow(c.Kind)
		before := 0.0
		for _, x := range shapes {
			us := time(c.Parameters, c.DType, x)
			if !(us > 0.5 && us < 60e6) || us < 0.9*before {
				t.Errorf("%s %s %s %s: %v takes %g µs, less of it %g", c.Kind, c.GPU, c.Engine, c.DType, x, us, before)
			}
			before = us
		}
		if !(c.Median > 0 && c.P90 >= c.Median && c.P90 < 5 && c.N > 5) || c.Version == "" {
			t.Errorf("%s %s %s: error %g, %g on %d shapes of %q", c.Kind, c.GPU, c.DType, c.Median, c.P90, c.N, c.Version)
		}
	}
}

// Every kind of GPU in the catalog has every operator, of its own or scaled.
func TestKernelsOfEveryGPU(t *testing.T) {
	cat, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range cat.GPUs() {
		for _, engine := range []string{"vllm", "trtllm", "sglang"} {
			k := Of(g, engine)
			for _, kind := range kinds {
				for _, d := range []DType{BF16, FP8, FP8Block, NVFP4, MXFP4, MXFP4MXFP8} {
					if c, _ := k.find(kind, d); c.Kind != kind {
						t.Errorf("%s %s: no %s in %s", g.Name, engine, kind, d)
					}
				}
			}
			if k.Own() != Measured(g.Name) || k.Own() == (k.Without().Like() == k.Like()) {
				t.Errorf("%s: own %v, like %s, without %s", g.Name, k.Own(), k.Like(), k.Without().Like())
			}
		}
	}
}

// Half the bandwidth and half the peak take twice as long, but for the launch.
func TestScalingByDataSheet(t *testing.T) {
	cat, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	g, err := cat.GPU("H100-SXM")
	if err != nil {
		t.Fatal(err)
	}
	half := g
	half.Name, half.HBMBytesPerSec, half.BF16FLOPS, half.FP8FLOPS = "half", g.HBMBytesPerSec/2, g.BF16FLOPS/2, g.FP8FLOPS/2
	full, slow := Of(g, "vllm"), Of(half, "vllm")
	slow.near = full.near
	x := Product{M: 4096, N: 28672, K: 8192}
	if a, b := full.Product(BF16)(x), slow.Product(BF16)(x); math.Abs(b/a-2) > 0.02 {
		t.Errorf("a product takes %g and %g µs", a, b)
	}
	h := Heads{Query: 32, KV: 8, Dim: 128}
	if a, b := full.Decode(BF16)(h, 256, 8000), slow.Decode(BF16)(h, 256, 8000); math.Abs(b/a-2) > 0.05 {
		t.Errorf("decode attention takes %g and %g µs", a, b)
	}
	p := Prompts{Seqs: 1, Tokens: 8192, Pairs: 8192 * 8192 / 2}
	if a, b := full.Prefill(BF16).Time(h, p), slow.Prefill(BF16).Time(h, p); math.Abs(b/a-2) > 0.1 {
		t.Errorf("prompt attention takes %g and %g µs", a, b)
	}
}

// An engine's own kernel comes before another's, and a GPU's own before a nearer type's.
func TestFindTakesTheOwn(t *testing.T) {
	cat, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	g, err := cat.GPU("B200-SXM")
	if err != nil {
		t.Fatal(err)
	}
	for _, engine := range []string{"vllm", "trtllm", "sglang"} {
		own := slices.ContainsFunc(Curves(), func(c Curve) bool {
			return c.Kind == KindExperts && c.GPU == g.Name && c.Engine == engine && c.DType == FP8Block
		})
		c, on := Of(g, engine).find(KindExperts, FP8Block)
		if own && c.Engine != engine || on.Name != g.Name {
			t.Errorf("%s takes the experts of %s on %s", engine, c.Engine, on.Name)
		}
	}
}

// The p-norm of two times has no overflow, and is the longer one where the norm is high.
func TestEither(t *testing.T) {
	for _, tt := range []struct{ a, b, p, want float64 }{{3, 4, 2, 5}, {4, 3, 2, 5}, {1, 1e9, 70, 1e9}, {0, 0, 3, 0}, {0, 2, 3, 2}} {
		if got := either(tt.a, tt.b, tt.p); math.Abs(got-tt.want) > 1e-9*tt.want {
			t.Errorf("%g and %g by %g: %g, want %g", tt.a, tt.b, tt.p, got, tt.want)
		}
	}
}
