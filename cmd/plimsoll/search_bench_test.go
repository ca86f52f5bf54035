package main

import (
	"testing"
	"time"

	"plimsoll/sweep"
)

// BenchmarkSearch is what both searches spend on the contest's six deployments
// together: engine-seconds without loading, launches and requests.
func BenchmarkSearch(b *testing.B) {
	for name, how := range map[string]sweep.Search{"adaptive": sweep.Adaptive, "grid": sweep.Grid} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				var seconds, launches, requests float64
				for _, c := range contests() {
					cost := c.seeker(b).search(b, how).Cost
					seconds += cost.Measuring()
					launches += float64(cost.Launches)
					requests += float64(cost.Requests)
				}
				b.ReportMetric(seconds*float64(time.Second), "engine-ns/op")
				b.ReportMetric(launches, "launches")
				b.ReportMetric(requests, "requests")
			}
		})
	}
}
