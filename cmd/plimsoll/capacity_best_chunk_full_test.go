//go:build full

package main

import (
	"encoding/json"
	"testing"
)

// In fleets of many engines another chunk is the best than in those of a few, by which
// chunks are ranked first.
func TestPlanOfManyEnginesTakesNoMoreThanANamedChunk(t *testing.T) {
	for _, rate := range []string{"36.4", "50"} {
		engines := func(more ...string) int {
			t.Helper()
			var out struct {
				Plans []struct {
					Engines int `json:"groups"`
				}
			}
			said := ran(t, exitDone, append([]string{
				"capacity", "plan", "--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--tp", "1", "--strategy", "aggregated",
				"--rate", rate, "--isl", "3000", "--osl", "150", "--ttft-p99", "200", "--itl-p99", "20", "--format", "json",
			}, more...)...)
			if err := json.Unmarshal([]byte(said.out.String()), &out); err != nil || len(out.Plans) == 0 {
				t.Fatalf("%d plans, %v", len(out.Plans), err)
			}
			return out.Plans[0].Engines
		}
		got := engines()
		for _, chunk := range []string{"512", "768", "1024", "2048"} {
			if named := engines("--max-num-batched-tokens", chunk); got > named {
				t.Errorf("%s requests/s: %d engines, with chunk %s %d", rate, got, chunk, named)
			}
		}
	}
}
