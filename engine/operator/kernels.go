package operator

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"

	"plimsoll/engine/catalog"
)

// Kernels are the operators of one engine on one kind of GPU.
type Kernels struct {
	gpu    catalog.GPU
	engine string
	near   []catalog.GPU // with tables: first the GPU itself, where it has some, then the most alike
}

// Of is the kernels of an engine ("vllm", "trtllm", "sglang") on GPUs g. What has no
// table of these is that of the GPU that is nearest by data sheet, scaled.
func Of(g catalog.GPU, engine string) Kernels {
	near := slices.Clone(tabulated())
	slices.SortStableFunc(near, func(a, b catalog.GPU) int { return cmp.Compare(far(g, a), far(g, b)) })
	return Kernels{gpu: g, engine: engine, near: near}
}

// Without is the kernels where the GPU's own tables are left out: those that it would have
// if it were a GPU without tables.
func (k Kernels) Without() Kernels {
	k.near = slices.DeleteFunc(slices.Clone(k.near), func(g catalog.GPU) bool { return g.Name == k.gpu.Name })
	return k
}

// Measured reports whether there are tables of a GPU, by its catalog name.
func Measured(gpu string) bool {
	return slices.ContainsFunc(tabulated(), func(g catalog.GPU) bool { return g.Name == gpu })
}

// Own reports whether there are tables of the GPU itself.
func (k Kernels) Own() bool { return k.Like() == k.gpu.Name }

// Like is the GPU that the tables are of.
func (k Kernels) Like() string { return k.near[0].Name }

// InterNode is the network's speed between servers, bytes/s.
func (k Kernels) InterNode() float64 { return k.gpu.InterNodeBytesPerSec }

// Linked is how many GPUs exchange bytes without it.
func (k Kernels) Linked() int { return k.gpu.Linked() }

// peak is the dense peak for that type, FLOP/s.
func peak(g catalog.GPU, d DType) float64 {
	switch {
	case d == NVFP4 && g.FP4FLOPS > 0:
		return g.FP4FLOPS
	case (d == FP8 || d == FP8Block || d == MXFP4MXFP8 || d == NVFP4) && g.FP8FLOPS > 0:
		return g.FP8FLOPS
	default:
		return g.BF16FLOPS
	}
}

// tabulated are the catalog's GPUs that have tables.
var tabulated = sync.OnceValue(func() []catalog.GPU {
	c, err := catalog.Default()
	if err != nil {
		panic(fmt.Sprintf("operator: the built-in catalog: %v", err))
	}
	return slices.DeleteFunc(c.GPUs(), func(g catalog.GPU) bool {
		return !slices.ContainsFunc(Curves(), func(c Curve) bool { return c.GPU == g.Name })
	})
})

// far is how unlike two GPUs are: the logarithms of bandwidth, peak and link; 0 for
// the same.
func far(g, o catalog.GPU) float64 {
	if o.Name == g.Name {
		return 0
	}
	sum := 0.01
	for _, r := range []float64{g.HBMBytesPerSec / o.HBMBytesPerSec, g.BF16FLOPS / o.BF16FLOPS, math.Sqrt(g.LinkBytesPerSec / o.LinkBytesPerSec)} {
		sum += math.Log(r) * math.Log(r)
	}
	if (g.FP8FLOPS > 0) != (o.FP8FLOPS > 0) {
		sum += 4
	}
	return sum
}

// instead are the types whose kernels stand in, best first, for those that a GPU has
// no table of: the same weights read, and the products of the other type.
var instead = map[DType][]DType{
	FP8Block:   {FP8Block, FP8, Int8, BF16},
	FP8:        {FP8, FP8Block, Int8, BF16},
	NVFP4:      {NVFP4, MXFP4MXFP8, Int4, MXFP4, FP8, FP8Block, BF16},
	MXFP4:      {MXFP4, MXFP4MXFP8, Int4, FP8Block, BF16},
	MXFP4MXFP8: {MXFP4MXFP8, MXFP4, NVFP4, Int4, FP8Block, BF16},
	Int8:       {Int8, FP8, BF16},
	Int4:       {Int4, MXFP4, BF16},
	BF16:       {BF16},
}

// engines is the order in which another engine's curve stands in for one that is
// missing: SGLang's FP8 attention of compressed entries is slow on Hopper.
var engines = []string{"", "vllm", "trtllm", "sglang"}

