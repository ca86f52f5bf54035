package store

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"plimsoll/profile"
)

// BatchedFile is the name of profile.BatchedPrefill in an output folder. A profile
// has none where no prompt was short enough to batch, or another program made it.
const BatchedFile = "prefill_batched.json"

// BatchedSchemaVersion is the version of prefill_batched.json.
const BatchedSchemaVersion = 1

// batchedColumns is prefill_batched.json: one value of each list per prompt length.
type batchedColumns struct {
	Schema           int                `json:"schema"`
	Provenance       profile.Provenance `json:"provenance"`
	MaxBatchedTokens int                `json:"max_num_batched_tokens"`
	ISL              []int              `json:"isl"`                // tokens
	K                []int              `json:"k"`                  // prompts at once
	TTFTMillis       []float64          `json:"ttft_ms"`            // mean of them
	ThroughputPerGPU []float64          `json:"throughput_per_gpu"` // prompt tokens/s/GPU
}

// WriteBatched writes prefill_batched.json into dir. Without samples it removes the
// one that an earlier run may have left there.
func WriteBatched(dir string, b profile.BatchedPrefill) error {
	path := filepath.Join(dir, BatchedFile)
	if len(b.Samples) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := b.Check(); err != nil {
		return fmt.Errorf("batched prefill: %w", err)
	}
	c := batchedColumns{Schema: BatchedSchemaVersion, Provenance: b.Provenance, MaxBatchedTokens: b.MaxBatchedTokens}
	for _, s := range b.Samples {
		c.ISL, c.K = append(c.ISL, s.ISL), append(c.K, s.K)
		c.TTFTMillis, c.ThroughputPerGPU = append(c.TTFTMillis, profile.Milliseconds(s.TTFT)), append(c.ThroughputPerGPU, s.ThroughputPerGPU)
	}
	return writeJSON(path, c)
}

// LoadBatched reads a profile folder's prefill_batched.json; fs.ErrNotExist where
// there is none.
func LoadBatched(dir string) (profile.BatchedPrefill, error) {
	path := filepath.Join(dir, BatchedFile)
	raw, err := readFile(path)
	if err != nil {
		return profile.BatchedPrefill{}, err
	}
	b, err := parseBatched(raw)
	if err != nil {
		return profile.BatchedPrefill{}, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}

func parseBatched(raw []byte) (profile.BatchedPrefill, error) {
	var b profile.BatchedPrefill
	if err := checkSchema(raw, BatchedSchemaVersion); err != nil {
		return b, err
	}
	var c batchedColumns
	if err := decodeStrict(raw, &c); err != nil {
		return b, err
	}
	var errs complaints
	for _, l := range []struct {
		key string
		n   int
	}{{"k", len(c.K)}, {"ttft_ms", len(c.TTFTMillis)}, {"throughput_per_gpu", len(c.ThroughputPerGPU)}} {
		errs.unless(l.n == len(c.ISL), "%s has %d values where isl has %d", l.key, l.n, len(c.ISL))
	}
	if len(errs) > 0 {
		return b, errors.Join(errs...)
	}
	b.MaxBatchedTokens, b.Provenance = c.MaxBatchedTokens, c.Provenance
	for i, isl := range c.ISL {
		ms := min(max(c.TTFTMillis[i], 0), 2*profile.Milliseconds(maxLatency)) // beyond, Check refuses it
		b.Samples = append(b.Samples, profile.BatchedSample{
			ISL: isl, K: c.K[i], TTFT: time.Duration(math.Round(ms * float64(time.Millisecond))), ThroughputPerGPU: c.ThroughputPerGPU[i],
		})
	}
	return b, b.Check()
}
