package capacity

import "plimsoll/profile"

// The rule-of-thumb rows are for 80 GiB GPUs at this price.
const (
	PublishedGPUBytes    = 80 << 30
	PublishedUSDPerGPUHr = 3.50
	publishedGPU         = "H100-SXM"
	publishedLlama8B     = "meta-llama/Meta-Llama-3.1-8B"
	publishedLlama70B    = "meta-llama/Meta-Llama-3.1-70B"
	publishedLlama405B   = "meta-llama/Meta-Llama-3.1-405B"
	publishedKVBytes8B   = 512
	publishedKVBytes70B  = 2560
	publishedKVBytes405B = 6400
)

// PublishedThroughputs are the rules of thumb that go round with the closed
// formulas, in round numbers, without an engine version, and with KV bytes per
// token that are wrong (see Misleads). The formulas' goldens are made with
// them; a plan made with them is worth no more than they are.
//
// Source: an article on capacity planning for disaggregated serving, as read in
// 2026; it names no measurement behind them.
func PublishedThroughputs() []Throughput {
	rows := []Throughput{
		{Name: "Llama-3.1-8B on H100, TP1", Model: publishedLlama8B, TP: 1, PrefillTPS: 120_000, DecodeTPS: 25_000, MaxBatch: 512, KVBytesPerToken: publishedKVBytes8B},
		{Name: "Llama-3.1-70B on H100, TP4", Model: publishedLlama70B, TP: 4, PrefillTPS: 50_000, DecodeTPS: 8_000, MaxBatch: 256, KVBytesPerToken: publishedKVBytes70B},
		{Name: "Llama-3.1-405B on H100, TP8", Model: publishedLlama405B, TP: 8, PrefillTPS: 20_000, DecodeTPS: 3_000, MaxBatch: 128, KVBytesPerToken: publishedKVBytes405B},
	}
	for i := range rows {
		rows[i].GPU, rows[i].GPUMemoryBytes, rows[i].Provenance = publishedGPU, PublishedGPUBytes, profile.Published
	}
	return rows
}
