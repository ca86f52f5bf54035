// Package cputime says how much processor time a benchmark took. Where other
// work runs beside it, the time of day says little.
package cputime

import (
	"testing"
	"time"
)

// Unit is that of the figure that Report adds to a benchmark.
const Unit = "cpu-ns/op"

// Report adds the processor time per iteration, all threads', from its call to the
// call of what it returns. It belongs right before a benchmark's loop:
//
//	defer cputime.Report(b)()
//
// Where the system does not say, nothing is added.
func Report(b *testing.B) (done func()) {
	begin := Used()
	return func() {
		if used := Used() - begin; used > 0 {
			b.ReportMetric(float64(used)/float64(b.N)/float64(time.Nanosecond), Unit)
		}
	}
}
