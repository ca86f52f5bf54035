package observe

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/prometheus/common/model"
)

// Range is a time to look at, in windows that follow each other.
type Range struct {
	From, To time.Time
	Window   time.Duration // whole milliseconds
}

// mostWindows bounds a range: a month in windows of ten seconds.
const mostWindows = 300_000

// Windows are how many there are; what is left of the range after them is not
// looked at.
func (r Range) Windows() int { return int(r.To.Sub(r.From) / max(1, r.Window)) }

// Window is what one window of a range saw.
type Window struct {
	End time.Time
	// Requests that were counted in it, by all series together; NaN is a gap: no
	// series had two samples in it, or what it had was no number.
	Requests float64
	// Series with a sample in it, and the samples of the one that had most.
	Series, Samples int
}

// Gap reports whether nothing is known of the window.
func (w Window) Gap() bool { return math.IsNaN(w.Requests) }

// windows counts requests in every window of a range.
func (h History) windows(ctx context.Context, r Range) ([]Window, error) {
	all := make([]Window, r.Windows())
	for i := range all {
		all[i] = Window{End: r.From.Add(time.Duration(i+1) * r.Window), Requests: missing()}
	}
	selector := h.labels.selector(h.Names.requests())
	fill := func(query string, set func(*Window, float64)) error {
		return h.along(ctx, query, r, func(i int, v float64) { set(&all[i], v) })
	}
	if err := fill(over("sum", "increase", selector, r.Window), func(w *Window, v float64) {
		if v >= 0 && !math.IsInf(v, 0) { // NaN is not
			w.Requests = v
		}
	}); err != nil {
		return nil, err
	}
	if err := fill(over("max", "count_over_time", selector, r.Window), func(w *Window, v float64) { w.Samples = int(v) }); err != nil {
		return nil, err
	}
	if err := h.grow(ctx, all, r); err != nil {
		return nil, err
	}
	return all, fill(over("count", "count_over_time", selector, r.Window), func(w *Window, v float64) { w.Series = int(v) })
}

// grow adds what is held and not counted yet: by how much it grew in a window at whose ends
// it is known, of as many series. More than came may leave.
func (h History) grow(ctx context.Context, all []Window, r Range) error {
	before := r
	before.From = r.From.Add(-r.Window)
	for _, name := range slices.Concat(h.Names.held()...) {
		of := map[string][]float64{}
		for _, aggregate := range []string{"sum", "count"} {
			at := slices.Repeat([]float64{missing()}, len(all)+1)
			if err := h.along(ctx, over(aggregate, "last_over_time", h.Names.whole(h.labels).selector(name), r.Window), before, func(i int, v float64) { at[i] = v }); err != nil {
				return err
			}
			of[aggregate] = at
		}
		for i := range all {
			if held, series := of["sum"], of["count"]; series[i] == series[i+1] { // NaN is not
				all[i].Requests += held[i+1] - held[i]
			}
		}
	}
	for i := range all {
		all[i].Requests = max(0, all[i].Requests)
	}
	return nil
}

// along gives the values of a query that has one series, by window.
func (h History) along(ctx context.Context, query string, r Range, give func(i int, v float64)) error {
	return h.each(ctx, query, r, func(i int, _ model.Metric, v float64) { give(i, v) })
}

// each gives all values of a query, by window and series.
func (h History) each(ctx context.Context, query string, r Range, give func(i int, m model.Metric, v float64)) error {
	n := r.Windows()
	if n == 0 {
		return nil
	}
	m, err := h.server.along(ctx, query, r.From.Add(r.Window), r.From.Add(time.Duration(n)*r.Window), r.Window)
	if err != nil {
		return err
	}
	for _, series := range m {
		for _, v := range series.Values {
			// Prometheus counts time in milliseconds.
			i := int(math.Round(float64(v.Timestamp.Time().Sub(r.From))/float64(r.Window))) - 1
			if i >= 0 && i < n {
				give(i, series.Metric, float64(v.Value))
			}
		}
	}
	return nil
}

// enough samples in a window tell how often there is one to an eighth.
const enough = 8

// scrapes is how often the requests are scraped: the time over the samples of the
// series that has most. A window that begins before the series do, or ends after
// them, makes it longer, so that short windows are looked at too, as far as they
// have enough samples. 0 where there is no sample in the range.
func (h History) scrapes(ctx context.Context, r Range) (time.Duration, error) {
	whole := r.To.Sub(r.From).Truncate(time.Millisecond)
	least, most := time.Duration(0), 0.0
	for _, window := range []time.Duration{whole, max(10*time.Minute, 10*r.Window), 10 * r.Window, r.Window} {
		look := Range{From: r.From, To: r.To, Window: min(window, whole)}
		samples := 0.0
		query := over("max", "count_over_time", h.labels.selector(h.Names.requests()), look.Window)
		if err := h.along(ctx, query, look, func(_ int, v float64) { samples = max(samples, v) }); err != nil {
			return 0, err
		}
		if every := time.Duration(float64(look.Window) / samples); samples >= enough && every < least || samples > most && most < enough {
			least, most = every, samples
		}
	}
	return least, nil
}
