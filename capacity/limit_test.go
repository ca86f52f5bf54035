package capacity

import (
	"slices"
	"testing"
	"time"

	"plimsoll/engine"
)

// limited are layouts with the workload and the SLO that size them, and without a
// limit take so many engines.
func limited() map[string]offer {
	decode := cheapPool(engine.RoleDecode, cheap{step: 10 * milli, seq: 200 * us}, 1000, 1e6, 8192)
	alone := cheapPool(engine.RoleAggregated, cheap{step: 5 * milli, prompt: 20 * us, seq: 100 * us}, 200, 1e6, 2048)
	return map[string]offer{
		"apart":    {apart(cheapPool(engine.RolePrefill, cheap{prompt: 100 * us}, 100, 1e6, 500), decode), fixed(30, 500, 50), SLO{TTFT: time.Second, ITL: 50 * ms}},
		"together": {together(alone), fixed(150, 300, 30), SLO{TTFT: time.Second, ITL: 60 * ms}},
	}
}

type offer struct {
	layout Layout
	w      Workload
	slo    SLO
}

func TestMostWithinALimit(t *testing.T) {
	k := limited()["apart"]
	traffic, _ := k.w.PeakTraffic()
	k.layout.Pools[0].USDPerGPUHour, k.layout.Pools[1].USDPerGPUHour = 2, 3
	floor := k.layout.floor(traffic, k.slo)
	for _, cells := range []int{1, 4} {
		for spare := -1; spare < 20; spare++ {
			s := search{layout: k.layout, traffic: traffic, slo: k.slo, cells: cells, limitUSD: USD(cells) * (k.layout.HourlyUSD(floor) + USD(spare))}
			got := s.most()
			if spare < 0 {
				if got != nil {
					t.Errorf("%v below the floor's cost", got)
				}
				continue
			}
			if want := []int{floor[0] + spare/2, floor[1] + spare/3}; !slices.Equal(got, want) {
				t.Errorf("%v with $%d more than the floor costs, want %v", got, spare, want)
			}
		}
	}
	s := search{layout: k.layout, traffic: traffic, slo: k.slo, cells: 1, limitUSD: 1e9}
	if got := s.most(); got[0] != 64*floor[0] || got[1] != 64*floor[1] {
		t.Errorf("%v of a limit that is none, floor %v", got, floor)
	}
}

// Where an engine decodes one sequence at a time, 64 times the floor would be
// engines that no request ever sees.
func TestIdleEnginesHelpNoOne(t *testing.T) {
	p := cheapPool(engine.RoleDecode, cheap{step: 20 * milli}, 10, 1e6, 512)
	traffic, _ := fixed(100, 10, 100).PeakTraffic()
	// 100/s for 100 steps of 20 ms are 200 at once; of twice as many, 5·√400 more.
	if got := p.idle(traffic); got != 400+100+5 {
		t.Errorf("%d", got)
	}
	p.Engine.Role = engine.RolePrefill // a step is all that a prompt takes: 2 at once
	if got := p.idle(traffic); got != 4+10+5 {
		t.Errorf("%d", got)
	}
}
