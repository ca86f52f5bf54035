package capacity

import (
	"errors"
	"fmt"
	"slices"

	"plimsoll/profile"
)

// FormulaPlan is what the closed formulas say. Fields that a strategy has no
// formula for are 0 and left out of JSON.
type FormulaPlan struct {
	Strategy          Strategy `json:"strategy"` // Disaggregated or Aggregated
	Groups            int      `json:"groups"`   // engines of TP GPUs, without burst and redundancy
	UtilizationTarget float64  `json:"utilization_target"`
	PrefillGroups     int      `json:"prefill_groups,omitzero"`
	DecodeGroups      int      `json:"decode_groups,omitzero"`
	PrefillGPUs       int      `json:"prefill_gpus,omitzero"`
	DecodeGPUs        int      `json:"decode_gpus,omitzero"`
	TotalGPUs         int      `json:"total_gpus"`

	BurstHeadroomFactor float64 `json:"burst_headroom_factor"`
	TotalGPUsWithBurst  int     `json:"total_gpus_with_burst"`
	RedundancyGPUs      int     `json:"redundancy_gpus"`
	TotalGPUsFinal      int     `json:"total_gpus_final"`

	PrefillDecodeRatio float64 `json:"prefill_decode_ratio,omitzero"` // of groups
	EstimatedTTFTP99Ms float64 `json:"estimated_ttft_p99_ms,omitzero"`
	EstimatedITLP99Ms  float64 `json:"estimated_itl_p99_ms,omitzero"`

	Costs                         // of TotalGPUsFinal
	Provenance profile.Provenance `json:"provenance"`
	Binding    string             `json:"binding"` // what decides the size of the larger pool
	Warnings   []profile.Warning  `json:"warnings,omitempty"`
}

// Formula plans by the closed formulas that go round for disaggregated serving,
// exactly as they are, so that a plan can be checked by hand; Misleads says
// where they are wrong. With u the utilization target, rate the peak in
// requests/s, lengths in tokens, every quotient rounded to 1e-9 and then up, and
// at least one group in a pool:
//
//	prefill groups = rate·avg ISL / (prefill tokens/s · u)
//	decode groups  = rate·avg OSL / (decode tokens/s · u)
//	TTFT p99       = p99 ISL / prefill tokens/s · 1000 + 5 ms
//	ITL p99        = 1000 / (decode tokens/s / rate) ms
//
// where an estimate above its SLO multiplies its pool's groups by estimate/SLO,
// rounded up; aggregated, which estimates no latency:
//
//	groups = (avg ISL + avg OSL)·rate / (min(0.6·prefill, 0.8·decode tokens/s) · u)
//
// and then for both:
//
//	with burst = GPUs · (1 + max(0, (peak to average − 1.5) · 0.5))
//	redundancy = GPUs: availability ≥ 0.999: 2·(prefill GPUs // prefill groups) + 2
//	                   availability ≥ 0.99:  prefill GPUs // prefill groups + 1
//	                   aggregated: 2 and 1
//	cost per million output tokens
//	           = hourly / (decode tokens/s · 3600 · GPUs in all / TP) · 1e6
//
// An end-to-end SLO has no formula. Auto takes the strategy of fewer GPUs.
//
// Source: an article on capacity planning for disaggregated serving, as read in
// 2026. Its text says 68 and 66 GPUs where its code gives 76 and 70, and 32 for
// 200 requests/s of 500 and 150 tokens where its code gives 36: this follows the
// code.
func Formula(w Workload, slo SLO, t Throughput, o Options) (FormulaPlan, error) {
	if err := checkAll(w, slo, t, o); err != nil {
		return FormulaPlan{}, err
	}
	switch strategy, err := parseStrategy(string(o.Strategy)); strategy {
	case Disaggregated:
		return disaggregated(w, slo, t, o)
	case Aggregated:
		return aggregated(w, slo, t, o)
	case Auto:
		d, err := disaggregated(w, slo, t, o)
		if err != nil {
			return FormulaPlan{}, err
		}
		if a, err := aggregated(w, slo, t, o); err == nil && a.TotalGPUsFinal < d.TotalGPUsFinal {
			return a, nil
		}
		return d, nil
	default:
		return FormulaPlan{}, err
	}
}

