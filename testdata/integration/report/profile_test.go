package report_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"plimsoll/profile"
	"plimsoll/profile/store"
	"plimsoll/recommend"
	"plimsoll/testdata/integration/browser"
	"plimsoll/testdata/integration/program"
)

// Whatever the promises are, the page picks what recommend picks among the same
// points: both modes, both ranks, a mean and percentiles.
func TestProfilePage(t *testing.T) {
	b := browser.Start(t)
	for name, flags := range map[string][]string{
		"disaggregated": {"--model", "llama-3.1-70b", "--ttft", "300", "--itl", "25"},
		"single":        {"--model", "llama-3.1-8b", "--ttft", "100", "--itl", "12", "--rank", "single", "--sla-stat", "p99"},
		"percentile":    {"--model", "llama-3.1-8b", "--ttft", "150", "--itl", "15", "--sla-stat", "p95"},
		"impossible":    {"--model", "llama-3.1-70b", "--ttft", "1", "--itl", "1"},
		"aggregated":    {"--model", "llama-3.1-8b", "--ttft", "300", "--itl", "25", "--mode", "aggregated"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "profile")
			r := program.Run(t.Context(), t, nil, append([]string{"profile-sla", "--engine", "estimate", "--gpu", "h100-sxm", "--isl", "3000", "--osl", "150", "--quiet", "--output-dir", dir}, flags...)...)
			if r.Code != 0 && (r.Code != 4 || name != "impossible") {
				t.Fatalf("%d: %s", r.Code, r.Stderr)
			}
			if r := program.Run(t.Context(), t, nil, "report", "--cost-per-gpu-hour", "2.5", dir); r.Code != 0 {
				t.Fatalf("%d: %s", r.Code, r.Stderr)
			}
			run, err := store.ReadRun(dir)
			if err != nil {
				t.Fatal(err)
			}
			b.Size(1280, 900)
			b.Open(filepath.Join(dir, "report.html"))
			b.Until("document.querySelector('#picks .pick[data-id]') && document.querySelector('#candidates .point.marked')")
			ended(t, b, dir)
			if n := grid(t, b, run); n < 3 {
				t.Errorf("%d different picks: that shows little", n)
			}
			if name == "disaggregated" || name == "aggregated" {
				looks(t, b, "profile_"+name)
				named(t, b)
				slides(t, b)
			}
			if n := b.Noted(); len(n.Complaints) > 0 || len(n.Requests) != 1 {
				t.Errorf("complaints %q, requests %q: want none but the page", n.Complaints, n.Requests)
			}
			if name == "impossible" && text(b, "#picks .missed b") == "" {
				t.Error("nothing says that the SLA is missed")
			}
		})
	}
}

// ended holds the page's cost, its rates and what it says of an SLA that is missed
// against recommendation.json.
func ended(t *testing.T, b *browser.Browser, dir string) {
	t.Helper()
	rec, err := store.ReadRecommendation(dir)
	if err != nil {
		t.Fatal(err)
	}
	seconds := 0.0
	for phase, p := range map[string]*store.Pick{"prefill": rec.Prefill, "decode": rec.Decode, "aggregated": rec.Aggregated} {
		if p == nil || !rec.Feasible {
			continue
		}
		seconds += float64(p.GPUs) / p.SustainedRPS
		if want, got := fmt.Sprintf("Recommended: %.4g requests/s", p.SustainedRPS), text(b, ".pick[data-phase="+phase+"]"); !strings.Contains(got, want) || !strings.Contains(got, "In verification: ") {
			t.Errorf("%q, want %q and what was verified", got, want)
		}
	}
	cost, main := text(b, ".pick.cost"), text(b, "main")
	if !rec.Feasible {
		for _, want := range []string{"infeasible – ", "could be promised: --ttft ", "Not verified under load", "not known where a promise is missed"} {
			if !strings.Contains(main, want) {
				t.Errorf("an infeasible page has not %q", want)
			}
		}
		if n := count(b, "td.holds, th .holds"); n > 0 || strings.Contains(cost, "GPU-seconds") {
			t.Errorf("%d picks are marked, the cost is %q: want none of an infeasible profile", n, cost)
		}
		return
	}
	if want := strconv.FormatFloat(seconds, 'g', 4, 64) + " GPU-seconds a request" + "at the recommended rates"; !strings.Contains(cost, want) {
		t.Errorf("the cost is %q, want %q", cost, want)
	}
	if want := "Suggested "; !strings.Contains(main, want) || strings.Contains(main, "infeasible –") {
		t.Error("nothing is suggested, or a feasible page is infeasible")
	}
}

