//go:build full

package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"plimsoll/profile"
)

// An aggregated estimate says among its details how far off its model is, and warns where
// that is wider than what is left of either limit.
func TestAggregatedEstimateHasItsModelsError(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "results")
	p := ran(t, exitDone, estimatedOf(dir, "--mode", "aggregated", "--tp", "1", "--ttft", "40", "--itl", "9", "--details")...)
	_, rec := results(t, dir)
	for _, want := range []string{"\nModel error of TTFT: within a factor of ", "\nModel error of ITL: " + rec.Aggregated.ModelError.Words() + "\n"} {
		if !strings.Contains(p.out.String(), want) {
			t.Errorf("stdout lacks %q:\n%s", want, &p.out)
		}
	}
	for _, want := range []string{"aggregated: TTFT ", "aggregated: ITL "} {
		if !slices.ContainsFunc(rec.Warnings, func(w profile.Warning) bool {
			return w.Code == "model_error_sla" && strings.HasPrefix(w.Message, want)
		}) {
			t.Errorf("no warning of %q: %v", want, rec.Warnings)
		}
	}
}
