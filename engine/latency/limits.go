package latency

import (
	"strings"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
)

const gib = 1 << 30

// Limits is asked with every zero field set to what vLLM's server chooses by
// itself for model m on GPUs g: with at least 70 GiB and not an A100, 1024
// sequences and 8192 tokens in a step, otherwise 256 and 2048, and no more
// sequences than tokens (vLLM, engine/arg_utils.py, get_batch_defaults,
// OPENAI_API_SERVER, read 2026-08);
// KV blocks of 16 tokens (its CUDA default), the model's own context.
func Limits(m catalog.Model, g catalog.GPU, asked engine.Limits) engine.Limits {
	seqs, tokens := 256, 2048
	if g.MemoryBytes >= 70*gib && !strings.HasPrefix(g.Name, "A100") {
		seqs, tokens = 1024, 8192
	}
	if n := asked.MaxNumBatchedTokens; n > 0 {
		seqs = min(seqs, n)
	}
	for _, f := range []struct {
		field *int
		value int
	}{
		{&asked.MaxNumSeqs, seqs},
		{&asked.MaxNumBatchedTokens, tokens},
		{&asked.MaxModelLen, m.MaxContext},
		{&asked.BlockSize, 16},
	} {
		if *f.field <= 0 {
			*f.field = f.value
		}
	}
	return asked
}