// The same of points that nobody measured: ties, wide intervals, failures, too few
// samples, figures that are not the engine's.
func TestProfilePageOfAnything(t *testing.T) {
	b := browser.Start(t)
	for _, mode := range []string{"disaggregated", "aggregated"} {
		dir := estimated(t, "h100-sxm", mode)
		run, err := store.ReadRun(dir)
		if err != nil {
			t.Fatal(err)
		}
		different := 0
		for seed := range uint64(6) {
			random := rand.New(rand.NewPCG(seed, 1))
			run.Inputs["--rank"] = []string{"single", "sustained"}[seed%2]
			run.SLA.Stat = []profile.Statistic{profile.Mean, profile.P95, profile.P99}[seed/2]
			for i := range run.Points {
				scramble(&run.Points[i], random, seed%2 > 0)
			}
			if err := store.WriteRun(dir, run); err != nil {
				t.Fatal(err)
			}
			if r := program.Run(t.Context(), t, nil, "report", dir); r.Code != 0 {
				t.Fatalf("%d: %s", r.Code, r.Stderr)
			}
			b.Open(filepath.Join(dir, "report.html"))
			b.Until("document.querySelector('#picks .pick')")
			different += grid(t, b, run)
		}
		if different < 12 {
			t.Errorf("%d different picks: that shows little", different)
		}
		if n := b.Noted(); len(n.Complaints) > 0 {
			t.Errorf("complaints %q", n.Complaints)
		}
	}
}

// scramble makes a point another, with few values so that there are ties; short
// makes most loads too short for a percentile.
func scramble(p *profile.Point, r *rand.Rand, short bool) {
	spread := func(low float64) time.Duration { return time.Duration(low * float64(1+r.IntN(12))) }
	p.ThroughputPerGPU = float64(100 * (1 + r.IntN(6)))
	half := float64(r.IntN(3)) * 60
	p.Throughput95 = profile.Interval{Low: p.ThroughputPerGPU - half, High: p.ThroughputPerGPU + half}
	p.Config.Parallelism.TP = 1 << r.IntN(4)
	p.Provenance = profile.Provenance(r.IntN(2) * 2)
	p.Invalid, p.Failures = "", 0
	switch r.IntN(8) {
	case 0:
		p.Invalid = "scrambled"
	case 1:
		p.Failures = 1 + r.IntN(3)
	}
	of := func(d *profile.Distribution) {
		d.Mean = spread(10e6)
		d.P95, d.P99 = d.Mean+spread(1e6), d.Mean+spread(3e6)
		d.N, d.Half = 1000, time.Millisecond
		d.In95, d.In99 = profile.Interval{}, profile.Interval{}
		if r.IntN(4) > 0 { // else there are too few samples
			d.In95, d.In99 = profile.Interval{Low: 1, High: 2}, profile.Interval{Low: 1, High: 2}
		}
	}
	of(&p.TTFT)
	of(&p.ITL)
	of(&p.TPOT)
	if l := p.Load; l != nil {
		of(&l.TTFT)
		of(&l.ITL)
		of(&l.TPOT)
		l.Failures, l.Growing, l.Requests = p.Failures, r.IntN(8) == 0, 5000
		if short && r.IntN(8) > 0 {
			l.Requests = 5
		}
		p.Rate = float64(r.IntN(5))
	}
}

// picked is a pick of the page, or of recommend.
type picked struct {
	Phase    string `json:"phase"`
	ID       string `json:"id"` // empty: the page has none
	Feasible bool   `json:"feasible"`
}

