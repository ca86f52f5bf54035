package capacity

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

// sizedByHand are 3 prefill engines of 2 GPUs at $2 and 5 decode engines of 4 at $3.
func sizedByHand() Sized {
	l := line()
	for i, p := range []struct {
		label, gpu string
		gpus       int
		usd        USD
	}{{"TP:2", "H100-SXM", 2, 2}, {"TP:4", "A100-80-SXM", 4, 3}} {
		x := &l.Pools[i]
		x.Label, x.GPU, x.GPUs, x.USDPerGPUHour = p.label, p.gpu, p.gpus, p.usd
	}
	return Sized{
		Layout: l, Replicas: []int{3, 5}, GPUs: 26, HourlyUSD: 72, Binding: "TTFT, by the prefill pool", Trials: 9,
		At: Trial{
			TTFT: Latency{P50: 100 * milli, P99: 900 * milli, Missed: 0.004}, ITL: Latency{P50: 20 * milli, P99: 30 * milli, Missed: 0.006},
			E2E: Latency{P50: 2000 * milli, P99: 9000 * milli}, Pools: []Load{{Utilisation: 0.7}, {Utilisation: 1, KVUse: 0.3}},
		},
		Warnings: []profile.Warning{{Code: "cells"}},
	}
}

func TestPlanAddsUp(t *testing.T) {
	w := chatbot() // 100/s at the peak, 40 on average, 512 tokens
	p, err := NewPlan(sizedByHand(), w, SLO{TTFT: time.Second, ITL: time.Second}, Failures{}, profile.Estimated)
	if err != nil {
		t.Fatal(err)
	}
	if p.Layout != "TP:2 on H100-SXM prefill + TP:4 on A100-80-SXM decode" || p.Strategy != Disaggregated || p.Provenance != profile.Estimated || p.SimulatedSizes != 9 || p.Binding != "TTFT, by the prefill pool" {
		t.Errorf("%+v", p)
	}
	if p.Groups != 8 || p.PrefillGroups != 3 || p.DecodeGroups != 5 || p.PrefillGPUs != 6 || p.DecodeGPUs != 20 || p.TotalGPUs != 26 || p.TotalGPUsFinal != 26 || p.RedundancyGPUs != 0 || p.PrefillDecodeRatio != 0.6 || p.Availability != 0 {
		t.Errorf("%+v", p)
	}
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"hourly", float64(p.HourlyUSD), 6*2 + 20*3},
		{"daily", float64(p.DailyUSD), 1728},
		{"monthly", float64(p.MonthlyUSD), 51840},
		{"annual", float64(p.AnnualUSD), 630720},
		{"per 1,000 queries", float64(p.Per1kQueriesUSD), 72 / 360.0},
		{"per 1M tokens", float64(p.Per1MTokensUSD), 72e6 / (51200 * 3600)},
		{"on average per 1,000", float64(p.Average.Per1kQueriesUSD), 72 / 144.0},
		{"on average per 1M", float64(p.Average.Per1MTokensUSD), 72e6 / (20480 * 3600)},
		{"TTFT p50", p.EstimatedTTFTP50Ms, 100},
		{"TTFT p99", p.EstimatedTTFTP99Ms, 900},
		{"ITL p50", p.EstimatedITLP50Ms, 20},
		{"ITL p99", p.EstimatedITLP99Ms, 30},
		{"E2E p50", p.EstimatedE2EP50Ms, 2000},
		{"E2E p99", p.EstimatedE2EP99Ms, 9000},
		{"attainment", p.Attainment, 0.994},
	} {
		if math.Abs(c.got-c.want) > 1e-9*c.want {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
	if len(p.Pools) != 2 || p.Pools[1].Engines != 5 || p.Pools[1].GPUs != 20 || p.Pools[1].Utilisation != 1 || p.Pools[1].KVUse != 0.3 || p.Pools[0].Role != engine.RolePrefill {
		t.Errorf("%+v", p.Pools)
	}
	if len(p.Warnings) != 1 || p.Warnings[0].Code != "cells" {
		t.Errorf("%v", p.Warnings)
	}
}

func TestPlanWithSpares(t *testing.T) {
	slo := SLO{TTFT: time.Second, ITL: time.Second, Availability: 0.999}
	_, err := NewPlan(sizedByHand(), chatbot(), slo, Failures{}, profile.Estimated)
	if err == nil || !strings.Contains(err.Error(), "--replica-availability is 0: want 0.5") {
		t.Errorf("availability without replica availability: %v", err)
	}
	for _, f := range []Failures{{ReplicaAvailability: 0.99}, {ReplicaAvailability: 0.99, DomainGPUs: 8}, {ReplicaAvailability: 0.9, DomainGPUs: 2}} {
		p, err := NewPlan(sizedByHand(), chatbot(), slo, f, profile.Estimated)
		if err != nil {
			t.Fatal(err)
		}
		hourly, gpus, up := USD(0), 0, 1.0
		for i, pool := range p.Pools {
			l := sizedByHand().Layout.Pools[i]
			if pool.GPUs != (pool.Engines+pool.SpareEngines)*l.GPUs {
				t.Errorf("%+v: %+v", f, pool)
			}
			hourly, gpus = hourly+USD(pool.GPUs)*l.USDPerGPUHour, gpus+pool.GPUs
			per := max(1, f.DomainGPUs/l.GPUs)
			n, m := (pool.Engines+pool.SpareEngines)/per, (pool.Engines+per-1)/per
			up *= upByEnumeration(m, n, f.ReplicaAvailability)
		}
		if p.HourlyUSD != hourly || p.TotalGPUsFinal != gpus || p.RedundancyGPUs != gpus-26 || p.TotalGPUs != 26 || p.RedundancyGPUs <= 0 {
			t.Errorf("%+v: %+v", f, p)
		}
		if p.Availability < 0.999 || math.Abs(p.Availability-up) > 1e-9 {
			t.Errorf("%+v: availability %v, by enumeration %v", f, p.Availability, up)
		}
	}
}

func TestPlanOfWhatNoFleetHolds(t *testing.T) {
	s := Sized{Layout: line(), Infeasible: &Infeasible{Why: "because", TTFT: time.Second}, Trials: 2}
	p, err := NewPlan(s, chatbot(), SLO{Availability: 0.9}, Failures{}, profile.Estimated)
	if err != nil || p.Infeasible.Why != "because" || p.TotalGPUsFinal != 0 || p.HourlyUSD != 0 || p.SimulatedSizes != 2 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestPlanKeys(t *testing.T) {
	p, err := NewPlan(sizedByHand(), chatbot(), SLO{TTFT: time.Second, ITL: time.Second}, Failures{}, profile.Estimated)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	for _, key := range strings.Fields(`utilization_target burst_headroom_factor total_gpus_with_burst strategy groups prefill_groups decode_groups prefill_gpus decode_gpus total_gpus redundancy_gpus total_gpus_final
		prefill_decode_ratio estimated_ttft_p99_ms estimated_itl_p99_ms estimated_e2e_p99_ms hourly_cost_usd daily_cost_usd monthly_cost_usd annual_cost_usd
		cost_per_1k_queries_usd cost_per_1m_tokens_usd at_average attainment binding provenance warnings pools layout availability simulated_sizes`) {
		if _, ok := got[key]; !ok {
			t.Errorf("no key %s", key)
		}
	}
}
