package capacity

import (
	"errors"
	"fmt"
)

// Strategy says whether prefill and decode have GPUs of their own.
type Strategy string

// The strategies. Auto is the one that takes fewer GPUs; of equals,
// Disaggregated.
const (
	Disaggregated Strategy = "disaggregated"
	Aggregated    Strategy = "aggregated"
	Auto          Strategy = "auto"
)

// parseStrategy reads a strategy's name; "colocated" is Aggregated.
func parseStrategy(s string) (Strategy, error) {
	switch st := Strategy(s); st {
	case Disaggregated, Aggregated, Auto:
		return st, nil
	case "colocated":
		return Aggregated, nil
	}
	return "", fmt.Errorf("strategy is %q: want disaggregated, aggregated (or colocated) or auto", s)
}

// Options are what a plan is made with besides workload and SLO.
type Options struct {
	Strategy Strategy `json:"strategy"`
	// UtilizationTarget is the share of a group's throughput that is planned
	// with, above 0 to 1.
	UtilizationTarget float64 `json:"utilization_target"`
	USDPerGPUHour     USD     `json:"usd_per_gpu_hour"`
}

// Check says all that is wrong with o, each by field and range.
func (o Options) Check() error {
	_, strategy := parseStrategy(string(o.Strategy))
	return errors.Join(strategy,
		within("utilization_target", o.UtilizationTarget, 0.01, 1),
		checkPrice("cost_per_gpu_hour", o.USDPerGPUHour))
}
