package engine

import (
	"fmt"
	"slices"
	"strings"
)

// Release is an engine and its version, empty where it is not known: the newest one
// then. The zero Release is that of a Config's own Kind.
type Release struct {
	Kind    Kind   `json:"kind"`
	Version string `json:"version,omitempty"`
}

// firstYear is from where on a version is a year: vLLM of 2023.
const firstYear = 2000

// Number is the version as a number: 0.19.1 is 19,001. A year is no version that others
// are near to, and nor is a word such as nightly.
func (r Release) Number() (n int, known bool) {
	var major, minor, patch int
	parts, _ := fmt.Sscanf(strings.TrimPrefix(r.Version, "v"), "%d.%d.%d", &major, &minor, &patch)
	return 1_000_000*major + 1000*minor + patch, parts > 0 && major < firstYear
}

// Since reports whether the release has a version or a later one; the newest has, and a
// year has not.
func (r Release) Since(version string) bool {
	n, known := r.Number()
	least, _ := Release{Version: version}.Number()
	return known && n >= least || n == 0
}

// Served is the release whose defaults hold for what c leaves open: as it says, else the
// newest of its kind, or of vLLM where the kind stands for others.
func (c Config) Served() Release {
	r := c.Release
	if r.Kind == "" {
		r.Kind = c.Kind
	}
	switch r.Kind {
	case KindSGLang, KindTRTLLM, KindLlamaCpp:
	default:
		r.Kind = KindVLLM
	}
	return r
}

// String is the release as a person says it, the newest by what it begins with: "vLLM 0.19",
// "vLLM ≥ 0.28".
func (r Release) String() string {
	words := map[Kind]string{KindVLLM: "vLLM", KindSGLang: "SGLang", KindTRTLLM: "TensorRT-LLM", KindLlamaCpp: "llama.cpp"}[r.Kind]
	if r.Version != "" {
		return words + " " + r.Version
	}
	for _, d := range defaultRows {
		if d.kind == r.Kind && d.since != "" {
			return words + " ≥ " + d.since
		}
	}
	return words
}

// defaultRow is what engines of a release or later choose on a GPU of so many GiB or more.
type defaultRow struct {
	kind         Kind
	since        string
	gib          int64
	seqs, tokens int // in a step; 0 sequences: as vLLM
}

// defaultRows are read in the released wheels: vLLM 0.10.2 to 0.32.0
// (engine/arg_utils.py, get_batch_defaults, the server's), where an A100 is a small GPU;
// SGLang 0.5.5 to 0.5.23 (server_args.py, later arg_groups/memory_hook.py);
// TensorRT-LLM's max_num_tokens and llama.cpp's n_batch as documented; all November
// 2026. The first row that holds counts.
var defaultRows = []defaultRow{
	{KindVLLM, "0.28", 160, 1024, 16384},
	{KindVLLM, "", 70, 1024, 8192},
	{KindVLLM, "", 0, 256, 2048},
	{KindSGLang, "", 160, 0, 16384},
	{KindSGLang, "", 60, 0, 8192},
	{KindSGLang, "", 35, 0, 4096},
	{KindSGLang, "0.5.20", 20, 0, 4096},
	{KindSGLang, "", 0, 0, 2048},
	{KindTRTLLM, "", 0, 0, 8192},
	{KindLlamaCpp, "", 0, 0, 2048},
}

// Steps are the sequences and tokens that a step of the engine has at most by itself, in
// each of its ranks, on a GPU of so much memory.
func (c Config) Steps(gpu string, memory int64) (seqs, tokens int) {
	r := c.Served()
	find := func(k Kind) (row defaultRow) {
		gib := memory >> 30
		if k == KindVLLM && strings.HasPrefix(gpu, "A100") {
			gib = 0
		}
		i := slices.IndexFunc(defaultRows, func(d defaultRow) bool { return d.kind == k && r.Since(d.since) && gib >= d.gib })
		return defaultRows[i]
	}
	own := find(r.Kind)
	if seqs, tokens = own.seqs, own.tokens; seqs == 0 {
		seqs = find(KindVLLM).seqs
	}
	if r.Kind == KindSGLang { // it shares them out
		tokens /= c.Parallelism.Normal().DP
	}
	return seqs, tokens
}

// MemoryFraction is the share of a GPU's memory that the release takes unless it is told,
// as it means it: vLLM's --gpu-memory-utilization, 0.92 from 0.20.0; SGLang's
// --mem-fraction-static, by memory, GPUs of an engine and tokens of a step, in MiB
// (memory_hook.py, without what it adds for prompts' CUDA graphs);
// TensorRT-LLM's free_gpu_memory_fraction.
func (r Release) MemoryFraction(memory int64, p Parallelism, tokens int) float64 {
	const mib = 1 << 20
	switch {
	case r.Kind == KindVLLM && r.Since("0.20"):
		return 0.92
	case r.Kind != KindSGLang:
		return 0.9
	}
	p = p.Normal()
	total, ranks := float64(memory/mib), p.TP*p.DP
	graphs := 512.0 // sequences of the largest one
	switch {
	case total < 20<<10:
		graphs = 8
	case ranks < 4 && total < 60<<10:
		graphs = 32
	case total < 60<<10:
		graphs = 160
	case ranks < 4 && total < 160<<10:
		graphs = 256
	}
	reserve := 512 + 1.5*float64(max(tokens, 2048)) + float64(ranks*p.PP)/8*1024 + 2*graphs
	if p.DP > 1 {
		reserve += 3 * graphs * float64(p.DP)
	}
	if total > 60<<10 {
		reserve = max(reserve, 10<<10)
	}
	return max(0, (total-reserve)/total)
}

// What public reports have for CUDA graphs, of a GPU's memory; single ones have far more
// (vllm#45178).
const (
	LeastGraphShare = 0.005
	MostGraphShare  = 0.03
)

// CountsGraphs reports whether an estimate of CUDA graphs is taken off vLLM's KV cache:
// from 0.21 on (96a85c575, April 2026). It scatters too much to be counted here.
func (r Release) CountsGraphs() bool { return r.Kind == KindVLLM && r.Since("0.21") }
