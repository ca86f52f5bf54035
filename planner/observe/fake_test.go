package observe

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
)

// begin is when the fake's series begin.
var begin = time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a constant

// fakeSeries has a value at some instants, counted from begin.
type fakeSeries struct {
	labels map[string]string
	at     []time.Duration
	values []float64
	stale  bool            // its target ended after the last sample
	marks  []time.Duration // staleness markers: scrapes that failed
}

// fake speaks as much of Prometheus' HTTP API and of PromQL as this package uses,
// over series that a test made. Its increase() extrapolates as Prometheus' does.
// The integration suite asks a real server.
type fake struct {
	t      testing.TB
	series []fakeSeries
	asked  []string // every query
	// lookback is how old a sample may be that an instant is said to have; 0: 5 min.
	lookback time.Duration
	victoria bool // it is a VictoriaMetrics
}

// over is a function of a series' samples in (from, to], as the server has it.
func (f *fake) over(s fakeSeries, function string, from, to time.Duration) (float64, bool) {
	first, end := s.between(from, to)
	if !f.victoria || function != "increase" || first == end {
		return s.over(function, from, to)
	}
	before := 0.0 // of a new series
	if first > 0 && from-s.at[first-1] < cmp.Or(f.lookback, 5*time.Minute) {
		before = s.values[first-1]
	} else if step := s.values[min(first+1, end-1)] - s.values[first]; math.Abs(s.values[first]) >= 10*(math.Abs(step)+1) {
		before = s.values[first]
	}
	return s.values[end-1] - before, true
}

func (f *fake) buildinfo() map[string]string {
	if f.victoria {
		return map[string]string{"version": "2.24.0"}
	}
	return map[string]string{"version": "3.5.0", "revision": "8be3a9560fbdd18a94dedec4b747c35178177202", "goVersion": "go1.24.5"}
}

func (f *fake) serve() *Server {
	f.t.Helper()
	s := httptest.NewServer(f)
	f.t.Cleanup(s.Close)
	return dial(f.t, Options{URL: s.URL})
}

