package latency

import (
	"testing"

	"plimsoll/engine"
)

// timer is how a simulator holds a Model: what the interface costs is part of
// what is measured.
type timer interface {
	StepTime(b engine.Batch) engine.Picoseconds
	DecodeRun(seqs int, context int64) (first, growth engine.Picoseconds, steps int64)
}

func BenchmarkStepTime(b *testing.B) {
	decode := engine.Batch{DecodeSeqs: 64, DecodeContext: 64 * 3000}
	mixed := decode
	mixed.AddChunk(2000, 500)
	for _, model := range []string{"llama-3.1-8b", "gpt-oss-20b", "mixtral-8x7b"} {
		var t timer = on(b, model, "h100-sxm", engine.Config{Parallelism: engine.TP(2)})
		step := func(batch engine.Batch) func(b *testing.B) {
			return func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					t.StepTime(batch)
				}
			}
		}
		b.Run(model+"/decode", step(decode))
		b.Run(model+"/mixed", step(mixed))
	}
}

func BenchmarkDecodeRun(b *testing.B) {
	for _, model := range []string{"llama-3.1-8b", "gpt-oss-20b", "mixtral-8x7b"} {
		b.Run(model, func(b *testing.B) {
			var t timer = on(b, model, "h100-sxm", engine.Config{Parallelism: engine.TP(2)})
			b.ReportAllocs()
			for b.Loop() {
				t.DecodeRun(64, 64*3000)
			}
		})
	}
}
