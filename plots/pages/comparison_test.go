package pages_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"plimsoll/plots/pages"
	"plimsoll/profile"
)

// compared are two profiles; b's points are those given.
func compared(b ...profile.Point) pages.Comparison {
	a := profiled(point(profile.Prefill, 2, 100*time.Millisecond, 9000), point(profile.Decode, 1, 10*time.Millisecond, 700))
	a.Facts = []pages.Fact{{Name: "Engine", Text: "vllm 0.9"}, {Name: "GPU", Text: "H100-SXM"}}
	other := profiled(b...)
	other.Facts = []pages.Fact{{Name: "Engine", Text: "vllm 0.10"}, {Name: "GPU", Text: "H100-SXM"}, {Name: "Mended", Text: "yes"}}
	other.Command = "plimsoll profile-sla --tp 2"
	return pages.Comparison{
		Origin: pages.Origin{Title: "Two profiles", Provenance: profile.Measured, Version: "v0", Command: "plimsoll report a b"},
		Sides:  [2]pages.Side{{Profile: a, Name: "old"}, {Profile: other, Name: "new"}},
	}
}

// A difference is shown where, and only where, the two intervals do not overlap; its
// own interval then leaves 0 out.
func TestDifferenceIsShownWhereIntervalsAreApart(t *testing.T) {
	t.Parallel()
	decode := point(profile.Decode, 1, 10*time.Millisecond, 700)
	for _, c := range []struct {
		name       string
		throughput float64
		half       float64 // 0: no interval
		want       string
	}{
		{"apart above", 9500, 100, `>+5.6 % (+4.3 % to +6.8 %)</td><td role="cell" data-name="Says" data-unit=""><b>more</b>`},
		{"apart below", 8500, 100, `<b>less</b>`},
		{"overlapping", 9050, 100, `no difference shown`},
		{"touching", 9110, 100, `no difference shown`},
		{"just apart", 9111, 100, `<b>more</b>`},
		{"the same", 9000, 100, `>±0.0 % (`},
		{"without an interval", 12000, 0, `>+33.3 %</td><td role="cell" data-name="Says" data-unit="">no interval: not known what noise would do`},
		{"nothing there", 0, 0, `>–</td><td role="cell" data-name="Says" data-unit="">not comparable`},
	} {
		b := point(profile.Prefill, 2, 90*time.Millisecond, c.throughput)
		b.Throughput95 = profile.Interval{}
		if c.half > 0 {
			b.Throughput95 = profile.Interval{Low: c.throughput - c.half, High: c.throughput + c.half}
		}
		page := unescaped(t, compared(b, decode))
		row := between(t, between(t, page, `id="picked-prefill"`, `id="picked-decode"`), `Throughput <small>tokens/s/GPU</small>`, "</tr>")
		if !strings.Contains(row, c.want) {
			t.Errorf("%s: %s\nwant %q", c.name, row, c.want)
		}
	}
}

// The page says what was compared, which of it differs, both picks, what both looked
// at, and how to make each again.
func TestComparisonPage(t *testing.T) {
	t.Parallel()
	c := compared(point(profile.Prefill, 4, 80*time.Millisecond, 9000), point(profile.Decode, 1, 8*time.Millisecond, 900), point(profile.Decode, 2, 9*time.Millisecond, 500))
	c.Sides[0].USD, c.Sides[1].USD = 2, 4
	c.Sides[0].Ending = pages.Ending{Suggested: []string{"Suggested prefill TP:2"}}
	c.Sides[1].Ending = pages.Ending{Infeasible: "not an answer", Shortfall: []string{"could be promised: --itl 8"}}
	c.Sides[0].Prefill.Samples = []profile.PrefillSample{{ISL: 100, TTFT: 20 * time.Millisecond, ThroughputPerGPU: 5000}}
	page := unescaped(t, c)
	for _, want := range []string{
		"prefill: A picks TP:2, B TP:4; throughput per GPU ±0.0 %: no difference shown.", "decode: TP:1 in both; B's throughput per GPU is +28.6 %.",
		`<tr role="row" class="odd"><th role="rowheader" scope="row">Engine <small>differs</small></th><td role="cell" class="wordy" data-name="A" data-unit="">vllm 0.9</td>`,
		`<tr role="row"><th role="rowheader" scope="row">GPU</th>`, `Mended <small>differs</small></th><td role="cell" class="wordy" data-name="A" data-unit="">–</td>`,
		"TP:1, 1 in flight", "No configuration was looked at under the same load in both.", "plimsoll profile-sla --tp 2", "plimsoll report a b", "USD",
		"A is old, B is new", "<li>Suggested prefill TP:2</li>", "<strong>infeasible</strong> – not an answer", "<li>could be promised: --itl 8</li>",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has not %q", want)
		}
	}
	var data struct {
		Charts []struct {
			Title  string
			Series []struct {
				Name          string
				Colour, Shape int
				Dashed        bool
				Points        []struct{ X, Y, Low, High float64 }
			}
			Limits []struct {
				X      float64
				Name   string
				Colour *int
			}
		}
	}
	if err := json.Unmarshal([]byte(between(t, page, `id="data">`, "</script>")), &data); err != nil {
		t.Fatal(err)
	}
	titles := map[string]int{}
	for i, c := range data.Charts {
		titles[c.Title] = i
	}
	decode := data.Charts[titles["decode: throughput by ITL"]]
	if len(decode.Series) != 3 || decode.Series[0].Name != "A TP:1" || decode.Series[1].Name != "B TP:1" || decode.Series[1].Shape != decode.Series[0].Shape ||
		decode.Series[1].Colour == decode.Series[0].Colour || !decode.Series[1].Dashed || decode.Series[2].Shape == decode.Series[0].Shape {
		t.Errorf("%+v", decode)
	}
	if p := decode.Series[1].Points[0]; p.X != 8 || p.Y != 900 || p.Low != 890 || p.High != 910 || len(decode.Limits) != 1 || decode.Limits[0].X != 20 {
		t.Errorf("%+v", decode)
	}
	if _, there := titles["decode: ITL by KV use, at each pick"]; there || len(data.Charts) != 4 {
		t.Errorf("charts %v: want none without a point", titles)
	}
}