func dial(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := Dial(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// add makes a series with a sample every so often; labels as name, value, ….
func (f *fake) add(name string, every, until time.Duration, value func(at time.Duration) float64, labels ...string) {
	s := fakeSeries{labels: map[string]string{"__name__": name}}
	for i := 0; i < len(labels); i += 2 {
		s.labels[labels[i]] = labels[i+1]
	}
	for at := time.Duration(0); at <= until; at += every {
		s.at, s.values = append(s.at, at), append(s.values, value(at))
	}
	f.series = append(f.series, s)
}

// histogram adds the series of one, whose buckets all rise at their own rates.
func (f *fake) histogram(name string, every, until time.Duration, perSecond map[string]float64, sumPerSecond float64, labels ...string) {
	for le, rate := range perSecond {
		f.add(name+"_bucket", every, until, rising(rate), append(slices.Clone(labels), "le", le)...)
	}
	f.add(name+"_count", every, until, rising(perSecond["+Inf"]), labels...)
	f.add(name+"_sum", every, until, rising(sumPerSecond), labels...)
}

func rising(perSecond float64) func(time.Duration) float64 {
	return func(at time.Duration) float64 { return perSecond * at.Seconds() }
}

// One part of a question, as this package writes them; the names of what a part is
// about are groups.
var (
	ofWindow = regexp.MustCompile(`^(sum|max|count|avg) ?\((increase|count_over_time|max_over_time|sum_over_time|avg_over_time|last_over_time)\((\{.*?\})\[(\w+)\]\)(?: (and|unless) (\{.*?\})(?: offset (\w+))?)?\)$`)
	byLabels = regexp.MustCompile(`^(sum|count) by \(([\w, ]+)\) \((increase|last_over_time)\((\{.*\})\[(\w+)\]\)\)$`)
	lastAt   = regexp.MustCompile(`^sum\(last_over_time\((\{.*\})\[(\w+)\] offset (\w+)\)\)$`)
	atOne    = regexp.MustCompile(`^(sum|count)\((\{.*\})(?: offset (\w+))?\)$`)
	ofEach   = regexp.MustCompile(`^count\(count by \(job, instance\) \((?:avg_over_time\((\{.*?\})\[(\w+)\]\) and )?(\{.*\})\)\)$`)
	samples  = regexp.MustCompile(`^(\{.*\})\[(\w+)\]$`)
	targets  = regexp.MustCompile(`^(last_over_time\(up\[\w+\]\)|up) and on \(job, instance\) last_over_time\((\{.*\})\[(\w+)\]\)$`)
	listed   = regexp.MustCompile(`^up(\{.*\})$`)
	newest   = regexp.MustCompile(`^max\(timestamp\((\{.*\})\)\)$`)
	partOf   = regexp.MustCompile(`^label_replace\((.*), "part", "([^"]*)", "", ""\)$`)
)

// ServeHTTP implements http.Handler.
func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		f.t.Error(err)
	}
	if label, ok := strings.CutPrefix(r.URL.Path, "/api/v1/label/"); ok {
		f.answer(w, f.labelValues(strings.TrimSuffix(label, "/values"), r.Form.Get("match[]")))
		return
	}
	if r.URL.Path == "/api/v1/status/buildinfo" {
		f.answer(w, f.buildinfo())
		return
	}
	if r.Form.Get("query") == "vector(1)" { // is it there?
		f.answer(w, map[string]any{"resultType": "vector", "result": []any{}})
		return
	}
	f.asked = append(f.asked, r.Form.Get("query"))
	if f.victoria {
		defer func(was time.Duration) { f.lookback = was }(f.lookback)
		f.lookback = f.duration(r.Form.Get("max_lookback"))
		if r.URL.Path == "/api/v1/query" && r.Form.Get("nocache") == "" {
			at := f.instant(r, "time")
			r.Form.Set("time", strconv.FormatFloat(float64(begin.Unix())+(at-30*time.Second).Seconds(), 'f', 3, 64))
		}
	}
	if r.URL.Path == "/api/v1/query" {
		result := []map[string]any{}
		if m := samples.FindStringSubmatch(r.Form.Get("query")); m != nil {
			at := f.instant(r, "time")
			f.each(m[1], func(s fakeSeries) {
				if points := s.points(at-f.duration(m[2]), at); len(points) > 0 {
					result = append(result, map[string]any{"metric": s.labels, "values": points})
				}
			})
			f.answer(w, map[string]any{"resultType": "matrix", "result": result})
			return
		}
		for labels, v := range f.eval(r.Form.Get("query"), f.instant(r, "time")) {
			result = append(result, map[string]any{"metric": json.RawMessage(labels), "value": v})
		}
		f.answer(w, map[string]any{"resultType": "vector", "result": result})
		return
	}
	start, end := f.instant(r, "start"), f.instant(r, "end")
	step, err := strconv.ParseFloat(r.Form.Get("step"), 64)
	if err != nil {
		f.t.Error(err)
	}
	if (end-start).Seconds()/step+1 > 11_000 {
		http.Error(w, `{"status":"error","errorType":"bad_data","error":"exceeded maximum resolution of 11,000 points per timeseries"}`, http.StatusBadRequest)
		return
	}
	points := map[string][]any{}
	if d := r.Form.Get("lookback_delta"); d != "" {
		defer func(was time.Duration) { f.lookback = was }(f.lookback)
		f.lookback, err = time.ParseDuration(d)
		if err != nil {
			f.t.Error(err)
		}
	}
	for at := start; at <= end; at += time.Duration(step * 1e9) {
		for labels, v := range f.eval(r.Form.Get("query"), at) {
			points[labels] = append(points[labels], v)
		}
	}
	result := []map[string]any{}
	for labels, ps := range points {
		result = append(result, map[string]any{"metric": json.RawMessage(labels), "values": ps})
	}
	f.answer(w, map[string]any{"resultType": "matrix", "result": result})
}

func (f *fake) instant(r *http.Request, field string) time.Duration {
	s, err := strconv.ParseFloat(r.Form.Get(field), 64)
	if err != nil {
		f.t.Error(err)
	}
	return time.Duration(math.Round((s-float64(begin.Unix()))*1e3)) * time.Millisecond
}

func (f *fake) answer(w http.ResponseWriter, data any) {
	if err := json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": data}); err != nil {
		f.t.Error(err)
	}
}

