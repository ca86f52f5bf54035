package main

import (
	"github.com/urfave/cli/v2"
)

func capacityCommand() *cli.Command {
	return &cli.Command{
		Name: "capacity", Usage: "how many GPUs, of which kind, split how, at what price, with what risk",
		Subcommands: []*cli.Command{capacityPlanCommand(), capacityRatioCommand(), capacityCatalogCommand(), capacityAutoscaleCommand(), capacityCompareCommand(), capacityReviewCommand()},
	}
}

func capacityPlanCommand() *cli.Command {
	return &cli.Command{
		Name: "plan", Usage: "the fleet that a workload takes within an SLO",
		Description: "Sizes pools by simulating whole fleets at the offered load, and checks that one engine fewer is too few.\n" +
			"Step times come from a measured profile (--profile), or from the latency model; --method formula gives the\n" +
			"closed formulas of published or given tokens/s instead, to be checked by hand, and says where they mislead. --gpu-count asks the other way\n" +
			"round: for the highest rate that so many GPUs hold.\n\n" +
			"   plimsoll capacity plan --model llama-3.1-70b --gpu h100-sxm,h200-sxm --rate 50 --isl 3000 --osl 150 --ttft-p99 1000 --itl-p99 50\n" +
			"   plimsoll capacity plan --profile profiling_results --trace azure.csv --ttft-p99 500 --itl-p99 40 --availability 0.999 --replica-availability 0.995\n" +
			"   plimsoll capacity plan --model llama-3.1-8b --gpu h100-sxm --gpu-count 8 --isl 3000 --osl 150 --ttft-p99 1000 --itl-p99 50",
		Flags:  append(append(append(workloadFlags(), sloFlags()...), moneyFlags()...), append(planFlags(), append(whatIfFlags(), detailsFlag())...)...),
		Action: planCapacity,
	}
}
