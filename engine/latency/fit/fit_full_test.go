//go:build full

package main

import (
	"encoding/json"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"
)

// The committed files are what the rows give. Coefficients within 0.1 % and
// errors within 0.2 points are the same: other processors round otherwise.
func TestRefit(t *testing.T) {
	rows, err := readRows("..")
	if err != nil {
		t.Fatal(err)
	}
	s, err := studyOf(rows)
	if err != nil {
		t.Fatal(err)
	}
	text, err := s.familiesJSON()
	if err != nil {
		t.Fatal(err)
	}
	committed, err := os.ReadFile("../families.json")
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	for text, into := range map[*[]byte]*any{&text: &got, &committed: &want} {
		if err := json.Unmarshal(*text, into); err != nil {
			t.Fatal(err)
		}
	}
	compare(t, "families.json", got, want)
	old, err := os.ReadFile("../FIT.md")
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOARCH == "amd64" && string(s.markdown()) != string(old) {
		t.Error("FIT.md is not what the rows give: run make fit")
	}
	targets(t, s)
}

func compare(t *testing.T, path string, got, want any) {
	t.Helper()
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		if !ok || len(got) != len(want) {
			t.Errorf("%s has other fields: run make fit", path)
			return
		}
		for k := range want {
			compare(t, path+"."+k, got[k], want[k])
		}
	case []any:
		got, ok := got.([]any)
		if !ok || len(got) != len(want) {
			t.Errorf("%s has another length: run make fit", path)
			return
		}
		for i := range want {
			compare(t, path+"[]", got[i], want[i])
		}
	case float64:
		within := 1e-3 * math.Abs(want)
		if !strings.Contains(path, ".coefficients.") {
			within = 0.002
		}
		if got, ok := got.(float64); !ok || math.Abs(got-want) > within {
			t.Errorf("%s is %v, committed %v: run make fit", path, got, want)
		}
	default:
		if got != want {
			t.Errorf("%s is %v, committed %v: run make fit", path, got, want)
		}
	}
}

// targets holds what was reached on held-out rows, a little above it; the
// targets themselves are in FIT.md.
func targets(t *testing.T, s study) {
	t.Helper()
	limits := map[string]map[string]float64{
		"TPOT, same engine, a TP that was not fitted": {"vllm-0.15.1": 0.08, "vllm-0.12": 0.03, "vllm-fp8": 0.04, "trtllm-1.0.0rc3": 0.055, "vllm-2023": 0.07},
		"TPOT, the same after six points of it":       {"vllm-0.15.1": 0.03, "vllm-0.12": 0.025, "vllm-fp8": 0.03, "trtllm-1.0.0rc3": 0.04, "vllm-2023": 0.03},
		"TPOT, another version, after six points":     {"vllm-0.15.1": 0.04, "vllm-0.12": 0.06, "vllm-fp8": 0.045, "trtllm-1.0.0rc3": 0.055, "vllm-2023": 0.085},
		"TTFT, same engine, a TP that was not fitted": {"vllm-0.15.1": 0.14, "vllm-2023": 0.15},
		"TTFT, the same after six points of it":       {"vllm-0.15.1": 0.07, "vllm-2023": 0.08},
		"TTFT, another version, after six points":     {"vllm-0.15.1": 0.06, "vllm-2023": 0.15},

		"TPOT, another version, after six chosen points, from the nearest fit": {"vllm-0.15.1": 0.045, "vllm-0.12": 0.03, "vllm-fp8": 0.05, "trtllm-1.0.0rc3": 0.045, "vllm-2023": 0.07},
		"TTFT, another version, after six chosen points, from the nearest fit": {"vllm-0.15.1": 0.05, "vllm-2023": 0.16},
	}
	for _, c := range s.unlike {
		// Nine of ten by definition, where errors add as they are taken to; an
		// engine three years older is further off than recent ones tell.
		least := 0.9
		if strings.Contains(c.what, "vllm-2023") {
			least = 0.7
		}
		if share := float64(c.nine) / float64(c.n); share < least {
			t.Errorf("%s: %.2f of %d points lie within the factor for nine of ten", c.what, share, c.n)
		}
	}
	for _, r := range s.h200 {
		if r.after[0].at(0.5) > 0.05 || r.after[1].at(0.5) > 0.05 {
			t.Errorf("the H200 profile after six points from %s: %.4f and %.4f", r.fit, r.after[0].at(0.5), r.after[1].at(0.5))
		}
	}
	seen := 0
	for _, g := range s.goals() {
		for i, x := range g.reached {
			seen++
			if limit := limits[g.what][g.where[i]]; x > limit || x < limit/4 {
				t.Errorf("%s: %s %.4f, held at %.4f", g.what, g.where[i], x, limit)
			}
		}
	}
	if seen != 28 {
		t.Errorf("%d figures, want 28", seen)
	}
	least := map[string]float64{"vllm-0.12": 0.92, "vllm-fp8": 0.7, "trtllm-1.0.0rc3": 0.9}
	ttft := map[string]float64{"vllm-0.12": 0.27, "vllm-fp8": 0.27, "trtllm-1.0.0rc3": 0.5}
	for _, c := range s.chosen {
		if c.by == bySimulation && c.errors.TTFT.Median > ttft[c.family] {
			t.Errorf("%s: simulated closed-loop TTFT is off by %.3f, held at %.2f", c.family, c.errors.TTFT.Median, ttft[c.family])
		}
		if c.by != byFormula {
			continue
		}
		if share := float64(c.itl.equal+c.itl.close) / float64(c.itl.caps); share < least[c.family] {
			t.Errorf("%s: %.3f of the picks are the table's best, held at %.2f", c.family, share, least[c.family])
		}
		delete(least, c.family)
	}
	if len(least) > 0 {
		t.Errorf("no picks for %v", least)
	}
}
