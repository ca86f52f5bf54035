package capacity

// Costs are what GPUs cost in US dollars, and per unit of work at a rate of
// queries and output tokens. A month is 30 days, a year 365.
type Costs struct {
	HourlyUSD       float64 `json:"hourly_cost_usd"`
	DailyUSD        float64 `json:"daily_cost_usd"`
	MonthlyUSD      float64 `json:"monthly_cost_usd"`
	AnnualUSD       float64 `json:"annual_cost_usd"`
	Per1kQueriesUSD float64 `json:"cost_per_1k_queries_usd"`
	Per1MTokensUSD  float64 `json:"cost_per_1m_tokens_usd"` // output tokens
}

// costs of gpus that answer qps queries and give outputTPS tokens per second.
func costs(gpus int, usdPerGPUHour, qps, outputTPS float64) Costs {
	return hourlyCosts(float64(gpus)*usdPerGPUHour, qps, outputTPS)
}

// hourlyCosts are those of GPUs of any kinds.
func hourlyCosts(hourly, qps, outputTPS float64) Costs {
	return Costs{
		HourlyUSD:       hourly,
		DailyUSD:        hourly * 24,
		MonthlyUSD:      hourly * 24 * 30,
		AnnualUSD:       hourly * 24 * 365,
		Per1kQueriesUSD: hourly / (qps * 3600) * 1e3,
		Per1MTokensUSD:  hourly / (outputTPS * 3600) * 1e6,
	}
}

// CostsAtPeak are those of GPUs that are always there, per unit of the work
// that the peak brings: the least that a query or a token can cost.
func (w Workload) CostsAtPeak(gpus int, usdPerGPUHour float64) Costs {
	return costs(gpus, usdPerGPUHour, w.PeakQPS, w.PeakQPS*w.AvgOSL)
}

// CostsAtAverage are the same per unit of the work that comes on average: what
// the bill at the end of the month says.
func (w Workload) CostsAtAverage(gpus int, usdPerGPUHour float64) Costs {
	return costs(gpus, usdPerGPUHour, w.AverageQPS(), w.AverageQPS()*w.AvgOSL)
}