// Limits that differ have their sides' colours; one that is both sides' has neither.
func TestLimitsHaveTheirSidesColours(t *testing.T) {
	t.Parallel()
	c := compared(point(profile.Prefill, 4, 80*time.Millisecond, 9000), point(profile.Decode, 1, 8*time.Millisecond, 900))
	c.Sides[1].SLA.ITL = 30 * time.Millisecond
	data := between(t, unescaped(t, c), `id="data">`, "</script>")
	for _, want := range []string{`[{"x":200,"name":"SLA 200 ms"}]`, `[{"x":20,"name":"A: SLA 20 ms","colour":0},{"x":30,"name":"B: SLA 30 ms","colour":6}]`} {
		if !strings.Contains(data, want) {
			t.Errorf("the charts have not %q", want)
		}
	}
}

// What a request costs is that at the rates which the picks are recommended at, where
// both sides have them; a pick that held at none has no cost.
func TestCostIsAtRecommendedRates(t *testing.T) {
	t.Parallel()
	c := compared(point(profile.Prefill, 4, 80*time.Millisecond, 9000), point(profile.Decode, 1, 8*time.Millisecond, 900))
	rates := func(prefill, decode pages.Recommended) pages.Ending {
		return pages.Ending{Recommended: map[profile.Phase]pages.Recommended{profile.Prefill: prefill, profile.Decode: decode}}
	}
	c.Sides[0].Ending = rates(pages.Recommended{Rate: 4}, pages.Recommended{Rate: 2})
	cost := func() string { return between(t, unescaped(t, c), `id="picked-cost"`, "</table>") }
	if got := cost(); !strings.Contains(got, "<small>at full closed-loop load</small>") || !strings.Contains(got, ">0.5476 (") {
		t.Errorf("one side alone has rates, and the page has not both at full load: %s", got)
	}
	c.Sides[1].Ending = rates(pages.Recommended{Rate: 10}, pages.Recommended{Rate: 5})
	if got := cost(); !strings.Contains(got, "<small>at the recommended rates</small>") || !strings.Contains(got, ">1 (") || !strings.Contains(got, ">0.6 (") {
		t.Errorf("want 2/4 + 1/2 and 4/10 + 1/5 GPU-seconds: %s", got)
	}
	c.Sides[1].Ending = rates(pages.Recommended{Rate: 10}, pages.Recommended{Missed: true})
	if got := cost(); !strings.Contains(got, `data-name="B" data-unit="">–</td>`) {
		t.Errorf("a pick that missed at every rate has a cost: %s", got)
	}
}

func TestComparisonRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*pages.Comparison)
		want   string
	}{
		{"nothing", func(c *pages.Comparison) { c.Sides[1].Points = nil }, "B: no points"},
		{"lengths", func(c *pages.Comparison) { c.Sides[1].ISL = 100 }, "ISL 3000 and 100, OSL 150 and 150: want the same workload"},
		{"kinds", func(c *pages.Comparison) {
			c.Sides[1].Points = []profile.Point{point(profile.Aggregated, 1, time.Second, 5)}
		}, "aggregated engines and others"},
	} {
		x := compared(point(profile.Prefill, 2, time.Millisecond, 100))
		c.change(&x)
		if b, err := x.HTML(); err == nil || b != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
