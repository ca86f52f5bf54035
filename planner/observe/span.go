package observe

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// target is what Prometheus scrapes; other tells series apart that have no instance.
type target struct{ job, instance, other string }

func targetOf(m model.Metric) target {
	t := target{job: string(m[model.JobLabel]), instance: string(m[model.InstanceLabel])}
	if t.instance == "" {
		t.other = m.String()
	}
	return t
}

// counted is one series of requests in a window.
type counted struct {
	of          target
	labels      model.Metric
	first, last time.Time     // samples in the window
	every       time.Duration // the mean between them; 0 of one
	value       float64       // at first
	step        float64       // to the next sample's; 0 of one
	rate        float64       // requests/s between them; NaN of one
	reset       float64       // requests at most that a process counted in a gap in which it ended
}

// span is how far the scrapes of requests reach in a window.
type span struct {
	asked   window
	scraped window        // from the first scrape to the last; zero where there are no two
	every   time.Duration // the median between two scrapes of a series
	gap     time.Duration // the longest without a sample of any series
	samples int           // of the series that has most
	series  []counted
	// fromZero says that increase() takes a new series to begin at 0, where its first value
	// is less than ten times its next step (VictoriaMetrics; app/vmselect/promql/rollup.go).
	fromZero bool
}

// How many times the usual scrape interval may pass without a sample.
const (
	mostEnd = 1.5 // at a window's beginning or end
	mostGap = 2.5 // within it: one scrape fails, and the next comes late
)

// mostUnseen is the share of the requests that may lie outside the samples.
const mostUnseen = 0.1

// requests is the selector of what requests are read from.
func (s liveSeries) requests() string { return s.edge.labels.selector(s.edge.names.requests()) }

// spanned asks for the samples themselves: only they tell when scrapes were.
func (l *Live) spanned(ctx context.Context, found liveSeries, w window) (span, error) {
	matrix, err := ask[model.Matrix](ctx, l.server, found.requests()+"["+promDuration(w.length)+"]", w.end)
	s := span{asked: w}
	if s.series, s.every = countAll(matrix); s.every == 0 {
		return s, err
	}
	for _, series := range matrix {
		s.samples = max(s.samples, len(series.Values))
	}
	first := slices.MinFunc(s.series, func(a, b counted) int { return a.first.Compare(b.first) }).first
	s.scraped.end = slices.MaxFunc(s.series, func(a, b counted) int { return a.last.Compare(b.last) }).last
	s.scraped.length = s.scraped.end.Sub(first)
	s.gap = longestGap(matrix)
	return s, err
}

// longestGap is the longest time between two samples of whatever series.
func longestGap(matrix model.Matrix) (longest time.Duration) {
	var at []model.Time
	for _, series := range matrix {
		for _, v := range series.Values {
			at = append(at, v.Timestamp)
		}
	}
	slices.Sort(at)
	for i := 1; i < len(at); i++ {
		longest = max(longest, at[i].Sub(at[i-1]))
	}
	return longest
}

// countAll is what series counted, and the median between two samples of one; nothing
// where no series has two.
func countAll(matrix model.Matrix) (out []counted, every time.Duration) {
	var gaps []time.Duration
	for _, series := range matrix {
		for i := 1; i < len(series.Values); i++ {
			gaps = append(gaps, series.Values[i].Timestamp.Sub(series.Values[i-1].Timestamp))
		}
	}
	if len(gaps) == 0 {
		return nil, 0
	}
	slices.Sort(gaps)
	every = gaps[len(gaps)/2]
	for _, series := range matrix {
		if len(series.Values) > 0 {
			out = append(out, count(series, every))
		}
	}
	return out, every
}

// count is what a series of one sample at least counted.
func count(series *model.SampleStream, usual time.Duration) counted {
	vs := series.Values
	n := len(vs)
	c := counted{of: targetOf(series.Metric), labels: series.Metric, first: vs[0].Timestamp.Time(), last: vs[n-1].Timestamp.Time(), value: float64(vs[0].Value), rate: math.NaN()}
	if n == 1 {
		return c
	}
	c.every = c.last.Sub(c.first) / time.Duration(n-1)
	rose, lasted := 0.0, 0.0
	for i := 1; i < n; i++ {
		if v := float64(vs[i].Value - vs[i-1].Value); v >= 0 {
			rose, lasted = rose+v, lasted+vs[i].Timestamp.Sub(vs[i-1].Timestamp).Seconds()
		}
	}
	c.rate, c.step = 0, float64(vs[1].Value-vs[0].Value)
	if lasted > 0 {
		c.rate = rose / lasted
	}
	for i := 1; i < n; i++ {
		if gap := vs[i].Timestamp.Sub(vs[i-1].Timestamp); vs[i].Value < vs[i-1].Value && beyond(gap, usual) {
			c.reset += max(0, c.rate*gap.Seconds()-float64(vs[i].Value))
		}
	}
	return c
}

