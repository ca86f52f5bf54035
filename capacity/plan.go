package capacity

import (
	"fmt"
	"slices"
	"strconv"

	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
	"plimsoll/profile"
)

// Plan is a fleet that holds an SLO in simulation, with spares, and what it
// costs. Where the SLO cannot be held, Infeasible says why and the rest is 0.
type Plan struct {
	Strategy Strategy   `json:"strategy"`
	Layout   string     `json:"layout"` // in words
	Pools    []PoolPlan `json:"pools,omitempty"`

	Groups        int `json:"groups"` // engines, without spares
	PrefillGroups int `json:"prefill_groups,omitzero"`
	DecodeGroups  int `json:"decode_groups,omitzero"`
	PrefillGPUs   int `json:"prefill_gpus,omitzero"`
	DecodeGPUs    int `json:"decode_gpus,omitzero"`
	TotalGPUs     int `json:"total_gpus"` // without spares
	// The words of the formulas, so that both kinds of plan have them: what is
	// simulated has no share of throughput to plan with, and is sized at the peak,
	// so that there is no more to add for it.
	UtilizationTarget   *float64 `json:"utilization_target"`    // nil
	BurstHeadroomFactor float64  `json:"burst_headroom_factor"` // 1
	TotalGPUsWithBurst  int      `json:"total_gpus_with_burst"` // TotalGPUs

	RedundancyGPUs int `json:"redundancy_gpus"`
	TotalGPUsFinal int `json:"total_gpus_final"`
	BilledGPUs     int `json:"billed_gpus"` // of whole instances
	// Range is how TotalGPUsFinal moves with the error of the step times; zero
	// where that is not known.
	Range Range `json:"range,omitzero"`

	PrefillDecodeRatio float64 `json:"prefill_decode_ratio,omitzero"` // of engines
	// EstimatedTTFTMs and EstimatedITLMs are by the SLO's statistic.
	EstimatedTTFTMs    float64 `json:"estimated_ttft_ms"`
	EstimatedITLMs     float64 `json:"estimated_itl_ms"`
	EstimatedTTFTP99Ms float64 `json:"estimated_ttft_p99_ms"`
	EstimatedITLP99Ms  float64 `json:"estimated_itl_p99_ms"`
	EstimatedGapP99Ms  float64 `json:"estimated_gap_p99_ms"` // of single gaps between tokens
	EstimatedE2EP99Ms  float64 `json:"estimated_e2e_p99_ms"`
	EstimatedTTFTP50Ms float64 `json:"estimated_ttft_p50_ms"`
	EstimatedITLP50Ms  float64 `json:"estimated_itl_p50_ms"`
	EstimatedE2EP50Ms  float64 `json:"estimated_e2e_p50_ms"`
	// Attainment is the least share that kept one of the promises in simulation.
	Attainment   float64 `json:"attainment"`
	Availability float64 `json:"availability"` // that all engines needed are up; 0 = not asked for

	Costs                             // of TotalGPUsFinal, per unit of the work at the peak
	Average        Costs              `json:"at_average"` // per unit of the work on average
	Binding        string             `json:"binding"`
	Infeasible     *Infeasible        `json:"infeasible,omitempty"`
	Provenance     profile.Provenance `json:"provenance"`
	Warnings       []profile.Warning  `json:"warnings,omitempty"`
	SimulatedSizes int                `json:"simulated_sizes"`
}

// FromDataSheet reports whether the step times of a pool are from its GPU's data sheet.
func (p Plan) FromDataSheet() bool {
	return slices.ContainsFunc(p.Pools, func(x PoolPlan) bool { return x.FromDataSheet })
}

// PoolPlan is one pool of a Plan.
type PoolPlan struct {
	Role         engine.Role `json:"role"`
	Engine       string      `json:"engine"` // "TP:2"
	GPU          string      `json:"gpu"`
	Engines      int         `json:"engines"` // needed
	SpareEngines int         `json:"spare_engines"`
	GPUs         int         `json:"gpus"` // spares included
	// Nodes are the servers that one engine spans.
	Nodes engine.Nodes `json:"nodes,omitzero"`
	// Router is how requests find an engine of the pool: others may miss the SLO.
	Router fleet.Router `json:"router"`
	// MaxModelLen is the longest prompt and output together that an engine of the
	// pool has to hold, in tokens.
	MaxModelLen int `json:"max_model_len"`
	// FromDataSheet says that step times are from the GPU's data sheet: no kernels of it
	// were measured.
	FromDataSheet bool `json:"from_data_sheet,omitzero"`

	USDPerGPUHour USD `json:"usd_per_gpu_hour"`       // of each that is billed
	InstanceGPUs  int `json:"instance_gpus,omitzero"` // that are rented at a time; 0 = each by itself
	Load
}

// Range is from the GPUs that the plan would take if every step were as much
// faster than the model says as it may be, to those if as much slower.
type Range struct {
	Low  int `json:"low"`
	High int `json:"high,omitzero"` // left out: at that speed no number of engines holds the SLO
	// HighAtLeast stands instead of High where so many are needed that it was not
	// looked how many.
	HighAtLeast int `json:"high_at_least,omitzero"`

	Factors engine.Factors `json:"factors"` // in nine of ten comparisons the model was within them
}

