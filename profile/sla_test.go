package profile

import (
	"testing"
	"time"
)

// A run of rare huge gaps whose requests' means are good holds, at a fixed number in
// flight and under load, unless stalls are promised.
func TestGapsAreNotPromised(t *testing.T) {
	ms := time.Millisecond
	gaps, means := Distribution{N: 40_000, Neff: 40_000, Mean: 12 * ms, P99: 90 * ms}, Distribution{N: 400, Neff: 400, Mean: 12 * ms, P99: 18 * ms, Half: ms}
	for _, stat := range []Statistic{Mean, P99} {
		sla := SLA{TTFT: 100 * ms, ITL: 20 * ms, Stat: stat}
		point := Point{Phase: Decode, Provenance: Estimated, ITL: gaps, TPOT: means}
		load := Attainment{Requests: 400, TTFT: means, ITL: gaps, TPOT: means}
		if point.Latency(sla) != means.At(stat) || !load.Holds(Aggregated, sla) {
			t.Errorf("%s: %v, under load %v", sla, point.Latency(sla), load.Holds(Aggregated, sla))
		}
		if sla.Stall = 90 * ms; !load.Holds(Aggregated, sla) {
			t.Errorf("%s: missed by what is at the limit", sla)
		}
		if sla.Stall = 89 * ms; load.Holds(Aggregated, sla) || load.Holds(Decode, sla) || !load.Holds(Prefill, sla) {
			t.Errorf("%s: held by gaps of %v", sla, gaps.P99)
		}
	}
}

// Each latency of a promise has its statistic.
func TestSLAInWords(t *testing.T) {
	ms := time.Millisecond
	for want, sla := range map[string]SLA{
		"mean TTFT ≤ 400 ms, mean ITL ≤ 7.5 ms":                               {TTFT: 400 * ms, ITL: 7500 * time.Microsecond},
		"p95 TTFT ≤ 400 ms, p95 ITL ≤ 30 ms, p99 gap between tokens ≤ 100 ms": {TTFT: 400 * ms, ITL: 30 * ms, Stat: P95, Stall: 100 * ms},
	} {
		if got := sla.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
