//go:build full

package forecast

import (
	"testing"
)

// On real traffic auto errs hardly more than the last value where that is hard to
// beat, and less on average. The whole series and the other predictors are in
// BenchmarkTraces.
func TestAutoOnTraces(t *testing.T) {
	var mean float64
	for _, c := range traces {
		values := column(t, c.file, c.name)
		values = values[:min(len(values), 432)]
		o := DefaultOptions(Constant)
		last := score(t, o, values)
		o.Kind, o.Interval = Auto, c.interval
		auto := score(t, o, values)
		t.Logf("%s %s: last value %.2f %%, auto %.2f %%", c.file, c.name, 100*last, 100*auto)
		if auto > 1.02*last {
			t.Errorf("%s %s: auto errs %.2f %%, the last value %.2f %%", c.file, c.name, 100*auto, 100*last)
		}
		mean += auto / last / float64(len(traces))
	}
	if mean > 0.98 {
		t.Errorf("auto errs %.3f of the last value's error on average", mean)
	}
}
