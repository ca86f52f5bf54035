package capacity

import (
	"encoding/json"
	"math"
)

// USD is an amount of US dollars. One that is not known, because a GPU has no
// price, is NaN, and null in a file: what depends on it is not known either.
type USD float64

// UnknownUSD is the price of what has none.
func UnknownUSD() USD { return USD(math.NaN()) }

// Known reports whether there is such an amount.
func (u USD) Known() bool { return !math.IsNaN(float64(u)) }

// MarshalJSON is the number, or null.
func (u USD) MarshalJSON() ([]byte, error) {
	if !u.Known() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(u))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (u *USD) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*u = UnknownUSD()
		return nil
	}
	return json.Unmarshal(b, (*float64)(u))
}

// Costs are what GPUs cost in US dollars, and per unit of work at a rate of
// queries and output tokens. A month is 30 days, a year 365.
type Costs struct {
	HourlyUSD       USD `json:"hourly_cost_usd"`
	DailyUSD        USD `json:"daily_cost_usd"`
	MonthlyUSD      USD `json:"monthly_cost_usd"`
	AnnualUSD       USD `json:"annual_cost_usd"`
	Per1kQueriesUSD USD `json:"cost_per_1k_queries_usd"`
	Per1MTokensUSD  USD `json:"cost_per_1m_tokens_usd"` // output tokens
}

// costs of gpus that answer qps queries and give outputTPS tokens per second.
func costs(gpus int, usdPerGPUHour USD, qps, outputTPS float64) Costs {
	return hourlyCosts(USD(gpus)*usdPerGPUHour, qps, outputTPS)
}

// hourlyCosts are those of GPUs of any kinds.
func hourlyCosts(hourly USD, qps, outputTPS float64) Costs {
	return Costs{
		HourlyUSD:       hourly,
		DailyUSD:        hourly * 24,
		MonthlyUSD:      hourly * 24 * 30,
		AnnualUSD:       hourly * 24 * 365,
		Per1kQueriesUSD: hourly / USD(qps*3600) * 1e3,
		Per1MTokensUSD:  hourly / USD(outputTPS*3600) * 1e6,
	}
}

// CostsAtPeak are those of GPUs that are always there, per unit of the work
// that the peak brings: the least that a query or a token can cost.
func (w Workload) CostsAtPeak(gpus int, usdPerGPUHour USD) Costs {
	return costs(gpus, usdPerGPUHour, w.Rate, w.Rate*w.OSL)
}

// CostsAtAverage are the same per unit of the work that comes on average: what
// the bill at the end of the month says.
func (w Workload) CostsAtAverage(gpus int, usdPerGPUHour USD) Costs {
	return costs(gpus, usdPerGPUHour, w.AverageRate(), w.AverageRate()*w.OSL)
}