// beyond reports whether more than one scrape is missing in a gap.
func beyond(gap, every time.Duration) bool { return float64(gap) > mostGap*float64(every) }

// short reports whether scrapes begin or end too far from a window's end.
func short(gap, every time.Duration) bool { return float64(gap) > mostEnd*float64(every) }

// fresh counts the targets whose samples reach the last scrape.
func (s span) fresh() int {
	now := map[target]bool{}
	for _, c := range s.series {
		if !beyond(s.scraped.end.Sub(c.last), s.every) {
			now[c.of] = true
		}
	}
	return len(now)
}

// head is from the window's beginning to the first scrape.
func (s span) head() time.Duration {
	return s.scraped.start().Sub(s.asked.start())
}

// late reports whether scrapes begin too late for the window.
func (s span) late() bool { return s.scraped.length > 0 && short(s.head(), s.every) }

// unseen are requests that are not between the samples of their series.
type unseen struct {
	share float64 // of all, those of targets that were not scraped
	began []begun // those of targets that were new
}

// begun is what a target counted before its first sample, and after its last one where
// that is the first, which increase() leaves out.
type begun struct {
	labels   model.Metric
	requests float64
}

// unseen are the requests of engines and frontends that came, or are not scraped any
// more. went reports targets that no longer serve. Nothing of theirs is missing.
func (s span) unseen(known map[target]traced, went func(target) bool) (out unseen) {
	seen, lost, rates, n := 0.0, 0.0, 0.0, 0.0
	here, begin := map[target]bool{}, s.scraped.start()
	for _, c := range s.series {
		if !math.IsNaN(c.rate) {
			rates, n = rates+c.rate, n+1
			seen += c.rate * (s.scraped.length.Seconds() - outside(c.first.Sub(begin), c.every) - outside(s.scraped.end.Sub(c.last), c.every))
		}
	}
	for _, c := range s.series {
		here[c.of] = true
		rate := c.rate
		if math.IsNaN(rate) {
			rate = rates / n
		}
		// A process counts from 0: no more came before its first sample than it says. One
		// that was found late may have served for long: no more than it serves now.
		before := math.Min(rate*outside(c.first.Sub(begin), c.every), math.Max(0, c.value-rate*c.every.Seconds()/2))
		if s.fromZero && c.value < 10*(math.Abs(c.step)+1) {
			before = 0 // it is counted
		}
		after, tail := 0.0, s.scraped.end.Sub(c.last)
		if tail > 0 && !went(c.of) {
			after = rate * outside(tail, c.every)
		}
		if known[c.of].begins(c) && !short(tail, s.every) { // its next scrape is still to come
			out.began = append(out.began, begun{c.labels, before + after})
			seen += before + after
		} else {
			lost += before + after
		}
		lost += c.reset
	}
	for t, k := range known {
		if !here[t] && !went(t) {
			lost += k.rate * s.scraped.length.Seconds()
		}
	}
	if lost > 0 {
		out.share = lost / (lost + seen)
	}
	return out
}

// outside is how many seconds of a gap between a series' samples and a window's end
// increase() leaves out. It goes on to the end where that is nearer than 1.1 times the
// mean interval, else for half of one (extrapolatedRate in Prometheus'
// promql/functions.go, v3.5); of one sample it gives nothing.
func outside(gap, every time.Duration) float64 {
	if float64(gap) < 1.1*float64(every) {
		return 0
	}
	return (gap - every/2).Seconds()
}

// traced is what is remembered of a target: its rate and when its requests were last seen.
type traced struct {
	rate   float64 // requests/s
	first  time.Time
	last   time.Time
	listed bool // Prometheus still had it as a target when that was asked last
}

// begins reports whether the first sample of a target is that of a series.
func (k traced) begins(c counted) bool { return !k.first.Before(c.first) }

// traces is for how long a target is remembered whose requests are not seen any more. One
// that Prometheus still lists may serve, and is remembered as long as that.
const traces = 15 * time.Minute

// recall remembers the targets that had requests before the first look: one that is not
// scraped now may serve.
func (l *Live) recall(ctx context.Context, found liveSeries, end time.Time) error {
	matrix, err := ask[model.Matrix](ctx, l.server, found.requests()+"["+promDuration(traces)+"]", end)
	if err != nil {
		return err
	}
	l.known = map[target]traced{}
	series, _ := countAll(matrix)
	l.trace(series)
	return nil
}

