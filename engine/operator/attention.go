package operator

import "math"

// Heads are the attention heads of one layer on one GPU.
type Heads struct {
	Query, KV, Dim float64
	Window         float64 // tokens; 0 = none
}

// The parameters of decode attention's curves.
const (
	daLaunch   = iota // µs
	daSplit           // µs more where the context is split, from about 512 tokens on
	daQuery           // µs per sequence, head and dimension
	daRead            // KV cache read, bytes/µs
	daCompute         // FLOP/µs
	daOverlap         // how well both overlap
	daSerial          // µs per token and dimension where a head is one block's work
	daSerialTo        // tokens of context from where a head is split
	daFill            // sequences × KV heads that fill the GPU
	daWindow          // tokens read beyond a window
	daParameters
)

// splitFrom is the context from which kernels split it, tokens.
const splitFrom = 511

// decodeTime is that of seqs sequences with context tokens each, each attended to
// by one query per head; KV elements have kv bytes.
func decodeTime(p []float64, h Heads, kv, seqs, context float64) float64 {
	if h.Window > 0 {
		context = math.Min(context, h.Window+p[daWindow])
	}
	return decoding(p, seqs*context*2*h.KV*h.Dim*kv, 4*seqs*context*h.Query*h.Dim, seqs*h.Query*h.Dim, context*h.Dim, context, seqs*h.KV)
}

// Compressed attention (MLA, DeepSeek-V2, arXiv 2405.04434): one entry of 512 + 64
// numbers per token serves all heads; scores take 576 products, values 512.
const (
	mlaWidth   = 576
	mlaRank    = 512
	mlaProduct = mlaWidth + mlaRank
)

// mlaDecodeTime is the same of compressed attention with so many heads.
func mlaDecodeTime(p []float64, heads, kv, seqs, context float64) float64 {
	return decoding(p, seqs*context*mlaWidth*kv, 2*seqs*context*heads*mlaProduct, seqs*heads*mlaRank, context, context, seqs)
}

func decoding(p []float64, bytes, flops, queries, run, context, blocks float64) float64 {
	wide := either(bytes/p[daRead], flops/p[daCompute], p[daOverlap])
	serial := p[daSerial] * run / (1 + context/p[daSerialTo]) * p[daFill] / (p[daFill] + blocks)
	split := p[daSplit] / (1 + math.Pow(splitFrom/math.Max(context, 1), 8))
	return p[daLaunch] + split + p[daQuery]*queries + math.Hypot(wide, serial)
}

// Prompts are chunks of prompts that one step attends for.
type Prompts struct {
	Seqs, Tokens, Pairs float64 // chunks, their tokens, their query-key pairs
}

// The parameters of prefill attention's curves.
const (
	paLaunch  = iota // µs
	paSerial         // µs per token of context
	paToken          // µs per token, head and dimension
	paCompute        // FLOP/µs
	paExtra          // pairs more per token: what is computed above the diagonal
	paWindow         // tokens attended to beyond a window
	paParameters
)

// prefillTime is that of chunks of prompts.
func prefillTime(p []float64, h Heads, x Prompts) float64 {
	if x.Tokens <= 0 {
		return 0
	}
	context := x.Pairs/x.Tokens + x.Tokens/(2*math.Max(x.Seqs, 1))
	if h.Window > 0 {
		x.Pairs = math.Min(x.Pairs, (h.Window+p[paWindow])*x.Tokens)
		context = math.Min(context, h.Window+p[paWindow])
	}
	work := p[paToken]*x.Tokens*(h.Query+2*h.KV)*h.Dim + 4*h.Query*h.Dim*(x.Pairs+p[paExtra]*x.Tokens/2)/p[paCompute]
	return p[paLaunch] + math.Hypot(p[paSerial]*context, work)
}

// mlaPrefillDim is the mean width of queries and values of MLA's prompts: 128 + 64
// and 128.
const mlaPrefillDim = 160

func mlaPrefillTime(p []float64, heads float64, x Prompts) float64 {
	return prefillTime(p, Heads{Query: heads, KV: heads, Dim: mlaPrefillDim}, x)
}
