package observe

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
)

// half is an interval in the middle of what the fakes have.
const half, thirty = hour / 2, 30 * time.Second

func vllmSeries(f *fake, name string, value func(time.Duration) float64, labels ...string) {
	f.add(name, scrape, hour, value, append([]string{"model_name", "m", "instance", "a"}, labels...)...)
}

func constant(v float64) func(time.Duration) float64 { return func(time.Duration) float64 { return v } }

// until is a value, and another from an instant on.
func until(at time.Duration, before, after func(time.Duration) float64) func(time.Duration) float64 {
	return func(now time.Duration) float64 {
		if now < at {
			return before(now)
		}
		return after(now)
	}
}

// A server that does not answer is an error, and nothing of it is a 0 that would
// scale a busy fleet down (dynamo#14765).
func TestDynamo14765(t *testing.T) {
	down := httptest.NewServer(http.NotFoundHandler())
	down.Close()
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	t.Cleanup(slow.Close)
	for name, url := range map[string]string{
		"down": down.URL, "slow": slow.URL, "400": answers(t, 400, "no"), "500": answers(t, 500, "no"), "503": answers(t, 503, ""),
		"empty": answers(t, 200, ""), "truncated": answers(t, 200, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__na`),
		"no series": answers(t, 200, `{"status":"success","data":{"resultType":"vector","result":[]}}`),
		"a scalar":  answers(t, 200, `{"status":"success","data":{"resultType":"scalar","result":[1,"0"]}}`),
	} {
		l, err := NewLive(dial(t, Options{URL: url, Timeout: 200 * time.Millisecond}), LiveOptions{Presets: Presets("auto")})
		if err != nil {
			t.Fatal(err)
		}
		o, err := l.Observe(t.Context(), begin, begin.Add(thirty))
		if err == nil || o.Arrivals.Known || o.Running.Known || o.TTFT.Mean.Known || o.Pools != nil {
			t.Errorf("%s: observation %+v, error %v", name, o, err)
		}
		if name == "no series" && !errors.As(err, new(*NotFoundError)) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// No traffic is known to be none, and there is no latency of it, no NaN
// (dynamo#3131).
func TestDynamo3131(t *testing.T) {
	f := &fake{t: t}
	f.engine("m", "a", hour, 0, 0)
	o := observed(t, live(t, f, LiveOptions{}), half, thirty)
	known(t, "arrivals", o.Arrivals, 0, 0)
	known(t, "finished", o.Finished, 0, 0)
	for what, seen := range map[string]bool{
		"ISL": o.ISL.Mean.Known, "OSL": o.OSL.Mean.Known, "TTFT": o.TTFT.Mean.Known || o.TTFT.P99.Known, "ITL": o.ITL.Mean.Known,
	} {
		if seen {
			t.Errorf("%s of no requests: %+v", what, o)
		}
	}
}

// Engines that are full end no more than they can, however many come: what waits
// meanwhile came too (dynamo#8861).
func TestDynamo8861(t *testing.T) {
	f := &fake{t: t}
	vllmSeries(f, "vllm:request_success_total", rising(2))
	vllmSeries(f, "vllm:num_requests_running", constant(8))
	vllmSeries(f, "vllm:num_requests_waiting", rising(3)) // 5 a second come
	o := observed(t, live(t, f, LiveOptions{}), half, thirty)
	known(t, "finished", o.Finished, 60, 1e-6)
	known(t, "arrivals", o.Arrivals, 150, 1e-6)
	p, _ := o.Pool(engine.RoleAggregated)
	known(t, "queue that grows", planner.Known(p.QueueEnd.Value-p.QueueOpen.Value), 90, 1e-6)
}

// Engines without a worker's id, or with an empty one, are counted all the same
// (dynamo#12591).
func TestDynamo12591(t *testing.T) {
	f := &fake{t: t}
	for i, id := range []string{"", "a"} {
		l := []string{"model_name", "m", "worker_id", id, "pod", fmt.Sprint(i)}
		f.add("vllm:request_success_total", scrape, hour, rising(1), l...)
		f.add("vllm:num_requests_running", scrape, hour, constant(3), l...)
		f.add("vllm:num_requests_waiting", scrape, hour, constant(0), l...)
	}
	o := observed(t, live(t, f, LiveOptions{}), half, thirty)
	known(t, "arrivals", o.Arrivals, 60, 1e-6)
	known(t, "running", o.Running, 6, 0)
}

// Samples that are too old say nothing, least of all that all is quiet
// (llm-d#385).
func TestLLMD385(t *testing.T) {
	f := &fake{t: t}
	f.engine("m", "a", half-2*time.Minute, 1, 100)
	o := observed(t, live(t, f, LiveOptions{}), half, 3*time.Minute)
	p, _ := o.Pool(engine.RoleAggregated)
	if o.Arrivals.Known || o.Running.Known || o.TTFT.Mean.Known || p.KVUsage.Known || p.Queue.Known || !problem(o, "arrivals: the newest sample is 2m0s old (limit 1m30s)") {
		t.Errorf("observation %+v", o)
	}
	o = observed(t, live(t, f, LiveOptions{MaxAge: 3 * time.Minute}), half, 3*time.Minute)
	if !o.Arrivals.Known || o.Arrivals.Age != 2*time.Minute || o.ISL.P50.Age != 2*time.Minute {
		t.Errorf("arrivals %+v, ISL %+v", o.Arrivals, o.ISL)
	}
}

// What waited at an engine that is gone waits no more (llm-d#769).
func TestLLMD769(t *testing.T) {
	f := &fake{t: t}
	f.engine("m", "a", hour, 1, 100)
	from := len(f.series)
	f.engine("m", "b", half-15*time.Second, 1, 100)
	f.add("vllm:num_requests_waiting", scrape, half-15*time.Second, constant(50), "model_name", "m", "instance", "c")
	f.add("up", scrape, half-15*time.Second, constant(1), "instance", "b")
	for i := range f.series[from:] {
		f.series[from+i].stale = true
	}
	f.add("up", scrape, hour, constant(1), "instance", "a")
	o := observed(t, live(t, f, LiveOptions{}), half, thirty)
	known(t, "waiting", o.Waiting, 0, 0)
	known(t, "running", o.Running, 3, 0)
	if !problem(o, "1 series of requests disappeared within the interval") {
		t.Errorf("problems %q", o.Problems)
	}
}

// What is no number, or no two of them, is missing, with the reason.
func TestWhatIsNoNumberIsMissing(t *testing.T) {
	for name, c := range map[string]struct {
		value func(time.Duration) float64
		want  string
	}{
		"NaN":      {constant(math.NaN()), "finished requests: the metrics give NaN"},
		"infinite": {until(half-10*time.Second, constant(1), constant(math.Inf(1))), "running requests: the metrics give +Inf"},
	} {
		f := &fake{t: t}
		vllmSeries(f, "vllm:request_success_total", c.value)
		vllmSeries(f, "vllm:num_requests_running", c.value)
		vllmSeries(f, "vllm:num_requests_waiting", c.value)
		vllmSeries(f, "vllm:kv_cache_usage_perc", c.value)
		o := observed(t, live(t, f, LiveOptions{}), half, thirty)
		p, _ := o.Pool(engine.RoleAggregated)
		if o.Arrivals.Known || o.Finished.Known || o.Running.Known || p.KVUsage.Known || p.KVMost.Known || p.Queue.Known || !problem(o, c.want) {
			t.Errorf("%s: %+v", name, o)
		}
	}
	f := &fake{t: t}
	f.engine("m", "a", hour, 1, 100)
	o := observed(t, live(t, f, LiveOptions{}), half, 4*time.Second) // one scrape in it, or none
	known(t, "arrivals of an interval of one scrape", o.Arrivals, 4, 1.1)
	if !problem(o, "scraped too rarely for 4s: figures are of the 16s before") {
		t.Errorf("an interval of one scrape: %+v", o)
	}
}

// Counters that begin anew, and series that come, within the interval.
func TestLiveRestarts(t *testing.T) {
	f := &fake{t: t}
	at := half - 15*time.Second
	vllmSeries(f, "vllm:request_success_total", until(at, rising(2), func(now time.Duration) float64 { return 4 * (now - at).Seconds() }))
	vllmSeries(f, "vllm:num_requests_running", constant(0))
	vllmSeries(f, "vllm:num_requests_waiting", constant(0))
	o := observed(t, live(t, f, LiveOptions{}), half, thirty)
	known(t, "finished", o.Finished, (2*5+4*15)*30./25, 1e-6) // of 25 s: what came in the scrape before is lost
	from := len(f.series)
	f.add("vllm:num_requests_running", scrape, hour, constant(1), "model_name", "m", "instance", "new")
	s := &f.series[from]
	for s.at[0] < half-12*time.Second {
		s.at, s.values = s.at[1:], s.values[1:]
	}
	o = observed(t, live(t, f, LiveOptions{}), half, thirty)
	known(t, "running", o.Running, 1, 0)
	if !problem(o, "1 series of requests appeared within the interval") || problem(o, "disappeared") {
		t.Errorf("problems %q", o.Problems)
	}
}

// Two models in two namespaces, by their exact names.
func TestLiveTakesOneModel(t *testing.T) {
	f := &fake{t: t}
	for i, c := range [][2]string{{"m", "prod"}, {"m", "prod-2"}, {"m2", "prod"}, {"m2", "prod-2"}} {
		l := []string{"model_name", c[0], "namespace", c[1]}
		f.add("vllm:request_success_total", scrape, hour, rising(float64(1+i)), l...)
		f.add("vllm:num_requests_running", scrape, hour, constant(float64(1+i)), l...)
		f.add("vllm:num_requests_waiting", scrape, hour, constant(0), l...)
	}
	o := observed(t, live(t, f, LiveOptions{Model: "m2", Namespace: "prod"}), half, thirty)
	known(t, "arrivals", o.Arrivals, 90, 1e-6)
	known(t, "running", o.Running, 3, 0)
	o = observed(t, live(t, f, LiveOptions{Model: "m"}), half, thirty)
	known(t, "arrivals of both namespaces", o.Arrivals, 90, 1e-6)
	if !problem(o, `requests of 2 namespaces are added up: ["prod" "prod-2"]`) {
		t.Errorf("problems %q", o.Problems)
	}
	for _, c := range []struct {
		o    LiveOptions
		want string
	}{
		{LiveOptions{Model: "M"}, `models there: "m", "m2"`}, {LiveOptions{Model: "m", Namespace: "pro"}, "no series"}, {LiveOptions{}, "requests of 2 models"},
	} {
		if _, err := live(t, f, c.o).Observe(t.Context(), begin.Add(half-thirty), begin.Add(half)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %q", c.o, err, c.want)
		}
	}
}

// A histogram without its sum has no mean, and not one of 0: with outputs of no tokens
// decode would need no engine.
func TestAMissingSumIsNoMeanOfZero(t *testing.T) {
	f := &fake{t: t}
	f.engine("m", "a", hour, 1, 600)
	f.series = slices.DeleteFunc(f.series, func(s fakeSeries) bool { return strings.HasSuffix(s.labels["__name__"], "_sum") })
	o := observed(t, live(t, f, LiveOptions{}), half, thirty)
	if o.ISL.Mean.Known || o.OSL.Mean.Known || o.TTFT.Mean.Known || o.ITL.Mean.Known || !problem(o, "mean of OSL: no samples of vllm:request_generation_tokens_sum") {
		t.Errorf("ISL %+v, OSL %+v, TTFT %+v, ITL %+v: %q", o.ISL, o.OSL, o.TTFT, o.ITL, o.Problems)
	}
	known(t, "p50 of ISL", o.ISL.P50.Figure, 500, 1e-6)
}

// What waits where a scrape failed at the interval's beginning was there before.
func TestAFailedScrapeBringsNoRequests(t *testing.T) {
	f := &fake{t: t}
	for _, name := range []string{"a", "b"} {
		f.engine("m", name, hour, 2, 600)
	}
	first := int((half-thirty)/scrape) + 1 // in the interval
	for i, s := range f.series {
		if s.labels["__name__"] == "vllm:num_requests_waiting" {
			for k := range s.values {
				s.values[k] = 300
			}
		}
		if s.labels["instance"] == "b" {
			s.marks = []time.Duration{s.at[first]}
			s.at, s.values = slices.Delete(s.at, first, first+1), slices.Delete(s.values, first, first+1)
			f.series[i] = s
		}
	}
	known(t, "arrivals", observed(t, live(t, f, LiveOptions{}), half, thirty).Arrivals, 120, 6)
}

// Engines whose histograms have other bounds have those in common: what one has below 2.5 s
// is none of the other's below 2 s.
func TestBoundsThatEnginesHaveInCommon(t *testing.T) {
	f := &fake{t: t}
	vllmSeries(f, "vllm:request_success_total", rising(2))
	for name, counts := range map[string]map[string]float64{
		"a": {"1": 0, "2.5": 1, "5": 1, "+Inf": 1}, "b": {"1": 0, "1.5": 0.5, "2": 1, "2.5": 1, "5": 1, "+Inf": 1},
	} {
		f.histogram("vllm:time_to_first_token_seconds", scrape, hour, counts, 1.6, "model_name", "m", "instance", name)
	}
	o := observed(t, live(t, f, LiveOptions{}), half, thirty)
	if p := o.TTFT.P99; p.Low != time.Second || p.High != 2500*time.Millisecond || p.Above(2*time.Second) {
		t.Errorf("p99 of TTFT is %v: want between 1s and 2.5s", p)
	}
	g := tally{
		{compared: true, gained: map[counterKey]float64{{"ttft.bucket", 1}: 0, {"ttft.bucket", 2.5}: 1, {"ttft.bucket", math.Inf(1)}: 1}},
		{compared: true, gained: map[counterKey]float64{{"ttft.bucket", 1}: 0, {"ttft.bucket", 2}: 1, {"ttft.bucket", 2.5}: 1, {"ttft.bucket", math.Inf(1)}: 1}},
	}.histogram("ttft")
	if want := map[float64]float64{1: 0, 2.5: 2, math.Inf(1): 2}; !maps.Equal(g.counts, want) {
		t.Errorf("buckets are %v, want %v", g.counts, want)
	}
}
