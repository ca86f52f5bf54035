package capacity

import (
	"fmt"

	"plimsoll/engine"
	"plimsoll/profile"
)

// latency corrects the two estimates and the groups that they multiply.
func (in inputs) latency() []Correction {
	sized := sizePools(in.w, in.slo, in.t, in.o)
	itl, sloITL := in.fullBatchITLMs(), profile.Milliseconds(in.slo.ITL)
	why := fmt.Sprintf("the estimate divides one group's time by the number of requests, so it falls with less traffic. At %.6g tokens/s with %d sequences in flight, each gets a token every %.4g ms", in.t.DecodeTPS, in.t.MaxBatch, itl)
	if itl > sloITL {
		why += fmt.Sprintf(" (SLO %.4g ms). This throughput is impossible within the SLO", sloITL)
	}
	cs := changed("estimated_itl_p99_ms", sized.itlMs, itl, "ms", why)
	if itl <= sloITL {
		cs = append(cs, changed("decode_groups", sized.decode, sized.decodeBase, "groups",
			fmt.Sprintf("the factor comes from the wrong ITL estimate. At full batches ITL is %.4g ms, within the SLO of %.4g ms", itl, sloITL))...)
	}
	return append(cs, changed("prefill_groups", sized.prefill, sized.prefillBase, "groups",
		fmt.Sprintf("more groups do not shorten one prefill. A p99 prompt takes %.4g ms in an empty group (SLO %v); promise more time or use faster groups", sized.ttftMs, in.slo.TTFT))...)
}

// together corrects the aggregated formula, which takes a prompt token to cost
// as much as an output token: times add up, not tokens.
func (in inputs) together() []Correction {
	seconds := in.w.ISL/(prefillDerating*in.t.PrefillTPS) + in.w.OSL/(decodeDerating*in.t.DecodeTPS)
	return changed("groups", float64(in.p.Groups), max(1, ceil(in.w.Rate*seconds/in.o.UtilizationTarget)), "groups",
		fmt.Sprintf("the formula applies the slower phase's throughput to the tokens of both. At the same deratings, a request takes %.4g s of a group's time", seconds))
}

// sequences corrects KV bytes per token and how many sequences are in flight.
func (in inputs) sequences() []Correction {
	var cs []Correction
	kv := float64(in.t.KVBytesPerToken)
	if in.known() {
		right := in.f.Model.KVBytesPerToken(in.f.KV)
		cs = changed("kv_bytes_per_token", kv, right, "bytes",
			fmt.Sprintf("%s keeps %d numbers per token in each of %d layers", in.f.Model.Name, in.f.Model.KVElementsPerLayer(), in.f.Model.Layers))
		kv = right
	}
	if in.p.Strategy != Disaggregated {
		return cs
	}
	groups := in.w.Rate * in.w.OSL / in.t.DecodeTPS
	inFlight := in.w.Rate * in.w.OSL * in.p.EstimatedITLP99Ms / 1000
	cs = append(cs, changed("concurrent_sequences", groups, inFlight, "sequences",
		fmt.Sprintf("rate over throughput counts busy groups, not sequences. By Little's law, %.6g requests/s that stay %.6g tokens · %.4g ms keep %.6g in flight, or %.6g at the %.4g ms of full batches",
			in.w.Rate, in.w.OSL, in.p.EstimatedITLP99Ms, inFlight, in.w.Rate*in.w.OSL*in.fullBatchITLMs()/1000, in.fullBatchITLMs()))...)
	resident := in.residentTokens()
	return append(cs, changed("kv_cache_bytes", groups*(in.w.ISL+in.w.OSL)*float64(in.t.KVBytesPerToken), inFlight*resident*kv, "bytes",
		fmt.Sprintf("%.6g sequences in flight hold on average %.6g tokens of %.6g bytes each", inFlight, resident, kv))...)
}

