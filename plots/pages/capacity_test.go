package pages_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"plimsoll/capacity"
	"plimsoll/engine"
	"plimsoll/plots/pages"
	"plimsoll/profile"
)

// fleet is a plan of so many aggregated engines.
func fleet(layout string, engines int, usd capacity.USD) pages.CapacityPlan {
	return pages.CapacityPlan{GPU: "H100-SXM", Plan: capacity.Plan{
		Strategy: capacity.Aggregated, Layout: layout, TotalGPUsFinal: engines, Binding: "ITL, by the aggregated pool", Costs: capacity.Costs{HourlyUSD: usd, AnnualUSD: usd * 8760, Per1kQueriesUSD: usd / 36},
		Pools:              []capacity.PoolPlan{{Role: engine.RoleAggregated, Engine: layout, GPU: "H100-SXM", Engines: engines, GPUs: engines, Load: capacity.Load{Utilisation: .42, KVUse: .1, Running: 3, Waiting: .5}}},
		EstimatedTTFTP99Ms: 160.5, EstimatedITLP99Ms: 9.026, EstimatedE2EP99Ms: 2431,
	}}
}

// plan is a page of two rates, one TTFT and two ITLs, of which the tighter cannot be
// held at the higher rate.
func plan() pages.Capacity {
	two, three := fleet("TP:1", 2, 13.76), fleet("TP:1", 3, 20.64)
	return pages.Capacity{
		Origin: pages.Origin{Title: "Capacity for a model", Provenance: profile.Estimated, Virtual: true, Version: "v0", Command: "plimsoll capacity plan --report x.html"},
		SLO:    capacity.SLO{TTFTP99: 200 * time.Millisecond, ITLP99: 16 * time.Millisecond},
		Plans:  []pages.CapacityPlan{two, func() pages.CapacityPlan { p := fleet("TP:2", 4, 27.5); p.Rough = true; return p }()},
		Grid: pages.CapacityGrid{QPS: []float64{10, 20}, TTFT: []float64{200}, ITL: []float64{8, 16}, Own: [3]int{0, 0, 1}, Cells: []pages.CapacityCell{
			{Plan: three, Command: "plan at 10, 8"}, {Plan: two, Command: "plan at 10, 16"}, {Why: "decoding alone takes 9 ms", Command: "plan at 20, 8"}, {Plan: three, Command: "plan at 20, 16"},
		}},
		Details: []pages.Fact{{Name: "routing", Text: "least loaded"}}, Beside: []pages.CapacityVariant{{Name: "on demand", GPUs: 2, HourlyUSD: 20, Saving: "31 %", Missed: "–"}},
		Unmet: []pages.Fact{{Name: "TP:8", Text: "too slow"}}, LeftOut: []pages.Fact{{Name: "TP:4", Text: "no room"}}, Assumptions: []string{"no engine fails"},
	}
}

// What the step times' error makes of the number stands beside it.
func TestCapacityHeadlineHasItsRange(t *testing.T) {
	t.Parallel()
	c := plan()
	c.Plans[0].Range = capacity.Range{Factor: 1.8, Low: 2, High: 5}
	if page := unescaped(t, c); !strings.Contains(page, "2 engines. Within the step times' error, a factor of 1.80, it is 2 GPUs to 5 GPUs.</p>") {
		t.Error("no range beside the headline")
	}
}

// Sizes, cost, utilisation, alternatives and assumptions are on the page without its
// script, and so are all plans that can be chosen.
func TestCapacityPage(t *testing.T) {
	t.Parallel()
	page := unescaped(t, plan())
	for _, want := range []string{
		"2 GPUs (H100-SXM) for $13.76 an hour hold the SLO: TP:1, 2 engines.", `<input id="qps" type="range" min="0" max="1" step="1" value="0" data-unit="requests/s">`, `<output id="itl-shown" for="itl">16 ms</output>`,
		`<p class="label">2 <small>GPUs</small></p>`, "$13.76 an hour, $120,538 a year, $0.3822 per 1,000 requests at the peak", "TTFT p99 160.5 ms, ITL p99 9.026 ms, end to end p99 2.431 s", `<code id="command">plan at 10, 16</code>`,
		"aggregated, TP:1 on H100-SXM", `</meter> 42 %`, `data-name="In flight" data-unit="">1.5<`, `data-name="GPUs" data-unit="" data-value="4">≈ 4<`, "≈: by short trials", `data-value="27.5">$27.50<`,
		"decoding alone takes 9 ms", "All 4 plans that can be chosen", "routing", "on demand", "31 %", "too slow", "no room", "no engine fails", "plimsoll capacity plan --report x.html", "<strong>estimated</strong>",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has not %q", want)
		}
	}
	if strings.Contains(page, `id="ttft" type="range"`) {
		t.Error("a TTFT of one stop has a slider")
	}
}

