package observe

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/prometheus/common/model"

	"plimsoll/planner"
)

// part is over how long a histogram's gains are asked for at once: Prometheus
// holds all samples of it in memory, 50 million at most as it is shipped.
const part = time.Hour

// parts are the range cut for histograms.
func (t *Traffic) parts() Range {
	r := t.Range
	n := (r.To.Sub(r.From) + part - 1) / part
	r.Window = (r.To.Sub(r.From) / n).Truncate(time.Millisecond)
	return r
}

// lengths reads those of prompts and outputs.
func (h History) lengths(ctx context.Context, t *Traffic) error {
	for _, x := range []struct {
		what   string
		names  []string
		length *Lengths
	}{{"ISL", h.Names.ISL, &t.ISL}, {"OSL", h.Names.OSL, &t.OSL}} {
		*x.length = Lengths{Mean: missing()}
		got, ok, err := h.histogram(ctx, x.names, t.parts())
		switch {
		case err != nil:
			return err
		case !ok:
			t.warn("not_measured", "there is no histogram of %s with values in this range", x.what)
		default:
			*x.length = Lengths{got.Mean(), got.Quantile(0.99)}
			t.doubt(x.what, got, x.length.P99)
		}
	}
	return nil
}

// manyBent is the share of values in buckets that fall from which on it is said.
const manyBent = 0.01

// wide is how far apart the bounds of lengths may be without a word.
const wide = 1.5

// doubt says how far a percentile can be off.
func (t *Traffic) doubt(what string, h planner.Histogram, p planner.Percentile[float64]) {
	switch {
	case p.Open:
		t.warn("above_buckets", "the p99 of %s is above %.4g tokens, the histogram's highest bound, so its value is unknown", what, p.Low)
	case p.High > wide*p.Low:
		t.warn("wide_bucket", "the p99 of %s is somewhere between %.4g and %.4g tokens (the bounds of its bucket)", what, p.Low, p.High)
	}
	if h.Bent > manyBent {
		t.warn("buckets_differ", "the buckets of %s are off by %.0f %% of its values, as series with different bounds are mixed", what, 100*h.Bent)
	}
}

// histogram is what one gained in a range; false where there is none.
func (h History) histogram(ctx context.Context, names []string, r Range) (planner.Histogram, bool, error) {
	if len(names) == 0 {
		return planner.Histogram{}, false, nil
	}
	counts := map[float64]float64{}
	query := "sum by (le) (" + fmt.Sprintf("increase(%s[%s])", h.labels.selector(names[0]+"_bucket"), model.Duration(r.Window)) + ")"
	err := h.each(ctx, query, r, func(_ int, m model.Metric, v float64) {
		bound, err := strconv.ParseFloat(string(m[model.BucketLabel]), 64)
		if err != nil {
			bound = math.NaN()
		}
		counts[bound] += v // "1" and "1.0" are one bound
	})
	if err != nil {
		return planner.Histogram{}, false, err
	}
	sum, err := h.gained(ctx, names[0]+"_sum", r)
	got, ok := planner.NewHistogram(counts, sum)
	return got, ok, err
}

// gained is by how much a counter rose in a range; NaN where there is none.
func (h History) gained(ctx context.Context, name string, r Range) (float64, error) {
	sum, some := 0.0, false
	err := h.along(ctx, over("sum", "increase", h.labels.selector(name), r.Window), r, func(_ int, v float64) {
		sum, some = sum+v, true
	})
	if !some {
		return missing(), err
	}
	return sum, err
}

// means takes those of lengths from counters of tokens where there is no histogram.
func (h History) means(ctx context.Context, t *Traffic) error {
	for _, x := range []struct {
		what   string
		names  []string
		length *Lengths
	}{{"ISL", h.Names.PromptTokens, &t.ISL}, {"OSL", h.Names.OutputTokens, &t.OSL}} {
		if !math.IsNaN(x.length.Mean) || len(x.names) == 0 {
			continue
		}
		tokens, err := h.gained(ctx, x.names[0], t.parts())
		if err != nil {
			return err
		}
		requests, err := h.gained(ctx, h.Names.requests(), t.parts())
		if err != nil {
			return err
		}
		if mean := tokens / requests; mean > 0 && !math.IsInf(mean, 1) {
			x.length.Mean = mean
			t.warn("mean_of_counters", "the mean of %s includes requests cut off at the ends of the range", x.what)
		}
	}
	return nil
}
