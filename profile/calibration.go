package profile

import "time"

// Quantiles of an error that is 0 for a perfect client.
type Quantiles struct {
	P50  time.Duration `json:"p50_ns"`
	P99  time.Duration `json:"p99_ns"`
	P999 time.Duration `json:"p999_ns"`
}

// Added is what a client itself put into latencies that were known otherwise.
type Added struct {
	TTFT Quantiles `json:"ttft"`
	ITL  Quantiles `json:"itl"` // of |measured gap − true gap|
}

// Beat is the result of one calibration load.
type Beat struct {
	Kernel      Added         `json:"kernel,omitzero"`   // by the kernel's stamps; zero where there are none
	Read        Added         `json:"read"`              // by instants after the read
	CPUPerToken time.Duration `json:"cpu_per_token_ns"`  // processor time; 0 = not known here
	Wait        time.Duration `json:"scheduling_lag_ns"` // p99 of how long a goroutine that could run did not
}

// Calibration is what a client says of itself before it measures, found against
// a server that knows when it wrote what. That server runs in the same process:
// the errors hold its interference and the way through the kernel, so that they
// are upper bounds of the client's own.
type Calibration struct {
	Streams   int           `json:"streams"` // at once
	Gap       time.Duration `json:"gap_ns"`  // between the chunks of one stream
	Kernel    bool          `json:"kernel_stamps"`
	Staggered Beat          `json:"staggered"` // streams spread evenly over the gap
	Stepped   Beat          `json:"stepped"`   // all streams at one instant, as an engine's steps send them
}

// AddedITL is the p99 that the client adds to an ITL in the worse pattern, by the
// instants that its records count by.
func (c Calibration) AddedITL() time.Duration {
	if c.Kernel {
		return max(c.Staggered.Kernel.ITL.P99, c.Stepped.Kernel.ITL.P99)
	}
	return max(c.Staggered.Read.ITL.P99, c.Stepped.Read.ITL.P99)
}
