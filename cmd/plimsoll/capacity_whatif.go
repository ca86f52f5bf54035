package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/capacity"
	"plimsoll/capacity/prices"
	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/engine/sim/build"
	"plimsoll/engine/sim/fleet"
)

func whatIfFlags() []cli.Flag {
	return append(stringFlags("what if", [][3]string{
		{"kv-dram", "", "memory of the host below each engine's KV cache, `GiB`, where prompts begin alike"},
		{"kv-dram-bandwidth", itoa(dramGBs), "from there, `GB/s` per engine"},
		{"interruptions-per-hour", "0.05", "with --spot-decode: how often each decode engine is taken away, `N`"},
		{"start-up", "2m", "with --spot-decode: until its replacement takes requests, `time`"},
	}), &cli.BoolFlag{Name: "spot-decode", Usage: "decode on spot GPUs: their price, and what interruptions do", Category: "what if"})
}

// parseWhatIf reads what the plan may make use of.
func parseWhatIf(p *parser, o *capacityOptions) {
	o.spotDecode = p.c.Bool("spot-decode")
	p.needs(o.spotDecode, "with --spot-decode", "interruptions-per-hour", "start-up")
	o.interruptions = capacity.Interruptions{Pool: 1, PerHour: p.number("interruptions-per-hour", 0, 60), StartUp: p.duration("start-up")}
	if o.spotDecode && o.strategy == capacity.Aggregated {
		p.fail(field.Errorf("--spot-decode needs --strategy disaggregated, as aggregated engines also prefill"))
	}
	if o.spotDecode && o.money.kind == prices.Spot {
		p.fail(field.Errorf("--spot-decode and --spot: want one of them").Hint("--spot has all GPUs at spot prices; --spot-decode decode's alone, and says what interruptions do"))
	}
	if o.spotDecode && (o.money.said.Any() || o.money.cloud == "") {
		p.fail(field.Errorf("--spot-decode takes its prices from the table, all of one cloud: want --cloud NAME and no --cost-per-gpu-hour"))
	}
	if o.spotDecode {
		o.strategy = capacity.Disaggregated
	}
	o.caches = o.shared()
	o.caches.dram = p.storage("kv-dram")
	p.needs(o.caches.reuse, "where prompts begin alike: with --prefix-groups, or a trace that says so", "kv-dram")
	p.needs(o.caches.dram.Bytes > 0, "with --kv-dram", "kv-dram-bandwidth")
}

// shared are the caches for what the prompts of a demand share.
func (d demand) shared() caches {
	return caches{reuse: d.workload.Prefixes.Groups > 0 || d.stats.Blocks.Repeated > 0, router: fleet.KVAware}
}

// whatIf is the cheapest plan's layout sized with something else, or what it
// risks.
type whatIf struct {
	Name      string         `json:"name"`
	GPUs      int            `json:"gpus"` // spares included; 0 = no number holds the SLO
	HourlyUSD capacity.USD   `json:"hourly_cost_usd"`
	Saving    float64        `json:"saving"` // of the plan against this, a share of its cost; below 0: the plan costs more
	Risk      *capacity.Risk `json:"risk,omitempty"`

	this bool // the plan itself
}

// whatIfs are sized by short trials, the plan's own too, so that they compare.
func (z *sizing) whatIfs() ([]whatIf, error) {
	if !feasible(z.plans) {
		return nil, nil
	}
	best := z.plans[0]
	var out []whatIf
	for _, v := range z.caches.variants() {
		other := best.candidate
		var err error
		if other.layout, err = best.candidate.build(engine.Factors{}, v.caches); err != nil {
			return nil, err
		}
		p, err := z.sizeOne(other, z.traffic, capacity.SizeOptions{Rough: true})
		if err != nil {
			return nil, err
		}
		w := whatIf{Name: v.name, GPUs: p.TotalGPUsFinal, HourlyUSD: p.HourlyUSD}
		if p.Infeasible == nil {
			w.Saving = best.saving(p.HourlyUSD, p.TotalGPUsFinal)
		}
		out = append(out, w)
	}
	if !z.spotDecode {
		return out, nil
	}
	spot, err := z.spot(best)
	return append(out, spot...), err
}