// trace remembers targets, each with the rate of all its series. One with too few samples
// for a rate has that which it had, or the others'.
func (l *Live) trace(series []counted) {
	now := map[target]traced{}
	for _, c := range series {
		k, ok := now[c.of]
		if !ok {
			k = traced{rate: math.NaN(), first: c.first}
			if was, known := l.known[c.of]; known {
				k.first = was.first
			}
		}
		if !math.IsNaN(c.rate) {
			if math.IsNaN(k.rate) {
				k.rate = 0
			}
			k.rate += c.rate
		}
		if c.first.Before(k.first) {
			k.first = c.first
		}
		if c.last.After(k.last) {
			k.last = c.last
		}
		now[c.of] = k
	}
	var usual mean
	for _, k := range now {
		if !math.IsNaN(k.rate) {
			usual.add(k.rate)
		}
	}
	for t, k := range now {
		if was, known := l.known[t]; math.IsNaN(k.rate) && known {
			k.rate = was.rate
		} else if math.IsNaN(k.rate) {
			k.rate = usual.value()
		}
		l.known[t] = k
	}
}

// forget drops the targets whose time is over.
func (l *Live) forget(s span) {
	maps.DeleteFunc(l.known, func(_ target, k traced) bool { return !k.listed && s.asked.end.Sub(k.last) > traces })
}

// lost are the requests that a span does not show. Where all engines that exist are
// seen, nothing else serves. Otherwise only a target that Prometheus no longer lists does
// not serve.
func (l *Live) lost(ctx context.Context, found liveSeries, s span, all bool) (lost unseen, of string, err error) {
	if s.scraped.length <= 0 {
		return unseen{}, "", nil
	}
	if now := found.requests(); now != l.of {
		l.of, l.known = now, nil // other series, of other targets
	}
	if l.known == nil {
		if err := l.recall(ctx, found, s.asked.end); err != nil {
			return unseen{}, "", err
		}
	}
	l.forget(s)
	l.trace(s.series)
	if all {
		maps.DeleteFunc(l.known, func(_ target, k traced) bool { return !s.has(k) })
		return s.unseen(l.known, func(target) bool { return true }), "", nil
	}
	nobody := func(target) bool { return false }
	if lost = s.unseen(l.known, nobody); lost.share <= mostUnseen/2 {
		return lost, "", nil
	}
	gone, err := l.gone(ctx, found, s)
	l.forget(s)
	maps.DeleteFunc(l.known, func(t target, k traced) bool { return gone[t] && !s.has(k) })
	return s.unseen(l.known, func(t target) bool { return gone[t] }), l.busiest(s), err
}

// has reports whether a target that is remembered has samples in the span.
func (s span) has(k traced) bool { return !k.last.Before(s.scraped.start()) }

// busiest names the target that had most requests of those that a span does not have.
func (l *Live) busiest(s span) string {
	lost := l.away(s)
	if len(lost) == 0 {
		return ""
	}
	t := slices.MaxFunc(lost, func(a, b target) int { return cmp.Compare(l.known[a].rate, l.known[b].rate) })
	return fmt.Sprintf(", such as the target job=%q, instance=%q", t.job, t.instance)
}

// away are the known targets that a span does not have.
func (l *Live) away(s span) []target {
	return slices.SortedFunc(func(yield func(target) bool) {
		for t, k := range l.known {
			if t.instance != "" && !s.has(k) && !yield(t) {
				return
			}
		}
	}, func(a, b target) int { return cmp.Or(cmp.Compare(a.job, b.job), cmp.Compare(a.instance, b.instance)) })
}

// gone are targets that Prometheus had and does not have any more: up says so.
func (l *Live) gone(ctx context.Context, found liveSeries, s span) (map[target]bool, error) {
	back := promDuration(traces)
	lately := fmt.Sprintf("last_over_time(%s[%s])", found.requests(), back)
	away, query := l.away(s), ""
	instances := make([]string, len(away))
	for i, t := range away {
		instances[i] = regexp.QuoteMeta(t.instance)
	}
	for _, part := range []struct{ key, expr string }{
		{"had", "last_over_time(up[" + back + "]) and on (job, instance) " + lately},
		{"has", "up and on (job, instance) " + lately},
		{"listed", "up{instance=~" + strconv.Quote(strings.Join(instances, "|")) + "}"}, // their requests may be older
	} {
		query = strings.TrimPrefix(fmt.Sprintf("%s\nor label_replace(%s, %q, %q, \"\", \"\")", query, part.expr, partLabel, part.key), "\nor ")
	}
	vector, err := ask[model.Vector](ctx, l.server, query, s.asked.end)
	if err != nil {
		return nil, err
	}
	had, has := map[target]bool{}, map[target]bool{}
	for _, t := range away {
		k := l.known[t]
		k.listed = false
		l.known[t] = k
	}
	for _, sample := range vector {
		t := target{job: string(sample.Metric[model.JobLabel]), instance: string(sample.Metric[model.InstanceLabel])}
		switch sample.Metric[partLabel] {
		case "had":
			had[t] = true
		case "has":
			has[t] = true
		case "listed":
			if k, ok := l.known[t]; ok {
				k.listed = true
				l.known[t] = k
			}
		}
	}
	maps.DeleteFunc(had, func(t target, _ bool) bool { return has[t] })
	return had, nil
}
