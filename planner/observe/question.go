package observe

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// partLabel tells the parts of a question apart.
const partLabel = "part"

// question is many queries in one, so that one evaluation results all of them, or
// none.
type question struct {
	window time.Duration // from scrape to scrape
	reach  time.Duration // the range of functions, which has the sample at its beginning too
	counts time.Duration // what increase() is of
	last   time.Duration // in which a series has a sample though a scrape failed
	back   time.Duration // to the beginning of what is asked for, which is before
	parts  []string
}

// questionOf asks about a window that begins and ends with a scrape; every is 0 where that is
// not known. Prometheus' ranges are open at their beginning from its version 3 on, and
// increase() is stretched to them. VictoriaMetrics' increase() is from the sample before the
// range to the last one in it (MetricsQL; 1.79.5 and 1.148.9): of whole scrape intervals,
// however the targets' scrapes fall, where the range is that long. It is a little shorter, as
// scrapes are not on time to the millisecond.
func questionOf(of window, every time.Duration, victoria bool) question {
	tolerance := every / 20
	if counts := (of.length + tolerance).Truncate(every); victoria && every > 0 && counts > 0 {
		reach := (counts - tolerance).Truncate(time.Millisecond)
		return question{window: reach, reach: reach, counts: counts, last: 2 * every}
	}
	reach := of.length + time.Millisecond
	return question{window: of.length, reach: reach, counts: reach, last: cmp.Or(2*every, reach)}
}

// results are what parts came to, by key; buckets by key and bound.
type results struct {
	values  map[string]float64
	buckets map[string]map[float64]float64
}

// ask adds a part; the expression has no label but le.
func (q *question) ask(key, expr string, args ...any) {
	q.parts = append(q.parts, fmt.Sprintf("label_replace(%s, %q, %q, \"\", \"\")", fmt.Sprintf(expr, args...), partLabel, key))
}

// over adds a function of the window, all series together.
func (q *question) over(key, aggregate, function, selector string) {
	q.ask(key, "%s", over(aggregate, function, selector, q.reach))
}

// String is the question in PromQL.
func (q *question) String() string { return strings.Join(q.parts, "\nor ") }

// answer asks at an instant.
func (q *question) answer(ctx context.Context, s *Server, at time.Time) (results, error) {
	a := results{values: map[string]float64{}, buckets: map[string]map[float64]float64{}}
	if len(q.parts) == 0 {
		return a, nil
	}
	vector, err := ask[model.Vector](ctx, s, q.String(), at)
	for _, sample := range vector {
		key := string(sample.Metric[partLabel])
		le, bucket := sample.Metric[model.BucketLabel]
		if !bucket {
			a.values[key] = float64(sample.Value)
			continue
		}
		bound, err := strconv.ParseFloat(string(le), 64)
		if err != nil {
			bound = math.NaN()
		}
		if a.buckets[key] == nil {
			a.buckets[key] = map[float64]float64{}
		}
		a.buckets[key][bound] += float64(sample.Value) // "1" and "1.0" are one bound
	}
	return a, err
}
