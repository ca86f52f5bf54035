package profile

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestBatchedPrefillCheck(t *testing.T) {
	good := func() BatchedPrefill {
		return BatchedPrefill{MaxBatchedTokens: 8192, Samples: []BatchedSample{
			{ISL: 100, K: 81, TTFT: time.Second, ThroughputPerGPU: 8000}, {ISL: 1000, K: 8, TTFT: time.Second, ThroughputPerGPU: 8000},
		}}
	}
	if err := good().Check(); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*BatchedPrefill){
		"no samples":                           func(b *BatchedPrefill) { b.Samples = nil },
		"max_num_batched_tokens is 0":          func(b *BatchedPrefill) { b.MaxBatchedTokens = 0 },
		"isl[0] is 0":                          func(b *BatchedPrefill) { b.Samples[0].ISL = 0 },
		"isl[1] is 100 after 100: want rising": func(b *BatchedPrefill) { b.Samples[1].ISL = 100 },
		"k[1] is 1: want 2":                    func(b *BatchedPrefill) { b.Samples[1].K = 1 },
		"ttft_ms[0] is 0s":                     func(b *BatchedPrefill) { b.Samples[0].TTFT = 0 },
		"throughput_per_gpu[1] is NaN":         func(b *BatchedPrefill) { b.Samples[1].ThroughputPerGPU = math.NaN() },
		"throughput_per_gpu[0] is +Inf":        func(b *BatchedPrefill) { b.Samples[0].ThroughputPerGPU = math.Inf(1) },
	} {
		b := good()
		spoil(&b)
		if err := b.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
