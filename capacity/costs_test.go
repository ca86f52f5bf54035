package capacity

import (
	"encoding/json"
	"testing"

	"plimsoll/engine"
)

// What has no price is not free: it is null in a file and costs nothing known.
func TestUnknownCosts(t *testing.T) {
	l := apart(cheapPool(engine.RolePrefill, cheap{step: milli}, 1, 10, 10), cheapPool(engine.RoleDecode, cheap{step: milli}, 1, 10, 10))
	l.Pools[0].USDPerGPUHour, l.Pools[1].USDPerGPUHour = 2, UnknownUSD()
	if err := l.Check(); err != nil || l.Priced() || l.HourlyUSD([]int{1, 1}).Known() {
		t.Errorf("%v, priced %v, $%v", err, l.Priced(), l.HourlyUSD([]int{1, 1}))
	}
	costs := hourlyCosts(l.HourlyUSD([]int{1, 1}), 1, 1)
	b, err := json.Marshal(costs)
	if err != nil {
		t.Fatal(err)
	}
	var back Costs
	if err := json.Unmarshal(b, &back); err != nil || back.HourlyUSD.Known() || back.Per1MTokensUSD.Known() {
		t.Errorf("%s: %+v, %v", b, back, err)
	}
}

// GPUs that cost nothing, or have no price, are counted: of two fleets of them the
// smaller one is sized for.
func TestFreeFleetsRankByGPUs(t *testing.T) {
	k := limited()["apart"]
	traffic, err := k.w.PeakTraffic()
	if err != nil {
		t.Fatal(err)
	}
	paid, err := Size(k.layout, traffic, k.slo, SizeOptions{Seed: 1, Rough: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, usd := range []USD{0, UnknownUSD()} {
		l := k.layout.Ranked()
		for i := range l.Pools {
			l.Pools[i].USDPerGPUHour = usd
		}
		got, err := Size(l, traffic, k.slo, SizeOptions{Seed: 1, Rough: true})
		if err != nil || got.GPUs != paid.GPUs || got.HourlyUSD > 0 {
			t.Errorf("at $%v: %d GPUs for $%v, %v; at a price %d", usd, got.GPUs, got.HourlyUSD, err, paid.GPUs)
		}
		more := []int{got.Replicas[0], got.Replicas[1] + 1}
		if ranked := l.Ranked(); !(ranked.HourlyUSD(more) > ranked.HourlyUSD(got.Replicas)) || !(l.FloorUSD(traffic, k.slo) > 0) {
			t.Errorf("at $%v: %v costs $%v, %v $%v", usd, more, ranked.HourlyUSD(more), got.Replicas, ranked.HourlyUSD(got.Replicas))
		}
	}
}