// eval is a query at an instant, by the labels of the result, as [time, value].
func (f *fake) eval(query string, at time.Duration) map[string][]any {
	out := map[string][]any{}
	for _, q := range strings.Split(query, "\nor ") {
		extra := map[string]string{}
		if m := partOf.FindStringSubmatch(q); m != nil {
			q, extra["part"] = m[1], m[2]
		}
		for labels, v := range f.expression(q, at) {
			named := map[string]string{}
			if err := json.Unmarshal([]byte(labels), &named); err != nil {
				f.t.Error(err)
			}
			maps.Copy(named, extra)
			out[encode(named)] = []any{float64(begin.Unix()) + at.Seconds(), strconv.FormatFloat(v, 'g', -1, 64)}
		}
	}
	return out
}

func encode(labels map[string]string) string {
	b, _ := json.Marshal(labels) // maps in the order of their keys
	return string(b)
}

// expression is one part, by labels.
func (f *fake) expression(q string, at time.Duration) map[string]float64 {
	groups := map[string][]float64{}
	aggregate := "sum"
	if m := ofWindow.FindStringSubmatch(q); m != nil {
		aggregate = m[1]
		f.each(m[3], func(s fakeSeries) {
			_, _, there := f.last(s, at-f.duration(m[7])) // the other selector's are the same series
			if v, ok := f.over(s, m[2], at-f.duration(m[4]), at); ok && (m[5] == "" || there == (m[5] == "and")) {
				groups["{}"] = append(groups["{}"], v)
			}
		})
	} else if m := byLabels.FindStringSubmatch(q); m != nil {
		aggregate = m[1]
		f.each(m[4], func(s fakeSeries) {
			if v, ok := f.over(s, m[3], at-f.duration(m[5]), at); ok {
				by := map[string]string{}
				for _, name := range strings.Split(m[2], ", ") {
					if s.labels[name] != "" {
						by[name] = s.labels[name]
					}
				}
				groups[encode(by)] = append(groups[encode(by)], v)
			}
		})
	} else if m := lastAt.FindStringSubmatch(q); m != nil {
		f.each(m[1], func(s fakeSeries) {
			if v, ok := s.over("last_over_time", at-f.duration(m[3])-f.duration(m[2]), at-f.duration(m[3])); ok {
				groups["{}"] = append(groups["{}"], v)
			}
		})
	} else if m := atOne.FindStringSubmatch(q); m != nil {
		aggregate = m[1]
		f.each(m[2], func(s fakeSeries) {
			if _, v, ok := f.last(s, at-f.duration(m[3])); ok {
				groups["{}"] = append(groups["{}"], v)
			}
		})
	} else if m := ofEach.FindStringSubmatch(q); m != nil {
		each := map[[2]string]bool{}
		f.each(m[3], func(s fakeSeries) {
			_, sampled := s.over("count_over_time", at-f.duration(m[2]), at)
			if _, _, ok := f.last(s, at); ok && (m[1] == "" || sampled) {
				each[[2]string{s.labels["job"], s.labels["instance"]}] = true
			}
		})
		if len(each) > 0 {
			groups["{}"] = []float64{float64(len(each))}
		}
	} else if m := targets.FindStringSubmatch(q); m != nil {
		of := func(s fakeSeries) [2]string { return [2]string{s.labels["job"], s.labels["instance"]} }
		wanted := map[[2]string]bool{}
		f.each(m[2], func(s fakeSeries) {
			if _, ok := s.over("last_over_time", at-f.duration(m[3]), at); ok {
				wanted[of(s)] = true
			}
		})
		f.each(`{__name__="up"}`, func(s fakeSeries) {
			_, v, ok := f.last(s, at)
			if m[1] != "up" {
				v, ok = s.over("last_over_time", at-f.duration(m[3]), at)
			}
			if ok && wanted[of(s)] {
				groups[encode(map[string]string{"job": of(s)[0], "instance": of(s)[1]})] = []float64{v}
			}
		})
	} else if m := listed.FindStringSubmatch(q); m != nil {
		f.each(m[1], func(s fakeSeries) {
			if _, v, ok := f.last(s, at); ok && s.labels["__name__"] == "up" {
				groups[encode(s.labels)] = []float64{v}
			}
		})
	} else if m := newest.FindStringSubmatch(q); m != nil {
		aggregate = "max"
		f.each(m[1], func(s fakeSeries) {
			if when, _, ok := f.last(s, at); ok {
				groups["{}"] = append(groups["{}"], float64(begin.Unix())+when.Seconds())
			}
		})
	} else {
		f.t.Errorf("not understood: %s", q)
	}
	out := map[string]float64{}
	for by, vs := range groups {
		out[by] = aggregated(aggregate, vs)
	}
	return out
}