// grid moves both promises over limits that the page offers, and holds the picks
// against recommend's, of which it gives how many different ones there were. Where
// the page says that it knows none, there is nothing to hold; as profiled it does.
func grid(t *testing.T, b *browser.Browser, run store.Run) (picks int) {
	t.Helper()
	var got []struct {
		TTFT, ITL int64
		Picks     []picked
	}
	b.Eval(`(() => {
	  const limits = JSON.parse(document.getElementById('data').textContent).limits, out = [];
	  const put = (id, ns) => { const f = document.getElementById(id); f.value = ns / 1e6; f.dispatchEvent(new Event('change')); return Math.round(Number(f.value) * 1e6); };
	  const now = (ttft, itl) => ({ ttft, itl, picks: [...document.querySelectorAll('#picks .pick[data-phase]')].map(p => ({ phase: p.dataset.phase, id: p.dataset.id ?? '', feasible: p.dataset.feasible === 'true' })) });
	  const some = all => all.filter((_, i) => i % Math.ceil(all.length / 12) === 0);
	  out.push(now(Math.round(Number(document.getElementById('ttft').value) * 1e6), Math.round(Number(document.getElementById('itl').value) * 1e6)));
	  for (const t of some(limits.ttft)) { const ttft = put('ttft', t);
	    for (const i of some(limits.itl)) out.push(now(ttft, put('itl', i))); }
	  return out;
	})()`, &got)
	different := map[string]bool{}
	for i, g := range got {
		sla := run.SLA
		sla.TTFT, sla.ITL = time.Duration(g.TTFT), time.Duration(g.ITL)
		want := choices(run, sla)
		for k := range g.Picks {
			if k < len(want) && g.Picks[k].ID == "" && g.Picks[k].Phase == want[k].Phase && i > 0 {
				g.Picks[k] = want[k]
			}
		}
		if fmt.Sprint(g.Picks) != fmt.Sprint(want) {
			t.Errorf("TTFT %v, ITL %v: the page picks %v, recommend %v", sla.TTFT, sla.ITL, g.Picks, want)
		}
		different[fmt.Sprint(want)] = true
	}
	b.Eval("document.getElementById('reset').click()", nil)
	return len(different)
}

// choices are recommend's picks among a run's points.
func choices(run store.Run, sla profile.SLA) []picked {
	var points []profile.Point
	aggregated := false
	for _, p := range run.Points {
		left := false
		for _, s := range run.Skips {
			left = left || s.Label == p.Config.Parallelism.Label() && (s.Phase == "" || s.Phase == p.Phase)
		}
		if p.Stage == profile.StageSweep && !left {
			points = append(points, p)
			aggregated = aggregated || p.Phase == profile.Aggregated
		}
	}
	var out []picked
	add := func(c recommend.Choice, err error) {
		if err == nil {
			out = append(out, picked{string(c.Phase), c.Picked.Point.ID, c.Feasible})
		}
	}
	if aggregated {
		add(recommend.ChooseAggregated(points, sla))
		return out
	}
	for _, phase := range []profile.Phase{profile.Prefill, profile.Decode} {
		add(recommend.Choose(phase, points, sla, recommend.Rank(run.Inputs["--rank"]), 150))
	}
	return out
}

// slides moves a slider by keyboard, which changes the field, the line in the chart
// and what is said of another profile; one button takes it back.
func slides(t *testing.T, b *browser.Browser) {
	t.Helper()
	before := text(b, "#candidates .limit-name")
	b.Eval("document.getElementById('ttft-slide').focus()", nil)
	for range 20 {
		b.Key("ArrowRight", 39)
	}
	b.Until(fmt.Sprintf("document.querySelector('#candidates .limit-name')?.textContent !== %q", before))
	if text(b, "#otherwise") == "" {
		t.Error("nothing says that a profile for other promises may find better")
	}
	b.Eval("document.getElementById('reset').click()", nil)
	b.Until(fmt.Sprintf("document.querySelector('#candidates .limit-name')?.textContent === %q", before))
	if after := text(b, "#otherwise"); after != "" {
		t.Errorf("as profiled, and still %q", after)
	}
	b.Eval("document.querySelector('#candidates .point').focus()", nil)
	if tip := text(b, "#candidates .tip:not([hidden])"); tip == "" {
		t.Error("a mark has the focus, and no tip is shown")
	}
	b.Eval("document.activeElement.blur()", nil)
}

