package capacity_test

import (
	"fmt"
	"time"

	"plimsoll/capacity"
	"plimsoll/profile/trace"
)

// A chatbot by the closed formulas, and one thing that they get wrong.
func ExampleFormula() {
	chat := capacity.Workload{
		Rate: 100, ISL: 256, ISLP99: 1024, OSL: 512, OSLP99: 2048,
		Pattern: trace.Flat, PeakToAverage: 2.5, PeakWindow: time.Minute,
	}
	slo := capacity.SLO{TTFT: 500 * time.Millisecond, ITL: 50 * time.Millisecond, Availability: 0.999}
	llama70B := capacity.PublishedThroughputs()[1]
	options := capacity.Options{Strategy: capacity.Disaggregated, UtilizationTarget: 0.70, USDPerGPUHour: capacity.PublishedUSDPerGPUHr}
	plan, err := capacity.Formula(chat, slo, llama70B, options)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d + %d groups, %d GPUs, $%.0f/h, %s\n", plan.PrefillGroups, plan.DecodeGroups, plan.TotalGPUsFinal, plan.HourlyUSD, plan.Provenance)
	for _, c := range capacity.Misleads(chat, slo, llama70B, options, plan, capacity.Facts{}) {
		if c.Field == "total_gpus_with_burst" {
			fmt.Printf("%s: %v, rightly %v\n", c.Field, c.Formula, c.Right)
		}
	}
	// Output:
	// 1 + 10 groups, 76 GPUs, $266/h, published
	// total_gpus_with_burst: 66, rightly 44
}
