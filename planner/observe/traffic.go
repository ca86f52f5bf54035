package observe

import (
	"context"
	"fmt"
	"slices"
	"time"

	"plimsoll/planner"
	"plimsoll/profile"
)

// Lengths are of prompts or outputs, in tokens.
type Lengths struct {
	Mean float64 // NaN = not known
	P99  planner.Percentile[float64]
}

// Traffic is what came in a range.
type Traffic struct {
	Range   Range         // whose windows may be longer than those asked for
	Scrapes time.Duration // from one sample to the next
	Windows []Window
	Gaps    int // windows of which nothing is known

	Requests float64 // in all windows but the gaps
	Rate     float64 // requests per second, the mean of all windows but the gaps
	Peak     float64 // requests per second, in the window that had most
	PeakAt   time.Time

	ISL, OSL Lengths

	Warnings []profile.Warning
}

// Check says what is wrong with r.
func (r Range) Check() error {
	switch {
	case r.Window < time.Millisecond || r.Window%time.Millisecond != 0:
		return fmt.Errorf("a window of %v: want whole milliseconds, 1ms or more", r.Window)
	case r.To.Sub(r.From) < r.Window:
		return fmt.Errorf("a range of %v in windows of %v: want one window at least", r.To.Sub(r.From), r.Window)
	case r.Windows() > mostWindows:
		return fmt.Errorf("a range of %v in windows of %v: want %d windows at most", r.To.Sub(r.From), r.Window, mostWindows)
	}
	return nil
}

// Traffic reads a range. It fails with an *Error where the server does not answer,
// and with a *NotFoundError where nothing was counted; what else is missing is NaN,
// and said in warnings.
func (h History) Traffic(ctx context.Context, r Range) (Traffic, error) {
	if err := r.Check(); err != nil {
		return Traffic{}, err
	}
	t := Traffic{Range: r, Warnings: h.Warnings}
	var err error
	if t.Scrapes, err = h.scrapes(ctx, r); err != nil {
		return t, err
	}
	if t.Scrapes == 0 {
		return t, &NotFoundError{Server: h.server.name, What: "samples of " + h.Names.requests()}
	}
	ctx = lookingBack(ctx, t.Scrapes)
	t.widen()
	if t.Range.To.Sub(t.Range.From) < t.Range.Window {
		return t, fmt.Errorf("a range of %v, scraped every %v: want one window of %v at least", r.To.Sub(r.From), t.Scrapes.Round(time.Millisecond), t.Range.Window)
	}
	if t.Windows, err = h.windows(ctx, t.Range); err != nil {
		return t, err
	}
	if err := t.count(h); err != nil {
		return t, err
	}
	if err := h.lengths(ctx, &t); err != nil {
		return t, err
	}
	if err := h.means(ctx, &t); err != nil {
		return t, err
	}
	if !h.CountsArrivals() {
		t.warn("counted_at_end", "requests are counted as they end, and the number that run or wait is unknown. If requests waited, more arrived than counted")
	}
	return t, nil
}

// fewest is the least number of scrapes in a window that says something about its
// rate: increase() takes the first of them as its beginning.
const fewest = 4

// widen makes windows that cannot be seen longer.
func (t *Traffic) widen() {
	if t.Range.Window >= 2*t.Scrapes {
		return
	}
	asked := t.Range.Window
	for t.Range.Window < fewest*t.Scrapes {
		t.Range.Window += asked
	}
	t.warn("window_unseen", "samples come every %[2]v, too rarely for peaks in windows of %[1]v. Windows of %[3]v are used; their peaks are lower", asked, t.Scrapes.Round(time.Millisecond), t.Range.Window)
}

// count sums the windows up.
func (t *Traffic) count(h History) error {
	seen := 0
	for _, w := range t.Windows {
		if w.Gap() {
			t.Gaps++
			continue
		}
		seen++
		t.Requests += w.Requests
		if rate := w.Requests / t.Range.Window.Seconds(); rate > t.Peak {
			t.Peak, t.PeakAt = rate, w.End
		}
	}
	if seen == 0 {
		return &Error{Server: h.server.name, Asked: h.Names.requests(), Err: fmt.Errorf("no window of %v has two samples of %s that are numbers", t.Range.Window, h.Names.requests()), Hint: "look at the series in Prometheus: is it scraped, and does it say NaN?"}
	}
	if t.Requests <= 0 {
		return &Error{Server: h.server.name, Asked: h.Names.requests(), Err: fmt.Errorf("%s did not rise in this range, so no requests came", h.Names.requests()), Hint: "another range, or another model"}
	}
	t.Rate = t.Requests / (float64(seen) * t.Range.Window.Seconds())
	if t.Gaps > 0 {
		t.warn("gaps", "%[3]d of %[1]d windows of %[2]v have no usable samples. They are left out, not counted as idle", len(t.Windows), t.Range.Window, t.Gaps)
	}
	if n := t.partly(); n > 0 {
		t.warn("partly_scraped", "%d of %d windows miss more than two scrapes in a row (one every %v). Rates there are too low", n, len(t.Windows), t.Scrapes.Round(time.Millisecond))
	}
	if i := slices.IndexFunc(t.Windows, func(w Window) bool { return w.End.Equal(t.PeakAt) }); i > 0 && t.Windows[i-1].Series < t.Windows[i].Series && h.server.kind.Load() == victoria {
		t.warn("peak_after_gap", "some series have no samples in the window before the busiest one. A VictoriaMetrics before 2025 counts there what came meanwhile too: look whether so many came")
	}
	if n := dips(t.Windows); n > 0 {
		t.warn("fewer_series", "%d of %d windows have fewer series than those around them, as scrapes failed or engines were away. Their requests are not counted", n, len(t.Windows))
	}
	return nil
}

// partly counts the windows with so few samples that a gap above mostGap may be in them.
func (t *Traffic) partly() (n int) {
	least := t.Range.Window.Seconds()/t.Scrapes.Seconds() - mostGap
	for _, w := range t.Windows {
		if !w.Gap() && float64(w.Samples) < least {
			n++
		}
	}
	return n
}

// dips are the windows with fewer series than both some earlier and some later one
// had.
func dips(ws []Window) int {
	after := make([]int, len(ws)+1) // the most from here on
	for i := len(ws) - 1; i >= 0; i-- {
		after[i] = max(after[i+1], ws[i].Series)
	}
	n, before := 0, 0
	for i, w := range ws {
		before = max(before, w.Series)
		if !w.Gap() && w.Series < min(before, after[i]) {
			n++
		}
	}
	return n
}

func (t *Traffic) warn(code, format string, args ...any) {
	t.Warnings = append(t.Warnings, profile.Warnf(code, format, args...))
}