// Words are the range as people read it.
func (r Range) Words() string {
	const within = "nine of ten comparisons were within"
	low, high := engine.Count(r.Low, "GPU"), strconv.Itoa(r.High)
	switch {
	case r.HighAtLeast > 0:
		high = fmt.Sprintf("at least %d", r.HighAtLeast)
	case r.High == 0:
		high = "no number is enough"
	case r.High == r.Low:
		return fmt.Sprintf("%s, even if %s faster or slower than the model (%s)", low, r.Factors.Words(), within)
	}
	return fmt.Sprintf("%s if %s faster than the model; %s if as much slower (%s)", low, r.Factors.Words(), high, within)
}

// Failures say how often engines fail, and which of them together.
type Failures struct {
	// ReplicaAvailability is the probability that a failure domain is up.
	ReplicaAvailability float64
	// DomainGPUs is how many GPUs fail together: at least one engine; 8 for
	// servers of eight. 0 = each engine by itself.
	DomainGPUs int
}

// NewPlan adds spares and costs to a sized fleet.
func NewPlan(s Sized, w Workload, slo SLO, f Failures, provenance profile.Provenance) (Plan, error) {
	p := Plan{
		Strategy: s.Layout.Strategy, Layout: s.Layout.Name(), Binding: s.Binding, Infeasible: s.Infeasible, Provenance: provenance,
		Warnings: slices.Concat(s.Warnings, w.Warnings()), SimulatedSizes: s.Trials,
	}
	if s.Infeasible != nil {
		return p, nil
	}
	spares, err := s.spares(slo, f)
	if err != nil {
		return p, err
	}
	var gpus []float64
	for i, pool := range s.Layout.Pools {
		pp := PoolPlan{
			Role: pool.Engine.Role, Engine: pool.Label, GPU: pool.GPU, FromDataSheet: pool.FromDataSheet, Engines: s.Replicas[i], SpareEngines: spares.Pools[i].Groups - s.Replicas[i], GPUs: spares.Pools[i].GPUs, Nodes: pool.Nodes, Router: pool.Router, MaxModelLen: pool.Engine.Limits.MaxModelLen, Load: s.At.Pools[i],
			USDPerGPUHour: pool.USDPerGPUHour, InstanceGPUs: pool.InstanceGPUs,
		}
		p.Pools = append(p.Pools, pp)
		p.Groups += pp.Engines
		p.TotalGPUs += pp.Engines * pool.GPUs
		p.TotalGPUsFinal += pp.GPUs
		gpus = append(gpus, float64(pp.GPUs))
	}
	p.BurstHeadroomFactor, p.TotalGPUsWithBurst = 1, p.TotalGPUs
	p.RedundancyGPUs = p.TotalGPUsFinal - p.TotalGPUs
	if len(s.Replicas) > 1 {
		p.PrefillGroups, p.DecodeGroups = s.Replicas[0], s.Replicas[1]
		p.PrefillGPUs, p.DecodeGPUs = s.Replicas[0]*s.Layout.Pools[0].GPUs, s.Replicas[1]*s.Layout.Pools[1].GPUs
		p.PrefillDecodeRatio = float64(p.PrefillGroups) / float64(p.DecodeGroups)
	}
	if slo.Availability > 0 {
		p.Availability = spares.Availability
	}
	p.latencies(s.At)
	billed, hourly := s.Layout.Billed(gpus)
	p.BilledGPUs = int(billed)
	p.Costs = hourlyCosts(hourly, w.Rate, w.Rate*w.OSL)
	p.Average = hourlyCosts(hourly, w.AverageRate(), w.AverageRate()*w.OSL)
	return p, nil
}

func (p *Plan) latencies(t Trial) {
	ms := func(x engine.Picoseconds) float64 { return x.Milliseconds() }
	p.EstimatedTTFTMs, p.EstimatedITLMs = ms(t.TTFT.At), ms(t.ITL.At)
	p.EstimatedTTFTP50Ms, p.EstimatedTTFTP99Ms = ms(t.TTFT.P50), ms(t.TTFT.P99)
	p.EstimatedITLP50Ms, p.EstimatedITLP99Ms = ms(t.ITL.P50), ms(t.ITL.P99)
	p.EstimatedGapP99Ms = ms(t.Gaps.P99)
	p.EstimatedE2EP50Ms, p.EstimatedE2EP99Ms = ms(t.E2E.P50), ms(t.E2E.P99)
	p.Attainment = 1 - t.missed()
}

// spares are those for the SLO's availability; none where it has none.
func (s Sized) spares(slo SLO, f Failures) (Redundancy, error) {
	var pools []Pool
	for i, n := range s.Replicas {
		pool := s.Layout.Pools[i]
		pools = append(pools, Pool{
			Name: string(pool.Engine.Role), Groups: n, GPUsPerGroup: pool.GPUs, GroupsPerDomain: max(1, f.DomainGPUs/pool.GPUs),
		})
	}
	if slo.Availability > 0 {
		r, err := Spares(pools, f.ReplicaAvailability, slo.Availability)
		if err != nil {
			return r, fmt.Errorf("planning %s: %w", s.Layout.Name(), err)
		}
		return r, nil
	}
	var r Redundancy
	for _, p := range pools {
		r.Pools = append(r.Pools, PoolSpares{Name: p.Name, Groups: p.Groups, GPUs: p.Groups * p.GPUsPerGroup})
	}
	return r, nil
}
