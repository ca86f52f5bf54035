package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"plimsoll/capacity"
	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
)

// maxPlanBytes bounds a file that holds a plan; more is another file.
const maxPlanBytes = 64 << 20

// readPlan reads what capacity plan printed, and refuses what it never prints.
func readPlan(r io.Reader) (sizedPlans, error) {
	var out sizedPlans
	b, err := io.ReadAll(io.LimitReader(r, maxPlanBytes+1))
	if err != nil {
		return out, fmt.Errorf("reading the plan: %w", err)
	}
	if len(b) > maxPlanBytes {
		return out, fmt.Errorf("more than %d MiB: that is no plan", maxPlanBytes>>20)
	}
	if err := json.Unmarshal(b, &out); err != nil {
		return out, fmt.Errorf("not a plan in JSON: %w (hint: capacity plan --format json > plan.json writes one)", engine.PlainJSON("the file", err))
	}
	if len(out.Plans) == 0 && len(out.Infeasible) > 0 {
		return out, fmt.Errorf("its plan is infeasible: %s", out.Infeasible[0].Why)
	}
	if len(out.Plans) == 0 {
		return out, errors.New("it holds no sized plan: want what capacity plan --format json prints with --method sized")
	}
	p := out.Plans[0]
	if p.Infeasible != nil {
		return out, fmt.Errorf("its plan is infeasible: %s", p.Infeasible.Why)
	}
	errs := []error{out.Workload.Check(), out.SLO.Check(), out.Inputs.Caches.check()}
	want := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	pools := map[capacity.Strategy]int{capacity.Aggregated: 1, capacity.Disaggregated: 2}[p.Strategy]
	want(pools > 0 && len(p.Pools) == pools, "a plan of %d pools, %q: want one aggregated or two disaggregated", len(p.Pools), p.Strategy)
	want(p.TotalGPUsFinal > 0 && !(p.HourlyUSD < 0 || p.HourlyUSD > 1e12), "total_gpus_final %d and hourly_cost_usd %v: want 1 GPU at least, and a price", p.TotalGPUsFinal, p.HourlyUSD)
	want(p.Chunk == nil || p.Chunk.Kept != "" || p.Chunk.Tokens >= 64 && p.Chunk.Tokens <= maxTokens, "chunk.max_num_batched_tokens is not 64 to %d", int(maxTokens))
	for _, pool := range p.Pools {
		want(!(pool.USDPerGPUHour < 0 || pool.USDPerGPUHour > 1e6) && pool.InstanceGPUs >= 0 && pool.InstanceGPUs <= maxGPUs,
			"GPUs at $%v in instances of %d in the %s pool: want a price, and 0 to %d", pool.USDPerGPUHour, pool.InstanceGPUs, pool.Role, maxGPUs)
		want(pool.Engines > 0 && pool.Engines <= maxReplicas && pool.SpareEngines >= 0 && pool.SpareEngines <= maxReplicas,
			"%d engines and %d spare ones in the %s pool: want 1 to %d, and 0 or more", pool.Engines, pool.SpareEngines, pool.Role, maxReplicas)
		n := max(1, pool.Engines+pool.SpareEngines)
		want(pool.GPUs >= n && pool.GPUs%n == 0 && pool.GPUs/n <= maxGPUs, "%d GPUs of %d engines in the %s pool: want as many for each, 1 to %d", pool.GPUs, n, pool.Role, maxGPUs)
	}
	return out, errors.Join(errs...)
}

// check says what capacity plan never writes.
func (p planCaches) check() error {
	if !p.Reuse {
		return nil
	}
	if _, err := fleet.ParseRouter(string(p.Router)); err != nil {
		return fmt.Errorf("inputs.caches: %w", err)
	}
	if p.DRAMBytes < 0 || p.DRAMBytes > 1e9*(1<<30) || p.DRAMBytes > 0 && !(p.DRAMPerSecond > 0 && p.DRAMPerSecond <= 1e15) {
		return fmt.Errorf("inputs.caches: %v bytes of DRAM at %v bytes/s: want 0 or more, at a speed above 0", p.DRAMBytes, p.DRAMPerSecond)
	}
	return nil
}
