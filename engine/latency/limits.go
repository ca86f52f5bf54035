package latency

import (
	"math"
	"sort"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
)

// Limits is what c asks for, with every zero field set to what its engine chooses by
// itself for model m on GPUs g (engine.Config.Steps), and no more sequences than tokens
// or what mostStates allows; the model's own context; KV blocks as vLLM has them
// (blockSize).
func Limits(m catalog.Model, g catalog.GPU, c engine.Config) engine.Limits {
	l := c.Limits
	seqs, tokens := c.Steps(g.Name, g.MemoryBytes)
	if n := l.MaxNumBatchedTokens; n > 0 {
		seqs = min(seqs, n)
	}
	for _, f := range []struct {
		field *int
		value int
	}{
		{&l.MaxNumSeqs, seqs},
		{&l.MaxNumBatchedTokens, tokens},
		{&l.MaxModelLen, m.MaxContext},
		{&l.BlockSize, blockSize(m, c)},
	} {
		if *f.field <= 0 {
			*f.field = f.value
		}
	}
	if c.Limits.MaxNumSeqs <= 0 && mostStates(m, g, c, l) > 0 {
		l.MaxNumSeqs = max(1, sort.Search(l.MaxNumSeqs, func(i int) bool {
			most := l
			most.MaxNumSeqs = i + 1
			return mostStates(m, g, c, most) <= i
		}))
	}
	return l
}

// mostStates is how many sequences vLLM starts with at most, from 0.25 on: it wants a KV
// block for each one's state (config/compilation.py); 0 = as many as asked for.
func mostStates(m catalog.Model, g catalog.GPU, c engine.Config, l engine.Limits) int {
	if r := c.Served(); m.StateBytes() == 0 || m.KVLayers() == 0 || r.Kind != engine.KindVLLM || !r.Since("0.25") {
		return 0
	}
	c.Parallelism = c.Parallelism.Normal()
	a := about{model: m, config: c, limits: l, memory: memoryOf(m, g, c, l)}
	blocks, _ := a.kvCache()
	return blocks
}

// blockSize is the tokens of a KV block: 16 (vLLM's on CUDA), but where layers keep a
// state as many as take as much room as a layer's state does, since vLLM has both in
// pages of one size (vllm/platforms/interface.py, _align_hybrid_block_size, 0.20 to 0.32;
// before, models/config.py): a multiple of 16 for KV in BF16, of 32 in FP8.
func blockSize(m catalog.Model, c engine.Config) int {
	const block = 16
	p := c.Parallelism.Normal()
	state := m.StateBytes() / float64(p.TP) / float64(max(m.LinearLayers, 1))
	if state == 0 || m.KVLayers() == 0 || c.Served().Kind != engine.KindVLLM {
		return block
	}
	token := kvShare(m, engine.Config{Parallelism: engine.Parallelism{TP: p.TP, PP: 1}}) / float64(m.KVLayers())
	return int(block * math.Ceil(state/token/block) * engine.BF16.Bytes() / c.KV.Bytes())
}
