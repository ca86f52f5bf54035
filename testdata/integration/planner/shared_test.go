package planner

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"plimsoll/testdata/integration/free"
	"plimsoll/testdata/integration/program"
)

// Two deployments in one process under five GPUs: each gets its least at once, the
// rest goes to the one that wants it, and five are never exceeded. At the end the
// workers end, too.
func TestTwoDeployments(t *testing.T) {
	t.Parallel()
	dir, site := t.TempDir(), free.Address(t)
	worker := os.Getenv(program.Path) + " engine serve --model llama-3.1-8b --gpu l40s --tp 1 --port {{.Port}} --role "
	config := filepath.Join(dir, "two.yaml")
	text := fmt.Sprintf(`profile: %s
accept-provenance: estimated
drains-on-term: true
stop-workers: true
adjustment-interval: 2
max-gpu-budget: 5
slots: 5
prefill-command: %sprefill
decode-command: %sdecode
deployments:
  - {namespace: first, min-gpu-budget: 3, state-file: %s/first-memory.json}
  - {namespace: second, priority: 1, state-file: %s/second-memory.json}
`, profiled(t), worker, worker, dir, dir)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := program.Start(t, []string{"DYN_LOCAL_STATE_DIR=" + dir}, "planner", "serve", "--config", config, "--listen", site)
	held := func() map[string]int {
		body, err := Get("http://" + site + "/api/v1/status")
		if err != nil {
			return nil
		}
		var all struct {
			Deployments []struct {
				Deployment string
				State      struct {
					Pools []struct{ Ready, Starting, Draining int }
				}
			}
		}
		if err := json.Unmarshal([]byte(body), &all); err != nil {
			t.Fatal(err)
		}
		sums := map[string]int{}
		for _, d := range all.Deployments {
			for _, p := range d.State.Pools {
				sums[d.Deployment] += p.Ready + p.Starting + p.Draining
			}
		}
		return sums
	}
	program.Until(t, 60*time.Second, "both have their share", func() bool {
		h := held()
		if h["first"]+h["second"] > 5 {
			t.Errorf("%v are more than five GPUs", h)
		}
		return h["first"] == 3 && h["second"] == 2
	})
	if code := p.Stop(); code != 0 {
		t.Errorf("it ended with %d", code)
	}
	for _, name := range []string{"first", "second"} {
		b, err := os.ReadFile(filepath.Join(dir, name+".json"))
		var doc struct{ Components map[string]struct{ PID int } }
		if err == nil {
			err = json.Unmarshal(b, &doc)
		}
		if err != nil {
			t.Fatal(err)
		}
		for worker, c := range doc.Components {
			if c.PID != 0 {
				t.Errorf("%s of %s runs on as %d", worker, name, c.PID)
			}
		}
	}
}