func aggregated(how string, vs []float64) float64 {
	v := 0.0
	for _, x := range vs {
		switch how {
		case "max":
			v = max(v, x)
		case "count":
			v++
		case "avg":
			v += x / float64(len(vs))
		default:
			v += x
		}
	}
	return v
}

func (f *fake) each(selector string, do func(fakeSeries)) {
	wanted := matching(f.t, selector)
	for _, s := range f.series {
		if wanted(s.labels) {
			do(s)
		}
	}
}

func (f *fake) duration(s string) time.Duration {
	if s == "" {
		return 0
	}
	d, err := model.ParseDuration(s)
	if err != nil {
		f.t.Error(err)
	}
	return time.Duration(d)
}

// last is the sample that there is at an instant; a target that
// ended, or a scrape that failed, leaves none.
func (f *fake) last(s fakeSeries, at time.Duration) (when time.Duration, v float64, ok bool) {
	i, found := slices.BinarySearch(s.at, at)
	if !found {
		i--
	}
	if i < 0 || at-s.at[i] > cmp.Or(f.lookback, 5*time.Minute) || s.stale && i == len(s.at)-1 && at > s.at[i] {
		return 0, 0, false
	}
	if k, _ := slices.BinarySearch(s.marks, s.at[i]); k < len(s.marks) && s.marks[k] <= at {
		return 0, 0, false
	}
	return s.at[i], s.values[i], true
}

// between are the indices of the samples in (from, to].
func (s fakeSeries) between(from, to time.Duration) (first, end int) {
	first, _ = slices.BinarySearch(s.at, from+1)
	end, _ = slices.BinarySearch(s.at, to+1)
	return first, end
}

// points are the samples in (from, to], as [time, value].
func (s fakeSeries) points(from, to time.Duration) []any {
	var out []any
	for i, end := s.between(from, to); i < end; i++ {
		out = append(out, []any{float64(begin.Unix()) + s.at[i].Seconds(), strconv.FormatFloat(s.values[i], 'g', -1, 64)})
	}
	return out
}

// over is a function of the samples in (from, to].
func (s fakeSeries) over(function string, from, to time.Duration) (float64, bool) {
	first, end := s.between(from, to)
	n := end - first
	if n <= 0 {
		return 0, false
	}
	values := s.values[first:end]
	sum, most := 0.0, math.Inf(-1)
	for _, v := range values {
		sum, most = sum+v, max(most, v)
	}
	switch function {
	case "count_over_time":
		return float64(n), true
	case "max_over_time":
		return most, true
	case "sum_over_time":
		return sum, true
	case "avg_over_time":
		return sum / float64(n), true
	case "last_over_time":
		return values[n-1], true
	}
	if n < 2 {
		return 0, false
	}
	return increase(s.at[first:end], values, from, to), true
}

// increase is extrapolatedRate of Prometheus' promql/functions.go, v3.5, for a counter.
func increase(at []time.Duration, values []float64, from, to time.Duration) float64 {
	n := len(at)
	rose := values[n-1] - values[0]
	for i := 1; i < n; i++ {
		if values[i] < values[i-1] {
			rose += values[i-1]
		}
	}
	sampled := (at[n-1] - at[0]).Seconds()
	average := sampled / float64(n-1)
	toStart, toEnd := (at[0] - from).Seconds(), (to - at[n-1]).Seconds()
	if toStart >= 1.1*average {
		toStart = average / 2
	}
	if rose > 0 && values[0] >= 0 {
		toStart = min(toStart, sampled*values[0]/rose) // no counter was below 0
	}
	if toEnd >= 1.1*average {
		toEnd = average / 2
	}
	return rose * (sampled + toStart + toEnd) / sampled
}

func (f *fake) labelValues(label, match string) []string {
	out := []string{}
	f.each(match, func(s fakeSeries) {
		if v, ok := s.labels[label]; ok {
			out = append(out, v)
		}
	})
	slices.Sort(out)
	return slices.Compact(out)
}
