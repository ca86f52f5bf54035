package capacity

import (
	"testing"

	"plimsoll/engine/enginetest/cputime"
)

func BenchmarkFormulaWithCorrections(b *testing.B) {
	th, o := PublishedThroughputs()[1], as(Disaggregated)
	b.ReportAllocs()
	defer cputime.Report(b)()
	for b.Loop() {
		p, err := Formula(chatLoad, chatbotSLO, th, o)
		if err != nil || len(Misleads(chatLoad, chatbotSLO, th, o, p, Facts{ReplicaAvailability: 0.99})) == 0 {
			b.Fatal(err)
		}
		b.ReportMetric(float64(p.TotalGPUs), "GPUs") // before burst headroom and spares, as Size
		b.ReportMetric(float64(p.TotalGPUsWithBurst), "GPUs-with-burst")
	}
}

func BenchmarkSpares(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Spares([]Pool{{"prefill", 40, 4, 2}, {"decode", 200, 8, 1}}, 0.99, 0.999); err != nil {
			b.Fatal(err)
		}
	}
}
