package recommend

import (
	"strings"
	"testing"
	"time"

	"plimsoll/profile"
)

// A runner-up that the measurement cannot tell from the pick is named.
func TestTied(t *testing.T) {
	s := sla(time.Second, 100*ms)
	of := func(tp int, throughput, half float64) profile.Point {
		p := decode(tp, 10, 10*ms)
		p.ThroughputPerGPU = throughput
		if half > 0 {
			p.Throughput95 = profile.Interval{Low: throughput - half, High: throughput + half}
		}
		return p
	}
	for name, c := range map[string]struct {
		one, two profile.Point
		want     string // empty = none
	}{
		"within 5 %":               {of(1, 1000, 1), of(2, 960, 1), "decode: TP:1 and TP:2 are tied (1,000 and 960 tokens/s/GPU, within 5 %). Choose"},
		"more than 5 %":            {of(1, 1000, 1), of(2, 940, 1), ""},
		"intervals that overlap":   {of(1, 1000, 60), of(2, 900, 60), "within their 95 % intervals"},
		"intervals that do not":    {of(1, 1000, 40), of(2, 900, 40), ""},
		"no intervals":             {of(1, 1000, 0), of(2, 900, 0), ""},
		"fewer GPUs won the tie":   {of(1, 900, 100), of(2, 1000, 100), "TP:1 and TP:2 are tied (900 and 1,000"},
		"two loads of one config.": {of(1, 1000, 1), of(1, 999, 1), ""},
	} {
		got := warned(choose(t, profile.Decode, s, BySingle, c.one, c.two), "tied")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
	missing := of(2, 999, 1)
	missing.ITL.Mean = time.Second
	if got := warned(choose(t, profile.Decode, s, BySingle, of(1, 1000, 1), missing), "tied"); got != "" {
		t.Errorf("tied with what misses the SLA: %q", got)
	}
	if got := warned(choose(t, profile.Decode, sla(time.Second, ms), BySingle, of(1, 1000, 1), of(2, 999, 1)), "tied"); got != "" {
		t.Errorf("tied without an answer: %q", got)
	}
}

// Rates of aggregated engines are found to 5 %, and so are their throughputs.
func TestTiedAggregated(t *testing.T) {
	points := func(second float64) []profile.Point {
		return []profile.Point{loaded(1, 2, 150*ms, 15*ms, 300), loaded(2, 4, 150*ms, 15*ms, second)}
	}
	for second, want := range map[float64]bool{290: true, 250: false} {
		ch, err := ChooseAggregated(points(second), sla(200*ms, 20*ms))
		if got := warned(ch, "tied"); err != nil || (got != "") != want {
			t.Errorf("300 against %v: %q, %v", second, got, err)
		}
	}
}
