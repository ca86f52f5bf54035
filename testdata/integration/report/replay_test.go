package report_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"plimsoll/testdata/integration/browser"
	"plimsoll/testdata/integration/program"
)

// replayed is the part of replay.json that the page draws.
type replayed struct {
	Policies []struct {
		Name     string `json:"name"`
		GPUHours struct {
			Mean float64 `json:"mean"`
		} `json:"gpu_hours"`
		Runs []struct {
			Result struct {
				Timeline []struct {
					From     float64 `json:"from_ns"`
					To       float64 `json:"to_ns"`
					Arrivals float64 `json:"arrivals"`
					Pools    []struct {
						Wanted float64 `json:"wanted"`
						Ready  float64 `json:"ready"`
					} `json:"pools"`
				} `json:"timeline"`
			} `json:"result"`
		} `json:"runs"`
	} `json:"policies"`
}

// replay makes a page of three policies, and reads what is beside it.
func replay(t *testing.T) (page string, all replayed) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "replay")
	r := program.Run(t.Context(), t, nil, "planner", "replay", "--mode", "disaggregated", "--ttft", "500", "--itl", "50", "--arrival", "sine", "--rate", "20", "--period", "10m", "--isl", "3000", "--osl", "50", "--duration", "20m",
		"--policy", "static-peak,hpa,default", "--sla-stat", "p99", "--max-gpu-budget", "16", "--seeds", "2",
		"--quiet", "--output-dir", dir)
	if r.Code != 0 {
		t.Fatalf("%d: %s", r.Code, r.Stderr)
	}
	b, err := os.ReadFile(filepath.Join(dir, "replay.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "report.html"), all
}

func TestReplayPage(t *testing.T) {
	page, all := replay(t)
	b := browser.Start(t)
	b.Size(1280, 900)
	b.Open(page)
	b.Until("document.querySelectorAll('details.policy[open] svg').length > 0")

	t.Run("looks", func(t *testing.T) { looks(t, b, "replay") })
	t.Run("names", func(t *testing.T) { named(t, b) })
	t.Run("sorts", func(t *testing.T) {
		most := all.Policies[0]
		for _, p := range all.Policies {
			if p.GPUHours.Mean > most.GPUHours.Mean {
				most = p
			}
		}
		b.Eval(`[...document.querySelectorAll('table[data-sortable] thead button')].find(x => x.textContent.includes('total')).click()`, nil)
		if got := text(b, "table[data-sortable] tbody th"); !strings.HasPrefix(got, most.Name) {
			t.Errorf("the first of the most GPU-hours is %q, want %s", got, most.Name)
		}
	})
	t.Run("values", func(t *testing.T) { values(t, b, all) })
	if n := b.Noted(); len(n.Complaints) > 0 || len(n.Requests) != 1 {
		t.Errorf("complaints %q, requests %q: want none but the page", n.Complaints, n.Requests)
	}
	t.Run("runs nothing else", func(t *testing.T) { closed(t, b) })
}

// values holds what the page reads out against replay.json: under the pointer, by
// keyboard, and in the table.
func values(t *testing.T, b *browser.Browser, all replayed) {
	open := "details.policy[open]"
	name := attribute(b, open, "data-policy")
	for _, p := range all.Policies {
		if p.Name != name {
			continue
		}
		points := p.Runs[0].Result.Timeline
		want := func(bin int) []float64 {
			x := points[bin]
			return []float64{x.Arrivals / (x.To - x.From) * 1e9, x.Pools[0].Ready, x.Pools[0].Wanted, x.Pools[1].Ready, x.Pools[1].Wanted}
		}
		agree := func(how string, bin int) {
			t.Helper()
			var shown []string
			b.Eval(fmt.Sprintf("[...document.querySelectorAll('%s .legend .value')].slice(0, 5).map(v => v.textContent)", open), &shown)
			for i, w := range want(bin) {
				if got, err := strconv.ParseFloat(strings.ReplaceAll(shown[i], ",", ""), 64); err != nil || math.Abs(got-w) > 5e-4*w {
					t.Errorf("%s: bin %d of %s: value %d is %q, want %v", how, bin, name, i, shown[i], w)
				}
			}
		}
		b.Eval(fmt.Sprintf("document.querySelector('%s .chart').scrollIntoView({block: 'center'})", open), nil)
		var at struct{ Left, Top, Width, Height float64 }
		b.Eval(fmt.Sprintf("(({left, top, width, height}) => ({left, top, width, height}))(document.querySelector('%s .chart .cursor').parentNode.getBoundingClientRect())", open), &at)
		for _, share := range []float64{.07, .5, .93} {
			bin := int(share * float64(len(points)))
			// The axis is between 46 CSS pixels of names on the left and 10 on the right.
			x := at.Left + 46 + (float64(bin)+.5)/float64(len(points))*(at.Width-56)
			b.Mouse("mouseMoved", x, at.Top+at.Height/2)
			agree("pointer", bin)
		}
		bin := int(.93 * float64(len(points)))
		b.Eval(fmt.Sprintf("document.querySelector('%s input[type=range]').focus()", open), nil)
		b.Key("ArrowRight", 39)
		agree("keyboard", bin+1)
		if said := attribute(b, open+" input[type=range]", "aria-valuetext"); !strings.Contains(said, "Prefill replicas ready "+strconv.Itoa(int(want(bin + 1)[1]))+", wanted") {
			t.Errorf("the slider says %q", said)
		}
		b.Eval(fmt.Sprintf("document.querySelector('%s details.values').open = true", open), nil)
		b.Until(fmt.Sprintf("document.querySelector('%s details.values tbody')", open))
		var rows int
		b.Eval(fmt.Sprintf("document.querySelector('%s details.values tbody').rows.length", open), &rows)
		if rows != len(points) {
			t.Errorf("the table has %d rows, want %d", rows, len(points))
		}
		b.Eval(fmt.Sprintf("document.querySelector('%s details.values').open = false", open), nil)
		return
	}
	t.Errorf("%q is open, which is no policy", name)
}
