package capacity

import (
	"encoding/json"
	"regexp"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine/enginetest"
	"plimsoll/profile/trace"
)

// What is written is read again as it was, and its names are in snake_case.
func TestWorkloadJSON(t *testing.T) {
	name := regexp.MustCompile(`"([^"]+)":`)
	snake := regexp.MustCompile(`^[a-z0-9_]+$`)
	enginetest.Check(t, func(t *rapid.T) {
		positive := rapid.Float64Range(1, 1e6)
		w := Workload{
			Rate: positive.Draw(t, "qps"), ISL: positive.Draw(t, "isl"), ISLP99: positive.Draw(t, "p99 isl"),
			OSL: positive.Draw(t, "osl"), OSLP99: positive.Draw(t, "p99 osl"), Pattern: trace.Global,
			PeakToAverage: positive.Draw(t, "ratio"), PeakWindow: time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "window")),
		}
		if rapid.Bool().Draw(t, "prefixes") {
			w.Prefixes = trace.Prefixes{
				Groups: rapid.IntRange(1, 100).Draw(t, "groups"), Tokens: rapid.IntRange(1, 5000).Draw(t, "tokens"), BlockTokens: rapid.IntRange(0, 64).Draw(t, "block"),
				Share: rapid.Float64Range(0, 1).Draw(t, "share"), Zipf: rapid.Float64Range(0, 10).Draw(t, "zipf"),
			}
		}
		b, err := json.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range name.FindAllSubmatch(b, -1) {
			if !snake.Match(m[1]) {
				t.Errorf("field %s in %s", m[1], b)
			}
		}
		var got Workload
		if err := json.Unmarshal(b, &got); err != nil || got != w {
			t.Errorf("%s reads as\n%+v, %v, want\n%+v", b, got, err, w)
		}
	})
}

func TestWorkloadJSONRefuses(t *testing.T) {
	w := Workload{Rate: 3}
	if err := json.Unmarshal([]byte(`{"prefixes": {"groups": "four"}}`), &w); err == nil || w.Rate != 3 {
		t.Errorf("read as %+v, %v", w, err)
	}
}
