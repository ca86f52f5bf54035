package capacity

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"plimsoll/engine/field"
	"plimsoll/profile"
	"plimsoll/profile/trace"
)

// Workload is the traffic to plan for.
type Workload struct {
	// Rate is the rate to plan for, in requests per second: the highest that
	// any PeakWindow sees.
	Rate float64 `json:"rate"`
	// Lengths in tokens, 1 to trace.MaxTokens; a p99 equal to its average means
	// that every length is the same.
	ISL    float64 `json:"isl"`
	ISLP99 float64 `json:"isl_p99"`
	OSL    float64 `json:"osl"`
	OSLP99 float64 `json:"osl_p99"`
	// Pattern is how the rate moves over a day.
	Pattern trace.Pattern `json:"pattern"`
	// PeakToAverage is Rate over the mean rate, at least 1. It means nothing
	// without PeakWindow, over which the peak is counted: the same trace can
	// have 26 at 1 s and 4 at 60 s.
	PeakToAverage float64       `json:"peak_to_average"`
	PeakWindow    time.Duration `json:"peak_window_ns"`
	// Prefixes say which prompts begin alike; zero = none. BlockTokens has no
	// meaning here: engines have their own.
	Prefixes trace.Prefixes `json:"prefixes,omitzero"`
}

// prefixesJSON are trace.Prefixes in a file.
type prefixesJSON struct {
	Groups      int     `json:"groups"`
	Tokens      int     `json:"tokens"`
	BlockTokens int     `json:"block_tokens,omitzero"`
	Share       float64 `json:"share"`
	Zipf        float64 `json:"zipf,omitzero"`
}

// workloadFields are Workload without its methods.
type workloadFields Workload

// workloadJSON is a Workload in a file: of two fields of one name, the outer one
// counts.
type workloadJSON struct {
	workloadFields
	Prefixes prefixesJSON `json:"prefixes,omitzero"`
}

// MarshalJSON has all names in snake_case, those of Prefixes too.
func (w Workload) MarshalJSON() ([]byte, error) {
	return json.Marshal(workloadJSON{workloadFields(w), prefixesJSON(w.Prefixes)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (w *Workload) UnmarshalJSON(b []byte) error {
	f := workloadJSON{workloadFields: workloadFields(*w), Prefixes: prefixesJSON(w.Prefixes)}
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	*w = Workload(f.workloadFields)
	w.Prefixes = trace.Prefixes(f.Prefixes)
	return nil
}

// Check says all that is wrong with w, each by field and range.
func (w Workload) Check() error {
	_, pattern := w.Pattern.Hours()
	errs := []error{
		within(field.Rate, w.Rate, 1e-9, trace.MaxRate),
		checkLengths(field.ISL, field.ISLP99, w.ISL, w.ISLP99),
		checkLengths(field.OSL, field.OSLP99, w.OSL, w.OSLP99),
		pattern,
		within(field.PeakToAverage, w.PeakToAverage, 1, 1e6),
	}
	if p := w.Prefixes; p.Groups > 0 {
		p.BlockTokens = prefixBlock
		errs = append(errs, p.Validate(), within(field.PrefixTokens, float64(p.Tokens), 1, w.ISL))
	}
	if w.PeakToAverage > 1 && w.PeakWindow <= 0 {
		errs = append(errs, fmt.Errorf("%s is %v: want the time over which %s %v was counted, such as 60s", field.PeakWindow, w.PeakWindow, field.PeakToAverage, w.PeakToAverage))
	}
	return errors.Join(errs...)
}

func checkLengths(mean, high string, avg, p99 float64) error {
	err := errors.Join(within(mean, avg, 1, trace.MaxTokens), within(high, p99, 1, trace.MaxTokens))
	if err != nil {
		return err
	}
	if p99 < avg {
		return fmt.Errorf("%s %v is below %s %v: want at least the mean", high, p99, mean, avg)
	}
	return nil
}

// AverageRate is the mean rate over the day, in requests per second.
func (w Workload) AverageRate() float64 { return w.Rate / w.PeakToAverage }

// Context is the mean tokens in the KV cache of a running sequence.
func (w Workload) Context() float64 {
	return profile.Context(w.ISL, w.OSL, profile.Spread2(w.OSL, max(w.OSL, w.OSLP99)))
}

// Day is the mean rate in each hour of the day, in requests per second; all 0
// for an unknown pattern.
func (w Workload) Day() [24]float64 {
	hours, err := w.Pattern.Hours()
	if err != nil {
		return [24]float64{}
	}
	for h := range hours {
		hours[h] *= w.AverageRate()
	}
	return hours
}

// Warnings are what Check accepts but a reader should know.
func (w Workload) Warnings() []profile.Warning {
	var most float64
	for _, qps := range w.Day() {
		most = max(most, qps)
	}
	if most <= w.Rate*(1+1e-9) || w.PeakWindow > time.Hour {
		return nil
	}
	return []profile.Warning{profile.Warnf("pattern_above_peak",
		"the pattern %s rises to %.4g times its mean, above %s %.4g. Its busiest hour has %.4g requests/s, but this plans for a peak of %.4g",
		w.Pattern, most/w.AverageRate(), field.PeakToAverage, w.PeakToAverage, most, w.Rate)}
}

// Measured is the workload that a trace shows, with the peak in the window
// given, which has to be one that s was summed up with. A trace shorter than a
// day has no daily pattern: it is flat.
func Measured(s trace.Stats, window time.Duration) (Workload, error) {
	for _, p := range s.Peaks {
		if p.Window != window || p.Requests == 0 {
			continue
		}
		w := Workload{
			Rate: float64(p.Requests) / window.Seconds(),
			ISL:  s.ISL.Mean, ISLP99: max(s.ISL.P99, s.ISL.Mean),
			OSL: s.OSL.Mean, OSLP99: max(s.OSL.P99, s.OSL.Mean),
			Pattern: trace.Flat,
			// A trace of hardly more than a window can have its peak below the mean.
			PeakToAverage: max(p.Ratio, 1), PeakWindow: window,
		}
		return w, w.Check()
	}
	return Workload{}, fmt.Errorf("the trace was not summed up in windows of %v, so its peak there is unknown", window)
}