// weights corrects the share of memory that is for them.
func (in inputs) weights() []Correction {
	if !in.known() {
		return nil
	}
	memory, budget := in.t.groupBytes(), weightShare*in.t.groupBytes()
	var cs []Correction
	weights := in.f.Model.WeightBytes(in.f.Weights)
	if fp8 := in.f.Model.WeightBytes(engine.FP8); weights > memory && fp8 <= memory {
		cs = append(cs, Correction{
			"weights_dtype_bytes", weights, fp8, "bytes",
			fmt.Sprintf("%s in %[3]s does not fit TP%[2]d (needs %.4[4]g GB of %.4[5]g GB). This row exists in FP8 only", in.f.Model.Name, in.t.TP, orBF16(in.f.Weights), weights/1e9, memory/1e9),
		})
		weights = fp8
	}
	if weights <= budget {
		return cs
	}
	return append(cs, Correction{
		"weight_budget_bytes_group", budget, weights, "bytes",
		fmt.Sprintf("the weights take %.4g GB of each group's %.4g GB, not %.0f %% (%.4g GB). The KV cache shrinks by the difference", weights/1e9, memory/1e9, 100*weightShare, budget/1e9),
	})
}

func orBF16(d engine.DType) engine.DType {
	if d == "" {
		return engine.BF16
	}
	return d
}

// headroom corrects GPUs for bursts on top of the peak.
func (in inputs) headroom() []Correction {
	return changed("total_gpus_with_burst", float64(in.p.TotalGPUsWithBurst), float64(in.p.TotalGPUs), "GPUs",
		fmt.Sprintf("the groups are sized for the peak of %.6g requests/s, counted over %v, which already includes the burst", in.w.Rate, in.w.PeakWindow))
}

// spares corrects the redundancy: whole groups of each pool, as many as the
// replicas' availability asks for, or k where it is not known.
func (in inputs) spares() []Correction {
	pools := in.pools()
	if in.f.ReplicaAvailability > 0 {
		r, err := Spares(pools, in.f.ReplicaAvailability, in.slo.Availability)
		if err != nil {
			return nil
		}
		return changed("redundancy_gpus", float64(in.p.RedundancyGPUs), float64(r.SpareGPUs), "GPUs",
			fmt.Sprintf("if each failure domain is up %.6g of the time, these spares keep all pools complete %.6g of the time", in.f.ReplicaAvailability, r.Availability))
	}
	gpus := 0
	for _, p := range pools {
		gpus += spareGroups(in.slo) * p.GPUsPerGroup
	}
	return changed("redundancy_gpus", float64(in.p.RedundancyGPUs), float64(gpus), "GPUs",
		fmt.Sprintf("the formula adds single GPUs to groups of %d. N+%d needs %d whole groups in each pool; its worth depends on how often a replica is down", in.t.TP, spareGroups(in.slo), spareGroups(in.slo)))
}

func (in inputs) pools() []Pool {
	domain := max(1, in.f.GroupsPerDomain)
	if in.p.Strategy != Disaggregated {
		return []Pool{{"aggregated", in.p.Groups, in.t.TP, domain}}
	}
	return []Pool{{"prefill", in.p.PrefillGroups, in.t.TP, domain}, {"decode", in.p.DecodeGroups, in.t.TP, domain}}
}

// money corrects what a unit of work costs: by the work that comes, not by what
// the GPUs could do.
func (in inputs) money() []Correction {
	peak := in.w.CostsAtPeak(in.p.TotalGPUsFinal, in.o.USDPerGPUHour)
	average := in.w.CostsAtAverage(in.p.TotalGPUsFinal, in.o.USDPerGPUHour)
	cs := changed("cost_per_1m_tokens_usd", in.p.Per1MTokensUSD, peak.Per1MTokensUSD, "USD at the peak",
		"the formula assumes that every group always decodes at full throughput. The peak asks for fewer tokens")
	cs = append(cs, changed("cost_per_1m_tokens_usd", in.p.Per1MTokensUSD, average.Per1MTokensUSD, "USD on average",
		fmt.Sprintf("the day's mean is %.6g requests/s, but the GPUs cost money all day", in.w.AverageRate()))...)
	return append(cs, changed("cost_per_1k_queries_usd", in.p.Per1kQueriesUSD, average.Per1kQueriesUSD, "USD on average",
		fmt.Sprintf("the formula counts the peak's requests. The day's mean is %.6g requests/s", in.w.AverageRate()))...)
}