// variant is a way to do without something.
type variant struct {
	name   string
	caches caches
}

func (c caches) variants() []variant {
	if !c.reuse {
		return nil
	}
	var out []variant
	if c.dram.Bytes > 0 {
		less := c
		less.dram = build.KVTier{}
		out = append(out, variant{"without KV in DRAM", less})
	}
	c.router = fleet.LeastLoaded
	return append(out, variant{"caches, but requests routed by load alone", c}, variant{"without reuse of prompts' KV", caches{}})
}

// spot is the plan with its decode engines on demand, and on spot GPUs with as
// many more as interruptions take.
func (z *sizing) spot(best sizedPlan) ([]whatIf, error) {
	price := z.money.of(best.Pools[1].GPU, best.candidate.layout.Pools[1].GPUs)
	onDemand := best.candidate.layout
	onDemand.Pools = slices.Clone(onDemand.Pools)
	onDemand.Pools[1].USDPerGPUHour, onDemand.Pools[1].InstanceGPUs = price.usd, price.instance
	replicas := []int{best.Pools[0].Engines + best.Pools[0].SpareEngines, best.Pools[1].Engines + best.Pools[1].SpareEngines}
	demand := onDemand.HourlyUSD(replicas)
	risk, err := capacity.Interrupted(best.candidate.layout, replicas, z.traffic, z.slo, z.interruptions, z.seed)
	if err != nil {
		return nil, err
	}
	out := []whatIf{
		{Name: "decode on demand", GPUs: best.TotalGPUsFinal, HourlyUSD: demand, Saving: best.saving(demand, best.TotalGPUsFinal)},
		{Name: "this plan with interruptions", GPUs: best.TotalGPUsFinal, HourlyUSD: best.HourlyUSD, Risk: &risk, this: true},
	}
	more, after, err := capacity.Hardened(best.candidate.layout, replicas, z.traffic, z.slo, z.interruptions, z.seed)
	if err != nil || more[1] == replicas[1] {
		return out, err
	}
	layout := best.candidate.layout
	hard := whatIf{Name: "so many that interruptions are made up for", GPUs: layout.GPUs(more), HourlyUSD: layout.HourlyUSD(more), Risk: &after}
	if after.Missed > 0.01 {
		hard.Name = "half as many decode engines again, which is not enough"
	}
	hard.Saving = best.saving(hard.HourlyUSD, hard.GPUs)
	return append(out, hard), nil
}

// saving is what the plan spares against another fleet, a share of its cost; of its
// GPUs where these cost nothing, or have no price.
func (p sizedPlan) saving(usd capacity.USD, gpus int) float64 {
	if usd > 0 && p.HourlyUSD.Known() {
		return float64(1 - p.HourlyUSD/usd)
	}
	return 1 - float64(p.TotalGPUsFinal)/float64(gpus)
}

func whatIfLines(all []whatIf) []string {
	if len(all) == 0 {
		return nil
	}
	t := newTable("what if", "GPUs", "$/hour", "the plan saves", "requests that miss")
	for _, w := range all {
		gpus, usd, saves, missed := itoa(w.GPUs), amount(w.HourlyUSD), fmt.Sprintf("%.0f %%", 100*w.Saving), "–"
		if w.GPUs == 0 {
			gpus, usd, saves = "none holds", "–", "–"
		}
		if w.this {
			saves = "–"
		}
		if w.Risk != nil {
			missed = riskWords(*w.Risk)
		}
		t.row(w.Name, gpus, usd, saves, missed)
	}
	return append([]string{"beside it:"}, strings.Split(strings.TrimSuffix(t.text(""), "\n"), "\n")...)
}

// riskWords say which requests miss.
func riskWords(r capacity.Risk) string {
	return fmt.Sprintf("%.2f %%, without interruptions %.2f %% (%d interruptions in %s)", 100*r.Missed, 100*r.MissedWithout, r.Interruptions, time.Duration(r.Hours*float64(time.Hour)).Round(time.Minute))
}
