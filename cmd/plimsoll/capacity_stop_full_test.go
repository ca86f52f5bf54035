//go:build full

package main

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"syscall"
	"testing"

	"plimsoll/engine/enginetest"
)

// heavy is a workload whose sizing takes minutes, so that a signal always comes
// before its end.
const heavy = `model: llama-3.1-70b
gpu: h100-sxm,h200-sxm,b200-sxm
rate: 2000
isl: 8192
isl-p99: 32768
osl: 2000
osl-p99: 8000
ttft-p99: 8000
itl-p99: 50
`

func heavyTrace(t *testing.T) string {
	var b bytes.Buffer
	b.WriteString("arrival_s,isl,osl\n")
	for i := range 200_000 {
		fmt.Fprintf(&b, "%.3f,8192,2000\n", float64(i)/200)
	}
	return written(t, "trace.csv", b.String())
}

// heavyPrometheus saw 200 requests/s of 8192 and 2000 tokens.
func heavyPrometheus(t *testing.T) string {
	p := steadyPrometheus()
	p.values[0].value, p.values[5].value, p.values[6].value = "12000", "98304000", "24000000"
	p.buckets["prompt_tokens"] = map[string]string{"5000": "0", "10000": "12000", "+Inf": "12000"}
	p.buckets["generation_tokens"] = map[string]string{"1000": "0", "3000": "12000", "+Inf": "12000"}
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	return s.URL
}

// Ctrl-C ends a fleet's sizing at once, whichever command sizes it, and nothing
// half done is printed.
func TestSizingStops(t *testing.T) {
	t.Parallel()
	workload, plan := written(t, "workload.yaml", heavy), heavyPlan(t)
	for name, args := range map[string][]string{
		"plan":                   {"plan", "--workload", workload},
		"autoscale":              {"autoscale", "--workload", workload, "--pattern", "business_hours"},
		"compare":                {"compare", workload, workload},
		"review of a trace":      {"review", "--trace", heavyTrace(t), plan},
		"review of a Prometheus": {"review", "--prometheus", heavyPrometheus(t), "--served-model-name", "llama", plan},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, nil, append([]string{"capacity"}, args...)...)
			enginetest.Eventually(t, "sizing", func() bool { return p.ticks(t) > 100 })
			p.signal(t, syscall.SIGINT)
			stopped(t, p)
		})
	}
}
