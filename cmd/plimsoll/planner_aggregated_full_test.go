//go:build full

package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"plimsoll/engine/enginetest"
	"plimsoll/planner/connect/local"
	"plimsoll/profile/store"
)

// By an aggregated profile a planner runs one pool of workers on this machine, each
// started by one command, and by --policy load it scales at the use of the rate that was
// measured.
func TestServeAggregatedProfile(t *testing.T) {
	t.Parallel()
	profile := estimatedProfile(t, "--mode", "aggregated", "--max-num-seqs", "16")
	rec, err := store.ReadRecommendation(profile)
	if err != nil {
		t.Fatal(err)
	}
	if kv := rec.Thresholds.LoadKV(); kv.Upper != rec.Aggregated.KVUsage || !(kv.Lower > 0 && kv.Lower <= kv.Upper/2) {
		t.Errorf("bounds %+v of KV use, at a use of %v at the rate that holds", kv, rec.Aggregated.KVUsage)
	}
	for _, policy := range []string{"default", "load"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			p := start(t, []string{"XDG_STATE_HOME=" + dir, "DYN_LOCAL_STATE_DIR=" + dir + "/workers"},
				"planner", "serve", "--profile", profile, "--policy", policy, "--accept-provenance", "estimated", "--slots", "3", "--max-gpu-budget", "3",
				"--aggregated-command", "plimsoll engine serve --model llama-3.1-8b --gpu h100-sxm --tp {{.TP}} --max-num-seqs 16 --port {{.Port}}",
				"--stop-workers", "--adjustment-interval", "1", "--listen", "", "--event-log", dir+"/events.jsonl")
			enginetest.Eventually(t, "a worker that serves", func() bool {
				ws, err := local.Workers(filepath.Join(dir, "workers", "dynamo.json"))
				return err == nil && len(ws) == 1 && ws[0].State == local.Ready && ws[0].Role == "aggregated"
			})
			enginetest.Eventually(t, "a decision by what it says", func() bool { return strings.Contains(p.out.String(), "decision: stays at aggregated=1") })
			p.signal(t, syscall.SIGINT)
			if code := p.wait(t); code != exitDone {
				t.Errorf("it ended with %d:\n%s", code, &p.errout)
			}
			p.noOrphans(t)
			if out := p.out.String(); !strings.Contains(out, "aggregated=0 becomes aggregated=1, 1 GPU\n") || strings.Contains(out, "prefill=") {
				t.Errorf("decisions are of other pools:\n%s", out)
			}
		})
	}
}
