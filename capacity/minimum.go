package capacity

// MinimumPlan is what the formulas' minimum-GPU function says.
type MinimumPlan struct {
	ConcurrentSequences float64 `json:"concurrent_sequences"`
	KVCacheBytes        float64 `json:"kv_cache_bytes"`            // of all sequences
	WeightBudgetBytes   float64 `json:"weight_budget_bytes_group"` // of one group
	KVBudgetBytes       float64 `json:"kv_budget_bytes_group"`     // of one group
	PrefillGroups       int     `json:"prefill_groups"`
	DecodeGroups        int     `json:"decode_groups"`
	TotalGPUs           int     `json:"total_gpus"`
	Binding             string  `json:"binding"`
	HourlyUSD           USD     `json:"hourly_cost_usd"`
	Per1kQueriesUSD     USD     `json:"cost_per_1k_queries_usd"`
}

// The shares of a group's memory that the minimum gives to weights and to the
// KV cache; the rest is for activations and the like.
const (
	weightShare = 0.35
	kvShare     = 0.55
)

// Minimum is the fewest GPUs that the formulas hold the workload to need: the
// pools of Formula without burst and redundancy, and decode groups enough for
// the KV cache of all sequences.
//
//	concurrent = rate·avg OSL / decode tokens/s
//	kv         = concurrent·(avg ISL + avg OSL)·KV bytes per token
//	where kv/decode groups > 0.55·TP·GPU bytes:
//	    decode groups = ceil(kv / (0.55·TP·GPU bytes))
//
// It is for disaggregated serving, whatever the strategy. Source: as Formula.
func Minimum(w Workload, slo SLO, t Throughput, o Options) (MinimumPlan, error) {
	if err := checkAll(w, slo, t, o); err != nil {
		return MinimumPlan{}, err
	}
	p := sizePools(w, slo, t, o)
	m := MinimumPlan{
		ConcurrentSequences: w.Rate * w.OSL / t.DecodeTPS,
		WeightBudgetBytes:   weightShare * t.groupBytes(),
		KVBudgetBytes:       kvShare * t.groupBytes(),
		Binding:             p.binding(),
	}
	m.KVCacheBytes = m.ConcurrentSequences * (w.ISL + w.OSL) * float64(t.KVBytesPerToken)
	if m.KVCacheBytes/p.decode > m.KVBudgetBytes {
		p.decode = ceil(m.KVCacheBytes / m.KVBudgetBytes)
		m.Binding = "kv cache"
	}
	if err := p.check(t, w); err != nil {
		return MinimumPlan{}, err
	}
	m.PrefillGroups, m.DecodeGroups = int(p.prefill), int(p.decode)
	m.TotalGPUs = (m.PrefillGroups + m.DecodeGroups) * t.TP
	c := w.CostsAtPeak(m.TotalGPUs, o.USDPerGPUHour)
	m.HourlyUSD, m.Per1kQueriesUSD = c.HourlyUSD, c.Per1kQueriesUSD
	return m, nil
}