// find is the curve of a kind and type, and the GPU that it is of: the nearest GPU that
// has the kind, there the nearest type, and of that the engine's own.
func (k Kernels) find(kind Kind, d DType) (Curve, catalog.GPU) {
	for _, g := range k.near {
		for _, as := range append(slices.Clone(instead[d]), "") {
			var best Curve
			rank := len(engines) + 1
			for _, c := range Curves() {
				if c.Kind != kind || c.GPU != g.Name || c.DType != as {
					continue
				}
				r := slices.Index(engines, c.Engine) + 1
				if c.Engine == k.engine {
					r = 0
				}
				if r < rank {
					best, rank = c, r
				}
			}
			if best.Kind != "" {
				return best, g
			}
		}
	}
	panic(fmt.Sprintf("operator: no curve of %s", kind)) // each kind has one, as a test says
}

// parameters are a curve's on this GPU: those at memory, compute and link times faster
// by data sheet, those at the negative numbers shorter.
func (k Kernels) parameters(kind Kind, d DType, memory, compute, link []int) []float64 {
	c, g := k.find(kind, d)
	p := slices.Clone(c.Parameters)
	for _, s := range []struct {
		at []int
		by float64
	}{{memory, k.gpu.HBMBytesPerSec / g.HBMBytesPerSec}, {compute, peak(k.gpu, c.DType) / peak(g, c.DType)}, {link, k.gpu.LinkBytesPerSec / g.LinkBytesPerSec}} {
		for _, i := range s.at {
			if i < 0 {
				p[-i] /= s.by
			} else {
				p[i] *= s.by
			}
		}
	}
	return p
}

// Product is the time of a matrix product, µs.
func (k Kernels) Product(d DType) func(Product) float64 {
	p := k.parameters(KindMatMul, d, []int{mmWeights, mmTokens}, []int{-mmSerial}, nil)
	return func(x Product) float64 { return productTime(p, d, x) }
}

// Experts is the time of routed experts, µs.
func (k Kernels) Experts(d DType) func(Experts) float64 {
	p := k.parameters(KindExperts, d, []int{exWeights, exRouted, -exToken}, []int{exCompute}, nil)
	return func(x Experts) float64 { return expertsTime(p, d, x) }
}

// Decode is the time of attention in decode: heads, sequences, context; the KV cache
// is of type d.
func (k Kernels) Decode(d DType) func(h Heads, seqs, context float64) float64 {
	p := k.parameters(KindDecode, d, []int{daRead, -daSerial, -daQuery}, []int{daCompute}, nil)
	return func(h Heads, seqs, context float64) float64 { return decodeTime(p, h, d.Bytes(), seqs, context) }
}

// MLADecode is the same of compressed attention.
func (k Kernels) MLADecode(d DType) func(heads, seqs, context float64) float64 {
	p := k.parameters(KindMLADecode, d, []int{daRead, -daSerial, -daQuery}, []int{daCompute}, nil)
	return func(heads, seqs, context float64) float64 {
		return mlaDecodeTime(p, heads, d.Bytes(), seqs, context)
	}
}

// Prefill is the curve of prompts' attention.
func (k Kernels) Prefill(d DType) PrefillCurve {
	return PrefillCurve{k.parameters(KindPrefill, d, []int{-paToken}, []int{paCompute, -paSerial}, nil)}
}

// MLAPrefill is the same of compressed attention.
func (k Kernels) MLAPrefill(d DType) PrefillCurve {
	return PrefillCurve{k.parameters(KindMLAPrefill, d, []int{-paToken}, []int{paCompute, -paSerial}, nil)}
}

// PrefillCurve is prompts' attention on one GPU.
type PrefillCurve struct{ p []float64 }

// Time of prompts, µs.
func (c PrefillCurve) Time(h Heads, x Prompts) float64 { return prefillTime(c.p, h, x) }

// MLATime is the same with heads of compressed attention.
func (c PrefillCurve) MLATime(heads float64, x Prompts) float64 { return mlaPrefillTime(c.p, heads, x) }

// Collective is the time of one over n GPUs of a server with a message of so many
// bytes, µs.
func (k Kernels) Collective(kind Kind) func(bytes, n float64) float64 {
	p := k.parameters(kind, "", nil, nil, []int{coShot, coShot + 1, coShot + 2, coBandwidth})
	return func(bytes, n float64) float64 { return collectiveTime(p, bytes, n) }
}
