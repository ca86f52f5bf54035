package main

import (
	"slices"
	"testing"

	"plimsoll/engine/latency"
)

// BenchmarkHeldOut is the median error on the rows of vLLM 0.15.1 that a fit has
// not seen: of a TP that was not fitted, beside the rule of thumb, and of the fit
// to other versions before and after it is calibrated on six chosen points.
func BenchmarkHeldOut(b *testing.B) {
	rows, err := readRows("..")
	if err != nil {
		b.Fatal(err)
	}
	all := families()
	f := all[slices.IndexFunc(all, func(f family) bool { return f.fit.Name == "vllm-0.15.1" })]
	for b.Loop() {
		r, err := fitOne(rows, f)
		if err != nil {
			b.Fatal(err)
		}
		report := func(e latency.Error, unit string) { b.ReportMetric(100*e.Median, unit) }
		report(r.fit.OtherTP.TPOT, "%tpot-other-tp")
		report(summary("", naiveTPOT(r.obs)).TPOT, "%tpot-rule")
		report(r.prior.TPOT, "%tpot-before")
		report(r.prior.TTFT, "%ttft-before")
		for _, d := range r.six {
			if d.ttft {
				report(d.chosen, "%ttft-six")
			} else {
				report(d.chosen, "%tpot-six")
			}
		}
	}
}
