package capacity

import (
	"errors"
	"fmt"

	"plimsoll/profile"
)

// Throughput is what one engine, a group of TP GPUs, does at most.
type Throughput struct {
	Name       string  `json:"name"`             // for people: "Llama-3.1-70B on H100, TP4"
	Model      string  `json:"model"`            // catalog name
	GPU        string  `json:"gpu"`              // catalog name
	TP         int     `json:"tp"`               // GPUs of a group
	PrefillTPS float64 `json:"prefill_tokens_s"` // prompt tokens/s of a group that only prefills
	DecodeTPS  float64 `json:"decode_tokens_s"`  // output tokens/s of a group that only decodes, MaxBatch in flight
	MaxBatch   int     `json:"max_batch"`        // sequences in flight in a group
	// KVBytesPerToken is what the formulas are told that a token of context
	// takes, all GPUs of the group together.
	KVBytesPerToken int64              `json:"kv_bytes_per_token"`
	GPUMemoryBytes  int64              `json:"gpu_memory_bytes"`
	Provenance      profile.Provenance `json:"provenance"`
	Warnings        []profile.Warning  `json:"warnings,omitempty"` // of where it is from; a plan by it has them too
}

// Check says all that is wrong with t, each by field and range.
func (t Throughput) Check() error {
	errs := []error{
		within("prefill_tokens_s", t.PrefillTPS, 1, 1e9),
		within("decode_tokens_s", t.DecodeTPS, 1, 1e9),
		within("tp", float64(t.TP), 1, 1024),
		within("max_batch", float64(t.MaxBatch), 1, 1e6),
		within("kv_bytes_per_token", float64(t.KVBytesPerToken), 1, 1e9),
		within("gpu_memory_bytes", float64(t.GPUMemoryBytes), 1<<20, 1<<50),
	}
	if t.Provenance < profile.Measured || t.Provenance > profile.Given {
		errs = append(errs, fmt.Errorf("provenance is %d: want measured, simulated, estimated, published or given", int8(t.Provenance)))
	}
	return errors.Join(errs...)
}

// groupBytes is the memory of a group.
func (t Throughput) groupBytes() float64 { return float64(t.TP) * float64(t.GPUMemoryBytes) }
