package capacity

import (
	"fmt"

	"plimsoll/profile"
)

// Sustains is the highest rate up to rate, in requests/s and to 3 %, that one engine of
// each pool holds within the SLA in a trial of so many requests; 0 where none down to
// half of it does. Short trials end before their queues are as long as they become: next
// to saturation the rate that they find is a tenth too high, or more.
func (l Layout) Sustains(rate float64, w Workload, sla profile.SLA, requests int, seed uint64) (float64, error) {
	t, err := w.PeakTraffic()
	if err != nil {
		return 0, fmt.Errorf("confirming a rate: %w", err)
	}
	ones := make([]int, len(l.Pools))
	for i := range ones {
		ones[i] = 1
	}
	slo := OfSLA(sla)
	for at := rate; at > 0 && at >= rate/2; at *= 1 - rateTolerance {
		trial, err := l.tryUntil(func(*observer) bool { return false }, ones, t.Scaled(at/t.Rate), slo, requests, seed)
		if err != nil {
			return 0, err
		}
		if trial.held() {
			return at, nil
		}
	}
	return 0, nil
}