func checkAll(w Workload, slo SLO, t Throughput, o Options) error {
	if err := errors.Join(w.Check(), slo.Check(), t.Check(), o.Check()); err != nil {
		return fmt.Errorf("planning by formula: %w", err)
	}
	return nil
}

func disaggregated(w Workload, slo SLO, t Throughput, o Options) (FormulaPlan, error) {
	p := sizePools(w, slo, t, o)
	if err := p.check(t, w); err != nil {
		return FormulaPlan{}, err
	}
	plan := FormulaPlan{
		Strategy:           Disaggregated,
		Groups:             int(p.prefill + p.decode),
		PrefillGroups:      int(p.prefill),
		DecodeGroups:       int(p.decode),
		PrefillGPUs:        int(p.prefill) * t.TP,
		DecodeGPUs:         int(p.decode) * t.TP,
		PrefillDecodeRatio: p.prefill / p.decode,
		EstimatedTTFTP99Ms: p.ttftMs,
		EstimatedITLP99Ms:  p.itlMs,
		Binding:            p.binding(),
	}
	perGroup := plan.PrefillGPUs / plan.PrefillGroups
	plan.RedundancyGPUs = redundant(slo, 2*perGroup+2, perGroup+1)
	return plan.finish(w, slo, t, o), nil
}

func aggregated(w Workload, slo SLO, t Throughput, o Options) (FormulaPlan, error) {
	groups := max(1, ceil((w.ISL+w.OSL)*w.Rate/(aggregatedTPS(t)*o.UtilizationTarget)))
	if err := checkSize(groups, t, w); err != nil {
		return FormulaPlan{}, err
	}
	plan := FormulaPlan{Strategy: Aggregated, Groups: int(groups), Binding: "prefill throughput"}
	if prefillDerating*t.PrefillTPS > decodeDerating*t.DecodeTPS {
		plan.Binding = "decode throughput"
	}
	plan.RedundancyGPUs = redundant(slo, 2, 1)
	return plan.finish(w, slo, t, o), nil
}

// What is left of a phase's throughput when the other one runs beside it.
const (
	prefillDerating = 0.6
	decodeDerating  = 0.8
)

func aggregatedTPS(t Throughput) float64 {
	return min(prefillDerating*t.PrefillTPS, decodeDerating*t.DecodeTPS)
}

// redundant is what is added for N+2, N+1 or nothing.
func redundant(slo SLO, two, one int) int {
	switch spareGroups(slo) {
	case 2:
		return two
	case 1:
		return one
	default:
		return 0
	}
}

// spareGroups is the formulas' k of "N+k".
func spareGroups(slo SLO) int {
	switch {
	case slo.Availability >= 0.999:
		return 2
	case slo.Availability >= 0.99:
		return 1
	default:
		return 0
	}
}

// finish adds what follows from groups and redundancy.
func (p FormulaPlan) finish(w Workload, slo SLO, t Throughput, o Options) FormulaPlan {
	p.UtilizationTarget = o.UtilizationTarget
	p.TotalGPUs = p.Groups * t.TP
	p.BurstHeadroomFactor = burst(w)
	p.TotalGPUsWithBurst = int(ceil(float64(p.TotalGPUs) * p.BurstHeadroomFactor))
	p.TotalGPUsFinal = p.TotalGPUsWithBurst + p.RedundancyGPUs
	p.Costs = costs(p.TotalGPUsFinal, o.USDPerGPUHour, w.Rate, t.DecodeTPS*float64(p.TotalGPUsFinal)/float64(t.TP))
	p.Provenance = t.Provenance
	p.Warnings = slices.Concat(p.Warnings, t.Warnings, w.Warnings())
	if slo.E2EP99 > 0 {
		p.Warnings = append(p.Warnings, profile.Warnf("no_e2e", "the formulas ignore the end-to-end SLO of %v", slo.E2EP99))
	}
	return p
}

func burst(w Workload) float64 { return 1 + max(0, (w.PeakToAverage-1.5)*0.5) }