// The page's data are the plans, in words, and a chart's marks are named as they are.
func TestCapacityData(t *testing.T) {
	t.Parallel()
	var d struct {
		Own   [3]int
		Cells []struct {
			Key, Layout, Against, Why, Command string
			GPUs                               int
			USD                                float64
		}
		Charts []struct {
			Title  string
			Series []struct {
				Name   string
				Points []struct {
					X, Y float64
					ID   string
				}
			}
		}
		Alternatives []struct {
			Series []struct {
				Bare   bool
				Points []struct{ X, Y float64 }
			}
			Limits []struct{ X float64 }
		}
	}
	if err := json.Unmarshal([]byte(between(t, unescaped(t, plan()), `id="data">`, "</script>")), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Cells) != 4 || d.Own != [3]int{0, 0, 1} {
		t.Fatalf("%+v", d)
	}
	for i, want := range []struct {
		key     string
		gpus    int
		usd     float64
		against string
		command string
	}{
		{"0-0-0", 3, 20.64, "+50.0 % against what was asked for", "plan at 10, 8"}, {"0-0-1", 2, 13.76, "", "plan at 10, 16"}, {"1-0-0", 0, 0, "", "plan at 20, 8"}, {"1-0-1", 3, 20.64, "+50.0 % against what was asked for", "plan at 20, 16"},
	} {
		if c := d.Cells[i]; c.Key != want.key || c.GPUs != want.gpus || c.USD != want.usd || c.Against != want.against || c.Command != want.command || (c.Why == "") != (want.gpus > 0) {
			t.Errorf("cell %d is %+v, want %+v", i, c, want)
		}
	}
	rate := d.Charts[0].Series[0]
	if len(d.Charts) != 2 || d.Charts[0].Title != "Cost by rate" || len(rate.Points) != 2 || rate.Points[1].X != 20 || rate.Points[1].Y != 20.64 || rate.Points[1].ID != "1-0-1" {
		t.Errorf("%+v", d.Charts)
	}
	if a := d.Alternatives; len(a) != 2 || len(a[0].Series[0].Points) != 2 || !a[0].Series[0].Bare || a[0].Limits[0].X != 200 || a[1].Limits[0].X != 16 || a[1].Series[0].Points[1].Y != 27.5 {
		t.Errorf("%+v", d.Alternatives)
	}
}

// Nothing holds: the page says so, and what would hold can still be chosen. Of a
// trace the rate is its own.
func TestCapacityPageWithoutAPlan(t *testing.T) {
	t.Parallel()
	c := plan()
	c.Plans, c.Details, c.Grid.Own = nil, nil, [3]int{1, 0, 0}
	page := unescaped(t, c)
	for _, want := range []string{"No fleet that was looked at holds the SLO.", `<div class="pick missed"><h3>fleet</h3><p class="label">none</p><p>decoding alone takes 9 ms</p>`, `"against":""`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has not %q", want)
		}
	}
	c = plan()
	c.Grid.QPS, c.Grid.Cells = c.Grid.QPS[:1], c.Grid.Cells[:2]
	if page := unescaped(t, c); strings.Contains(page, `id="qps"`) || strings.Contains(page, "Cost by rate") || strings.Contains(page, "Rate <small>") {
		t.Error("a rate can be chosen of which there is one")
	}
}

func TestCapacityRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*pages.Capacity)
		want   string
	}{
		{"cells", func(c *pages.Capacity) { c.Grid.Cells = c.Grid.Cells[:3] }, "has 3 cells: want 4"},
		{"no stops", func(c *pages.Capacity) { c.Grid.TTFT = nil }, "0 TTFTs"},
		{"place", func(c *pages.Capacity) { c.Grid.Own[2] = 2 }, "at 2 of 2"},
		{"order", func(c *pages.Capacity) { c.Grid.QPS[0] = 30 }, "that rise"},
		{"not a number", func(c *pages.Capacity) { c.Grid.ITL[1] = math.NaN() }, "that rise"},
		{"empty", func(c *pages.Capacity) { c.Grid.Cells[2].Why = "" }, "does not say why"},
		{"money", func(c *pages.Capacity) { c.Plans[1].HourlyUSD = capacity.USD(math.Inf(1)) }, "+Inf"},
	} {
		x := plan()
		c.change(&x)
		if b, err := x.HTML(); err == nil || b != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
