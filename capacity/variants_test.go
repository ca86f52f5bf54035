package capacity

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
)

// chunked are a scene's aggregated engines with the default and every other chunk.
func chunked(t testing.TB, s scene) Variants {
	t.Helper()
	var out Variants
	for _, tokens := range append([]int{0}, Chunks()...) {
		p := engines(t, s.model, s.gpu, s.tp, engine.RoleAggregated)
		if own := &p.Engine.Limits; tokens == own.MaxNumBatchedTokens {
			continue
		} else if tokens > 0 {
			own.MaxNumBatchedTokens, own.MaxNumSeqs = tokens, min(tokens, own.MaxNumSeqs)
		}
		out = append(out, Layout{Strategy: Aggregated, Pools: []EnginePool{p}, Chunk: tokens})
	}
	return out
}

// mixes are long prompts and short, long answers and short, at one engine and at
// several, within SLOs that one latency or the other binds.
var mixes = []scene{
	{"llama-3.1-8b", "h100-sxm", 1, 0, 25, 3000, 3000, 150, 150, 1000 * ms, 50 * ms, 0},
	{"llama-3.1-8b", "h100-sxm", 1, 0, 12, 3000, 3000, 150, 150, 400 * ms, 25 * ms, 0},
	{"llama-3.1-8b", "h100-sxm", 1, 0, 30, 512, 2048, 128, 512, 300 * ms, 20 * ms, 0},
	{"llama-3.1-8b", "a100-80-sxm", 1, 0, 6, 1024, 4096, 64, 256, 1000 * ms, 60 * ms, 0},
	{"llama-3.1-70b", "h100-sxm", 4, 0, 5, 3000, 3000, 150, 300, 1000 * ms, 50 * ms, 0},
	{"llama-3.1-70b", "h100-sxm", 8, 0, 8, 1024, 1024, 128, 128, 500 * ms, 40 * ms, 0},
	{"llama-3.1-405b", "h200-sxm", 8, 0, 1.5, 3000, 3000, 150, 150, 5000 * ms, 100 * ms, 0},
	{"llama-3.1-8b", "h100-sxm", 1, 0, 2, 256, 256, 128, 128, 1000 * ms, 50 * ms, 0},
}

// The oracle sizes every chunk with all care: every fifth case, and with the tag full all.
func TestSearchedChunkIsNearTheBestOfAll(t *testing.T) {
	stride := 7
	if enginetest.Full {
		stride = 1
	}
	for i := 0; i < 2*len(mixes); i += stride {
		s, stalls := mixes[i/2], i%2 == 1
		t.Run(fmt.Sprintf("%s stalls promised: %v", s.name(), stalls), func(t *testing.T) {
			t.Parallel()
			all, slo := chunked(t, s), s.slo()
			if stalls {
				slo.StallP99 = slo.ITL
			}
			traffic, err := s.workload().PeakTraffic()
			if err != nil {
				t.Fatal(err)
			}
			o := SizeOptions{Seed: 1, Requests: 5000}
			got, err := all.Size(traffic, slo, o)
			if err != nil || got.Infeasible != nil {
				t.Fatal(got.Infeasible, err)
			}
			best, each := Sized{}, ""
			for _, l := range all {
				o := o
				if best.GPUs > 0 { // no worse than the best so far, or not sized
					o.LimitUSD = best.HourlyUSD
				}
				one, err := Size(l, traffic, slo, o)
				if err != nil && !errors.Is(err, ErrDearer) {
					t.Fatal(err)
				}
				if err == nil && one.Infeasible == nil && (best.GPUs == 0 || one.GPUs < best.GPUs) {
					best = one
				}
				each += fmt.Sprintf(" %d: %d", l.Pools[0].Engine.Limits.MaxNumBatchedTokens, one.GPUs)
			}
			t.Logf("searched %d GPUs at chunk %d; of all %d:%s", got.GPUs, got.Layout.Chunk, best.GPUs, each)
			if most := best.GPUs + best.Layout.Pools[0].GPUs; got.GPUs > most {
				t.Errorf("%d GPUs at chunk %d: want at most %d, one engine above the best of all chunks", got.GPUs, got.Layout.Chunk, most)
			}
		})
	}
}

func TestSearchedChunkTakesFarFewerEnginesThanTheDefault(t *testing.T) {
	all := chunked(t, mixes[0])
	traffic, err := mixes[0].workload().PeakTraffic()
	if err != nil {
		t.Fatal(err)
	}
	slo := mixes[0].slo()
	slo.StallP99 = slo.ITL
	own, err := Size(all[0], traffic, slo, SizeOptions{Seed: 1, Rough: true})
	if err != nil {
		t.Fatal(err)
	}
	got, err := all.Size(traffic, slo, SizeOptions{Seed: 1, Rough: true})
	if err != nil {
		t.Fatal(err)
	}
	if got.Layout.Chunk == 0 || 2*got.GPUs > own.GPUs {
		t.Errorf("%d GPUs at chunk %d, %d by default: want another chunk and half as many", got.GPUs, got.Layout.Chunk, own.GPUs)
	}
	if again := all[got.Variation.At]; again.Chunk != got.Layout.Chunk {
		t.Errorf("place %d has chunk %d, the plan %d", got.Variation.At, again.Chunk, got.Layout.Chunk)
	}
}

func TestDefaultChunkWinsATie(t *testing.T) {
	s := scene{"llama-3.1-8b", "h100-sxm", 1, 0, 0.5, 256, 256, 64, 64, 1000 * ms, 100 * ms, 0} // one engine at any chunk
	traffic, err := s.workload().PeakTraffic()
	if err != nil {
		t.Fatal(err)
	}
	got, err := chunked(t, s).Size(traffic, s.slo(), SizeOptions{Seed: 1, Rough: true, Requests: leastRequests})
	if err != nil || got.GPUs != 1 || got.Layout.Chunk != 0 {
		t.Errorf("%d GPUs at chunk %d, %v: want 1 at the default", got.GPUs, got.Layout.Chunk, err)
	}
}

func TestSearchedChunkSaysWhyNoneHolds(t *testing.T) {
	s := mixes[0]
	s.itl = time.Millisecond // below a step with one sequence
	traffic, err := s.workload().PeakTraffic()
	if err != nil {
		t.Fatal(err)
	}
	all := chunked(t, s)
	got, err := all.Size(traffic, s.slo(), SizeOptions{Seed: 1, Rough: true, Requests: leastRequests})
	if err != nil || got.Infeasible == nil || got.Layout.Chunk != 0 {
		t.Errorf("%+v, %v: want the default, infeasible", got, err)
	}
}

func TestHighestRate(t *testing.T) {
	for _, truth := range []float64{0, 0.01, 1, 7, 30, 99, 1000} {
		for _, least := range []float64{0, 5} {
			var tried []float64
			got, err := highest(least, 100, 0.01, func(rate float64) (bool, error) {
				tried = append(tried, rate)
				return rate <= truth, nil
			})
			want := min(truth, 100)
			switch {
			case err != nil:
				t.Error(err)
			case truth <= least || truth < 100*leastShare:
				if got != 0 {
					t.Errorf("%v above %v: got %v, want none", truth, least, got)
				}
			case got > want || got < want/1.01:
				t.Errorf("%v above %v: got %v, tried %v", truth, least, got, tried)
			}
			if len(tried) > 20 || slices.Max(tried) > 100 {
				t.Errorf("%v above %v: tried %v", truth, least, tried)
			}
		}
	}
}
