// Package canned has a benchmark of each kind that bench must understand.
package canned

import "testing"

func BenchmarkReports(b *testing.B) {
	b.Run("a=1/b.c", func(b *testing.B) {
		for b.Loop() {
			b.ReportMetric(3, "things")
		}
	})
	b.Run("other", func(b *testing.B) { b.Fatal("the pattern runs other benchmarks") })
}

func BenchmarkNeeds(b *testing.B) { b.Skip("tool: not here") }

func BenchmarkFails(b *testing.B) { b.Fatal("a reason: of its own") }

// BenchmarkReportsMore is not BenchmarkReports.
func BenchmarkReportsMore(b *testing.B) { b.Fatal("the pattern runs other benchmarks") }
