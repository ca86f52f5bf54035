package fleet

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"plimsoll/engine/enginetest"

	"pgregory.net/rapid"
)

// compareSketch holds a sketch against the exact list of its values.
func compareSketch(s *Sketch, values []int64) error {
	if s.Count() != int64(len(values)) {
		return fmt.Errorf("%d values, want %d", s.Count(), len(values))
	}
	if len(values) == 0 {
		return nil
	}
	v := slices.Sorted(slices.Values(values))
	sum := 0.0
	for _, x := range v {
		sum += float64(x)
	}
	if err := near("mean", s.Mean(), sum/float64(len(v)), 1e-12); err != nil {
		return err
	}
	if s.Min() != v[0] || s.Max() != v[len(v)-1] {
		return fmt.Errorf("from %d to %d, want %d to %d", s.Min(), s.Max(), v[0], v[len(v)-1])
	}
	for _, q := range []float64{0, 0.01, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999, 1} {
		want := v[max(int(math.Ceil(q*float64(len(v))))-1, 0)]
		if got := s.Quantile(q); math.Abs(float64(got-want)) > SketchError*float64(want) {
			return fmt.Errorf("quantile %v is %d, want %d", q, got, want)
		}
	}
	return nil
}

func TestSketchAgainstSorting(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	draws := map[string]func() int64{
		"uniform":     func() int64 { return rng.Int64N(1e6) },
		"exponential": func() int64 { return int64(rng.ExpFloat64() * 1e10) },
		"lognormal":   func() int64 { return int64(math.Exp(20 + 3*rng.NormFloat64())) },
		"all of 63 bits": func() int64 {
			return rng.Int64() >> rng.IntN(63)
		},
		"constant": func() int64 { return 6_999_999_999 },
	}
	for name, draw := range draws {
		for _, n := range []int{1, 2, 10, 1000, 20_000} {
			var s Sketch
			values := make([]int64, n)
			for i := range values {
				values[i] = draw()
				s.Add(values[i], 1)
			}
			if err := compareSketch(&s, values); err != nil {
				t.Errorf("%s, %d values: %v", name, n, err)
			}
		}
	}
}

// Buckets follow each other without a gap, and hold what bucketOf says.
func TestBucketsTile(t *testing.T) {
	next := int64(0)
	for b := range 7296 {
		low, high := bounds(b)
		if low != next || bucketOf(low) != b || bucketOf(high) != b {
			t.Fatalf("bucket %d is %d to %d; %d and %d are in %d and %d; want it to begin at %d", b, low, high, low, high, bucketOf(low), bucketOf(high), next)
		}
		if half := float64(high-low) / 2; half > SketchError*float64(low) && b > 255 {
			t.Fatalf("bucket %d is %d to %d: too wide", b, low, high)
		}
		next = high + 1
	}
	if next != math.MinInt64 { // one beyond the greatest integer
		t.Fatalf("the last bucket ends at %d", next-1)
	}
}

func TestAddRunIsManyAdds(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		var run, one Sketch
		for range rapid.IntRange(1, 4).Draw(t, "runs") {
			n := rapid.Int64Range(0, 400).Draw(t, "n")
			growth := rapid.Int64Range(-1000, 1000).Draw(t, "growth") << rapid.IntRange(0, 20).Draw(t, "scale")
			first := rapid.Int64Range(0, 1<<40).Draw(t, "first")
			if growth < 0 {
				first -= growth * n
			}
			weight := rapid.Int64Range(0, 50).Draw(t, "weight")
			run.AddRun(first, growth, n, weight)
			for i := range n {
				one.Add(first+growth*i, weight)
			}
		}
		if !reflect.DeepEqual(run, one) {
			t.Fatalf("AddRun gives %d values from %d to %d of sum %v, Add %d from %d to %d of sum %v",
				run.count, run.min, run.max, run.sum, one.count, one.min, one.max, one.sum)
		}
	})
}

func TestMergeIsExact(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		var parts [3]Sketch
		var all Sketch
		for i := range parts {
			for _, v := range rapid.SliceOf(rapid.Int64Range(0, 1<<50)).Draw(t, "values") {
				parts[i].Add(v, 1+v%3)
				all.Add(v, 1+v%3)
			}
		}
		left := parts[0].Clone()
		left.Merge(parts[1])
		left.Merge(parts[2])
		tail := parts[1].Clone()
		tail.Merge(parts[2])
		right := parts[0].Clone()
		right.Merge(tail)
		if !reflect.DeepEqual(left, right) || !reflect.DeepEqual(left, all) {
			t.Fatal("(a+b)+c, a+(b+c) and all at once differ")
		}
		since := all.Since(parts[0])
		if since.count != tail.count || since.sum != tail.sum || float64(since.max-tail.max) > 2*SketchError*float64(tail.max) {
			t.Fatalf("a+b+c since a has %d values of sum %v up to %d, want %d of sum %v up to %d",
				since.count, since.sum, since.max, tail.count, tail.sum, tail.max)
		}
		for i, n := range tail.buckets {
			if since.buckets[i] != n {
				t.Fatalf("bucket %d since a is %d, want %d", i, since.buckets[i], n)
			}
		}
	})
}

func BenchmarkSketchAdd(b *testing.B) {
	b.ReportAllocs()
	var s Sketch
	s.Add(1<<45, 1)
	for i := range b.N {
		s.Add(int64(i)<<20&(1<<44-1), 1)
	}
}

// A run of 50 decode steps that grow from 7 ms by half a microsecond each.
func BenchmarkSketchAddRun(b *testing.B) {
	b.ReportAllocs()
	var s Sketch
	for range b.N {
		s.AddRun(7e9, 5e5, 50, 10)
	}
}
