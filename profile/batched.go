package profile

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// BatchedSample is prefill of prompts that arrive together.
type BatchedSample struct {
	ISL              int           // tokens of each prompt
	K                int           // prompts in flight at once, 2 or more
	TTFT             time.Duration // mean of them
	ThroughputPerGPU float64       // prompt tokens/s/GPU
}

// BatchedPrefill is prefill throughput over ISL at one configuration, of as many
// prompts at once as fill an engine's step, ISL strictly rising. A short prompt
// alone leaves most of a step empty, so that a PrefillSurface understates what
// the engine does with many of them, up to tenfold.
type BatchedPrefill struct {
	Samples          []BatchedSample
	MaxBatchedTokens int // of a step: the engine's limit, or what was assumed of it
	Provenance       Provenance
}

// mostBatched bounds what the figures of a sample may be.
const mostBatched = 1 << 40

// Check says what is wrong with b, each by field and range.
func (b BatchedPrefill) Check() error {
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(len(b.Samples) == 0, "no samples")
	bad(b.MaxBatchedTokens < 1 || b.MaxBatchedTokens > mostBatched, "max_num_batched_tokens is %d: want 1 to 2^40", b.MaxBatchedTokens)
	for i, s := range b.Samples {
		bad(s.ISL < 1 || s.ISL > mostBatched, "isl[%d] is %d: want 1 to 2^40", i, s.ISL)
		bad(i > 0 && s.ISL <= b.Samples[max(i-1, 0)].ISL, "isl[%d] is %d after %d: want rising", i, s.ISL, b.Samples[max(i-1, 0)].ISL)
		bad(s.K < 2 || s.K > mostBatched, "k[%d] is %d: want 2 to 2^40", i, s.K)
		bad(s.TTFT <= 0 || s.TTFT > 24*time.Hour, "ttft_ms[%d] is %v: want above 0 to a day", i, s.TTFT)
		bad(!(s.ThroughputPerGPU > 0) || math.IsInf(s.ThroughputPerGPU, 0), "throughput_per_gpu[%d] is %v: want a number above 0", i, s.ThroughputPerGPU)
	}
	return errors.Join(errs...)
}