// What a profile says of promises that it was not made for is no other than what a
// profile made for them finds: where the page names a configuration it is that one,
// where it has figures they are within its nearness, and what it says to lie between
// two loads does.
func TestProfilePageOfOtherPromises(t *testing.T) {
	b := browser.Start(t)
	dir := t.TempDir()
	profiled := func(itl string) (string, store.Recommendation) {
		at := filepath.Join(dir, itl)
		r := program.Run(t.Context(), t, nil, "profile-sla", "--engine", "estimate", "--model", "llama-3.1-70b", "--gpu", "h100-sxm", "--isl", "3000", "--osl", "150", "--ttft", "1000", "--itl", itl, "--quiet", "--output-dir", at)
		if r.Code != 0 {
			t.Fatalf("%d: %s", r.Code, r.Stderr)
		}
		rec, err := store.ReadRecommendation(at)
		if err != nil {
			t.Fatal(err)
		}
		return at, rec
	}
	at, _ := profiled("40")
	b.Size(1280, 900)
	b.Open(filepath.Join(at, "report.html"))
	b.Until("document.querySelector('#picks .pick[data-id]')")
	for _, itl := range []string{"15", "25", "27", "30", "39.5", "40.01", "45", "60"} {
		_, rec := profiled(itl)
		var got struct {
			Field, Undecided, Label, Text, Cost, Otherwise string
		}
		b.Eval(fmt.Sprintf(`(() => {
		  const f = document.getElementById('itl'); f.value = %q; f.dispatchEvent(new Event('change'));
		  const p = document.querySelector('#picks .pick[data-phase=decode]');
		  return { field: f.value, undecided: p.dataset.undecided ?? '', label: p.dataset.label ?? p.querySelector('.label').firstChild.textContent, text: p.innerText,
		    cost: document.querySelector('#picks .cost').innerText, otherwise: document.getElementById('otherwise').textContent };
		})()`, itl), &got)
		want := rec.Decode
		if got.Field != itl || !strings.Contains(got.Otherwise, "--itl "+itl) {
			t.Errorf("ITL %s: the field has %q, the flags are %q", itl, got.Field, got.Otherwise)
		}
		if label := strings.TrimSpace(got.Label); label != "" && label != want.Label {
			t.Errorf("ITL %s: %q is named, profile-sla picks %s", itl, label, want.Label)
		}
		if got.Undecided == "" {
			if v := throughputIn(t, got.Text); math.Abs(v/want.ThroughputPerGPU-1) > .05 {
				t.Errorf("ITL %s: %v tokens/s/GPU, profile-sla finds %v", itl, v, want.ThroughputPerGPU)
			}
			continue
		}
		if !between(t, got.Text, want.Label, want.ThroughputPerGPU) {
			t.Errorf("ITL %s: %q, profile-sla finds %s with %v", itl, got.Text, want.Label, want.ThroughputPerGPU)
		}
		if strings.Contains(got.Cost, "GPU-seconds") || strings.Contains(got.Cost+got.Text, "against the profile") {
			t.Errorf("ITL %s: nothing is picked, and %q is compared, %q", itl, got.Text, got.Cost)
		}
		if itl == "25" {
			looks(t, b, "profile_between")
		}
	}
}

// throughputIn reads "883.2 tokens/s/GPU" out of a card.
func throughputIn(t *testing.T, card string) float64 {
	t.Helper()
	m := regexp.MustCompile(`([\d,.]+) (?:\([^)]*\) )?tokens/s/GPU`).FindStringSubmatch(card)
	if m == nil {
		t.Fatalf("no throughput in %q", card)
	}
	v, err := strconv.ParseFloat(strings.ReplaceAll(m[1], ",", ""), 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// between reports whether a card says of a configuration that it may give v.
func between(t *testing.T, card, label string, v float64) bool {
	t.Helper()
	m := regexp.MustCompile(label + `: (at least |between )?([\d,.]+)(?: and ([\d,.]+))? tokens`).FindStringSubmatch(card)
	if m == nil {
		return false
	}
	number := func(s string) float64 {
		x, _ := strconv.ParseFloat(strings.ReplaceAll(s, ",", ""), 64)
		return x
	}
	const rounded = .001
	high := m[3]
	if m[1] == "" {
		high = m[2]
	}
	return v >= number(m[2])*(1-rounded) && (m[1] == "at least " || v <= number(high)*(1+rounded))
}
