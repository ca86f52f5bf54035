package deployment

import (
	"errors"
	"strings"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
)

func TestCandidates(t *testing.T) {
	fits := func(c engine.Config) error {
		if c.Parallelism.TP == 1 {
			return errors.New("weights 141 GB do not fit in 76 GB")
		}
		return nil
	}
	spread := engine.Parallelism{DP: 4, EP: 4}
	cs, out := Candidates(engine.Config{}, 6, []engine.Parallelism{engine.TP(1), {TP: 2}, spread}, fits)
	if len(cs) != 1 || cs[0].Parallelism != engine.TP(2) {
		t.Errorf("candidates %v", cs)
	}
	if len(out) != 2 || out[0].Parallelism.Label() != "TP:1" || out[1].Parallelism.Label() != "DEP:4" || !strings.Contains(out[0].Err.Error(), "141 GB") {
		t.Errorf("left out %v", out)
	}
	cs, out = Candidates(engine.Config{}, 4, []engine.Parallelism{engine.TP(3), {TP: 4, PP: 2}}, nil)
	if len(cs) != 1 || len(out) != 1 || out[0].Parallelism.Label() != "TP:4 PP:2" || out[0].Err.Error() != "needs 8 GPUs, but only 4 are visible" {
		t.Errorf("candidates %v, left out %v", cs, out)
	}
}

// A mixture of experts is tried with its experts spread, where the engine can; each
// layout is either worth trying or left out with its reason.
func TestLayoutsOfExperts(t *testing.T) {
	cat, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	r1, err := cat.Model("deepseek-r1")
	if err != nil {
		t.Fatal(err)
	}
	has := func(all []engine.Parallelism, label string) bool {
		for _, p := range all {
			if p.Label() == label {
				return true
			}
		}
		return false
	}
	fit, out := Layouts(&r1, true, 16, engine.FP8)
	if !has(fit, "DEP:8") || !has(fit, "DEP:16") || !has(fit, "TEP:8") || has(fit, "TP:8") {
		t.Errorf("worth trying: %v", fit)
	}
	for _, r := range out {
		if r.Err == nil || has(fit, r.Parallelism.Label()) {
			t.Errorf("left out: %v", r)
		}
	}
	for _, m := range []*catalog.Model{nil, &r1} {
		if fit, _ := Layouts(m, false, 8, engine.FP8); len(fit) != 4 || !has(fit, "TP:8") {
			t.Errorf("without experts to spread: %v", fit)
		}
	}
}
