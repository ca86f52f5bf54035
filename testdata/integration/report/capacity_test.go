package report_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll/testdata/integration/browser"
	"plimsoll/testdata/integration/program"
)

// planned is what the page shows of a plan, or the command line says.
type planned struct {
	GPUs   int     `json:"gpus"`
	USD    float64 `json:"usd"`
	Layout string  `json:"layout"`
}

// Wherever the sliders are, the page shows the plan that its command gives.
func TestCapacityPage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "plan.html")
	r := program.Run(t.Context(), t, nil, "capacity", "plan", "--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--tp", "1,2", "--peak-qps", "20", "--avg-isl", "1000", "--p99-isl", "3000", "--avg-osl", "100", "--p99-osl", "300",
		"--ttft-p99", "200", "--itl-p99", "16", "--quiet", "--report", file)
	if r.Code != 0 {
		t.Fatalf("%d: %s", r.Code, r.Stderr)
	}
	b := browser.Start(t)
	b.Size(1280, 900)
	b.Open(file)
	b.Until("document.querySelector('#costs .point.marked') && document.querySelector('#alternatives .point.marked')")
	different := map[planned]bool{}
	for _, at := range [][3]int{{2, 1, 1}, {0, 1, 1}, {4, 1, 1}, {2, 0, 1}, {2, 1, 0}, {4, 2, 2}, {1, 0, 0}} {
		got, command := put(b, at)
		want := fromCommand(t, command)
		if got != want {
			t.Errorf("at %v the page shows %+v, its command gives %+v: %s", at, got, want, command)
		}
		different[got] = true
	}
	if len(different) < 3 {
		t.Errorf("%d different plans: that shows little", len(different))
	}
	b.Eval("document.getElementById('reset').click()", nil)
	b.Eval("document.getElementById('qps').focus()", nil)
	b.Key("ArrowRight", 39)
	b.Until("document.getElementById('fleet').dataset.key === '3-1-1' && document.getElementById('qps-shown').textContent === '30 requests/s'")
	if against := text(b, "#fleet"); !strings.Contains(against, "against what was asked for") {
		t.Errorf("nothing compares with what was asked for: %q", against)
	}
	b.Eval("document.getElementById('reset').click()", nil)
	b.Until("document.getElementById('fleet').dataset.key === '2-1-1'")
	looks(t, b, "capacity")
	named(t, b)
	if n := b.Noted(); len(n.Complaints) > 0 || len(n.Requests) != 1 {
		t.Errorf("complaints %q, requests %q: want none but the page", n.Complaints, n.Requests)
	}
}

// put moves the sliders to places, and reads what is shown then.
func put(b *browser.Browser, at [3]int) (planned, string) {
	var got struct {
		planned

		Command string
	}
	b.Eval(fmt.Sprintf(`(() => {
	  ['qps', 'ttft', 'itl'].forEach((id, i) => { const f = document.getElementById(id); f.value = %v[i]; f.dispatchEvent(new Event('input')); });
	  const f = document.getElementById('fleet').dataset;
	  return { gpus: Number(f.gpus), usd: Number(f.usd), layout: f.layout, command: document.getElementById('command').textContent };
	})()`, strings.ReplaceAll(fmt.Sprint(at), " ", ",")), &got)
	return got.planned, got.Command
}

// fromCommand is the cheapest plan of a command, as JSON has it; exit 4: none.
func fromCommand(t *testing.T, command string) planned {
	t.Helper()
	r := program.Run(t.Context(), t, nil, append(strings.Fields(command)[1:], "--format", "json", "--quiet")...)
	var out struct {
		Plans []struct {
			GPUs   int     `json:"total_gpus_final"`
			USD    float64 `json:"hourly_cost_usd"`
			Layout string  `json:"layout"`
		} `json:"plans"`
	}
	if err := json.Unmarshal([]byte(r.Stdout), &out); err != nil {
		t.Fatalf("%s: %d: %s: %v", command, r.Code, r.Stderr, err)
	}
	if len(out.Plans) == 0 {
		return planned{}
	}
	p := out.Plans[0]
	return planned{p.GPUs, p.USD, p.Layout}
}
