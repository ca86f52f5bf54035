package observe

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
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

// histograms reads lengths and latencies.
func (h History) histograms(ctx context.Context, t *Traffic) error {
	n := h.Names
	t.ISL, t.OSL = Lengths{missing(), unknown()}, Lengths{missing(), unknown()}
	for _, x := range []struct {
		what    string
		names   []string
		length  *Lengths
		latency *Latency
	}{
		{"ISL", n.ISL, &t.ISL, nil},
		{"OSL", n.OSL, &t.OSL, nil},
		{"TTFT", n.TTFT, nil, &t.TTFT},
		{"ITL", n.ITL, nil, &t.ITL},
		{"requests' mean ITL", n.TPOT, nil, &t.TPOT},
		{"end-to-end latency", n.E2E, nil, &t.E2E},
	} {
		mean, p99, count := missing(), unknown(), 0.0
		got, ok, err := h.histogram(ctx, x.names, t.parts())
		switch {
		case err != nil:
			return err
		case !ok && len(x.names) == 0 && (x.latency == &t.TPOT || x.latency == &t.ITL && len(n.TPOT) > 0): // it has the other one
		case !ok:
			t.warn("not_measured", "there is no histogram of %s with values in this range", x.what)
		default:
			mean, p99, count = got.Mean(), got.Quantile(0.99), got.Count
			t.doubt(x.what, got, p99, x.length != nil)
		}
		if x.length != nil {
			*x.length = Lengths{mean, p99}
		} else {
			*x.latency = Latency{count, mean, p99}
		}
	}
	return nil
}

// manyBent is the share of values in buckets that fall from which on it is said.
const manyBent = 0.01

// wide is how far apart the bounds of lengths may be without a word.
const wide = 1.5

// doubt says how far a percentile can be off; of latencies the bounds alone do.
func (t *Traffic) doubt(what string, h Histogram, p Quantile, tokens bool) {
	unit := "s"
	if tokens {
		unit = "tokens"
	}
	switch {
	case p.Unbounded():
		t.warn("above_buckets", "the p99 of %s is above %.4g %s, the histogram's highest bound: how far above is not known", what, p.Low, unit)
	case tokens && p.High > wide*p.Low:
		t.warn("wide_bucket", "the p99 of %s lies anywhere between %.4g and %.4g %s, the bounds of its bucket", what, p.Low, p.High, unit)
	}
	if h.bent > manyBent {
		t.warn("buckets_differ", "the buckets of %s do not add up, by %.0f %% of its values: series with different bounds are mixed", what, 100*h.bent)
	}
}

// histogram is what one gained in a range; false where there is none.
func (h History) histogram(ctx context.Context, names []string, r Range) (Histogram, bool, error) {
	if len(names) == 0 {
		return Histogram{}, false, nil
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
		return Histogram{}, false, err
	}
	sum, err := h.gained(ctx, names[0]+"_sum", r)
	got, ok := newHistogram(counts, sum)
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
			t.warn("mean_of_counters", "the mean of %s is tokens over requests, of those that were under way at the range's ends too", x.what)
		}
	}
	return nil
}
