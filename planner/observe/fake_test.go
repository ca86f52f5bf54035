package observe

import (
	"encoding/json"
	"fmt"
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
}

// fake speaks as much of Prometheus' HTTP API and of PromQL as this package uses,
// over series that a test made. Its increase() is exact where Prometheus'
// extrapolates: what it misses between samples is no error of ours. The
// integration suite asks a real server.
type fake struct {
	t      testing.TB
	series []fakeSeries
	asked  []string // every query
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

var query = regexp.MustCompile(`^(sum|max|count|sum by \(le\)) ?\((increase|count_over_time|max_over_time)\((\{.*\})\[(\w+)\]\)\)$`)

// ServeHTTP implements http.Handler.
func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		f.t.Error(err)
	}
	if label, ok := strings.CutPrefix(r.URL.Path, "/api/v1/label/"); ok {
		f.answer(w, f.labelValues(strings.TrimSuffix(label, "/values"), r.Form.Get("match[]")))
		return
	}
	f.asked = append(f.asked, r.Form.Get("query"))
	m := query.FindStringSubmatch(r.Form.Get("query"))
	if m == nil {
		f.t.Errorf("not understood: %s", r.Form.Get("query"))
		return
	}
	window, err := model.ParseDuration(m[4])
	if err != nil {
		f.t.Error(err)
	}
	var chosen []fakeSeries
	for _, s := range f.series {
		if matches(f.t, s.labels, m[3]) {
			chosen = append(chosen, s)
		}
	}
	if r.URL.Path == "/api/v1/query" {
		result := []map[string]any{}
		for labels, v := range eval(chosen, m, time.Duration(window), f.instant(r, "time")) {
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
	for at := start; at <= end; at += time.Duration(step * 1e9) {
		for labels, v := range eval(chosen, m, time.Duration(window), at) {
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

// eval is an aggregate at an instant, by the labels of the result, as [time, value].
func eval(chosen []fakeSeries, m []string, window, at time.Duration) map[string][]any {
	groups := map[string][]float64{}
	for _, s := range chosen {
		v, ok := s.over(m[2], at-window, at)
		if !ok {
			continue
		}
		by := "{}"
		if m[1] == "sum by (le)" {
			by = fmt.Sprintf(`{"le":%q}`, s.labels["le"])
		}
		groups[by] = append(groups[by], v)
	}
	out := map[string][]any{}
	for by, vs := range groups {
		v := 0.0
		for _, x := range vs {
			switch m[1] {
			case "max":
				v = max(v, x)
			case "count":
				v++
			default:
				v += x
			}
		}
		out[by] = []any{float64(begin.Unix()) + at.Seconds(), strconv.FormatFloat(v, 'g', -1, 64)}
	}
	return out
}

// over is a function of the samples in (from, to].
func (s fakeSeries) over(function string, from, to time.Duration) (float64, bool) {
	n, before, gained, most := 0, math.NaN(), 0.0, math.Inf(-1)
	first, _ := slices.BinarySearch(s.at, from)
	for i := max(0, first-1); i < len(s.at) && s.at[i] <= to; i++ {
		at, v := s.at[i], s.values[i]
		if at > from {
			n++
			most = max(most, v)
			switch {
			case math.IsNaN(before): // the first sample says where it begins
				gained += 0 * v
			case v < before: // it began again at 0
				gained += v
			default:
				gained += v - before
			}
		}
		if at <= from || !math.IsNaN(v) {
			before = v
		}
		if math.IsNaN(v) && at > from {
			gained = math.NaN()
		}
	}
	switch function {
	case "count_over_time":
		return float64(n), n > 0
	case "max_over_time":
		return most, n > 0
	}
	return gained, n >= 2
}

var matcher = regexp.MustCompile(`^,?(\w+)(=~|=)`)

// matches reads a selector with Go's own reader of quoted strings.
func matches(t testing.TB, labels map[string]string, selector string) bool {
	rest := strings.TrimSuffix(strings.TrimPrefix(selector, "{"), "}")
	all := true
	for rest != "" {
		m := matcher.FindStringSubmatch(rest)
		if m == nil {
			t.Errorf("no matcher: %s", rest)
			return false
		}
		quoted, err := strconv.QuotedPrefix(rest[len(m[0]):])
		if err != nil {
			t.Errorf("%v: %s", err, rest)
			return false
		}
		value, err := strconv.Unquote(quoted)
		if err != nil {
			t.Error(err)
		}
		if m[2] == "=" {
			all = all && labels[m[1]] == value
		} else {
			all = all && regexp.MustCompile("^(?:"+value+")$").MatchString(labels[m[1]])
		}
		rest = rest[len(m[0])+len(quoted):]
	}
	return all
}

func (f *fake) labelValues(label, match string) []string {
	out := []string{}
	for _, s := range f.series {
		if v, ok := s.labels[label]; ok && matches(f.t, s.labels, match) {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
