package report_test

import (
	"fmt"
	"path/filepath"
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
// points, and says of its own what recommendation.json says.
func TestProfilePage(t *testing.T) {
	b := browser.Start(t)
	dir := filepath.Join(t.TempDir(), "profile")
	r := program.Run(t.Context(), t, nil, "profile-sla", "--engine", "estimate", "--model", "llama-3.1-70b", "--gpu", "h100-sxm", "--isl", "3000", "--osl", "150",
		"--ttft", "300", "--itl", "25", "--quiet", "--output-dir", dir)
	if r.Code != 0 {
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
	looks(t, b, "profile")
	named(t, b)
	slides(t, b)
	if n := b.Noted(); len(n.Complaints) > 0 || len(n.Requests) != 1 {
		t.Errorf("complaints %q, requests %q: want none but the page", n.Complaints, n.Requests)
	}
}

// ended holds the page's cost and its rates against recommendation.json.
func ended(t *testing.T, b *browser.Browser, dir string) {
	t.Helper()
	rec, err := store.ReadRecommendation(dir)
	if err != nil {
		t.Fatal(err)
	}
	seconds := 0.0
	for phase, p := range map[string]*store.Pick{"prefill": rec.Prefill, "decode": rec.Decode, "aggregated": rec.Aggregated} {
		if p == nil {
			continue
		}
		seconds += float64(p.GPUs) / p.SustainedRPS
		if want, got := fmt.Sprintf("Recommended: %.4g requests/s", p.SustainedRPS), text(b, ".pick[data-phase="+phase+"]"); !strings.Contains(got, want) || !strings.Contains(got, "In verification: ") {
			t.Errorf("%q, want %q and what was verified", got, want)
		}
	}
	cost, main := text(b, ".pick.cost"), text(b, "main")
	if want := strconv.FormatFloat(seconds, 'g', 4, 64) + " GPU-seconds a request" + "at the recommended rates"; !strings.Contains(cost, want) {
		t.Errorf("the cost is %q, want %q", cost, want)
	}
	if want := "Suggested "; !strings.Contains(main, want) || strings.Contains(main, "infeasible –") {
		t.Error("nothing is suggested, or a feasible page is infeasible")
	}
}

// picked is a pick of the page, or of recommend.
type picked struct {
	Phase    string `json:"phase"`
	ID       string `json:"id"` // empty: the page has none
	Feasible bool   `json:"feasible"`
}

// grid moves both promises over limits that the page offers, and holds the picks
// against recommend's. It gives how many different ones there were.
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
	for _, g := range got {
		sla := run.SLA
		sla.TTFT, sla.ITL = time.Duration(g.TTFT), time.Duration(g.ITL)
		want := choices(run, sla)
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
	for _, p := range run.Points {
		left := false
		for _, s := range run.Skips {
			left = left || s.Label == p.Config.Parallelism.Label() && (s.Phase == "" || s.Phase == p.Phase)
		}
		if p.Stage == profile.StageSweep && !left {
			points = append(points, p)
		}
	}
	var out []picked
	add := func(c recommend.Choice, err error) {
		if err == nil {
			out = append(out, picked{string(c.Phase), c.Picked.Point.ID, c.Feasible})
		}
	}
	for _, phase := range []profile.Phase{profile.Prefill, profile.Decode} {
		add(recommend.Choose(phase, points, sla, recommend.BySustained, 150))
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
