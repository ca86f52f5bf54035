package observe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// maxExposition bounds the bytes of one answer: vLLM's own is about 100 kB.
const maxExposition = 8 << 20

// errJSON is an answer in JSON, as trtllm-serve gives at /metrics: a list of what its steps
// did, which is empty where there were none.
var errJSON = errors.New("it answers JSON, not Prometheus' text format")

var errLongExposition = fmt.Errorf("an answer of more than %d MiB", maxExposition>>20)

// exposition is what a process says at /metrics: series by name and labels, with
// Prometheus' names for the parts of a histogram.
type exposition []sample

type sample struct {
	labels model.Metric // the name among them, as __name__
	value  float64
	bound  float64 // of a bucket
}

// scrapeOnce asks a URL once.
func scrapeOnce(ctx context.Context, client *http.Client, at string) (exposition, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, cause(err)
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4, */*;q=0.1")
	resp, err := client.Do(req)
	if err != nil {
		return nil, cause(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", resp.Status)
	}
	text, err := io.ReadAll(&bounded{resp.Body, maxExposition})
	switch {
	case errors.Is(err, errTooLong):
		return nil, errLongExposition
	case err != nil:
		return nil, fmt.Errorf("its answer broke off: %w", err)
	}
	if json.Valid(text) {
		return nil, errJSON
	}
	return parse(text)
}

// other is where trtllm-serve has Prometheus' text, with return_perf_metrics, if what is asked
// answers JSON.
func other(metrics string) string {
	u, err := url.Parse(metrics)
	if err != nil {
		return metrics
	}
	u.Path = strings.TrimSuffix(u.Path, "/metrics") + "/prometheus/metrics"
	return u.String()
}

// parse reads Prometheus' text format.
func parse(text []byte) (exposition, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	// The parser wants the last line ended, which not every engine does.
	families, err := parser.TextToMetricFamilies(io.MultiReader(bytes.NewReader(text), strings.NewReader("\n")))
	if err != nil {
		return nil, fmt.Errorf("not Prometheus' text format: %w", err)
	}
	var out exposition
	for _, name := range slices.Sorted(maps.Keys(families)) {
		for _, m := range families[name].GetMetric() {
			out = out.metric(name, m)
		}
	}
	return out, nil
}

// metric adds the series of one.
func (e exposition) metric(name string, m *dto.Metric) exposition {
	of := func(suffix string) model.Metric {
		l := make(model.Metric, len(m.GetLabel())+1)
		for _, pair := range m.GetLabel() {
			l[model.LabelName(pair.GetName())] = model.LabelValue(pair.GetValue())
		}
		l[model.MetricNameLabel] = model.LabelValue(name + suffix)
		return l
	}
	switch {
	case m.Gauge != nil:
		return append(e, sample{labels: of(""), value: m.GetGauge().GetValue()})
	case m.Counter != nil:
		return append(e, sample{labels: of(""), value: m.GetCounter().GetValue()})
	case m.Untyped != nil:
		return append(e, sample{labels: of(""), value: m.GetUntyped().GetValue()})
	case m.Histogram == nil:
		return e
	}
	h := m.GetHistogram()
	e = append(e, sample{labels: of("_count"), value: float64(h.GetSampleCount())}, sample{labels: of("_sum"), value: h.GetSampleSum()})
	bucket, infinite := of("_bucket"), false
	for _, b := range h.GetBucket() {
		infinite = infinite || math.IsInf(b.GetUpperBound(), 1)
		e = append(e, sample{labels: bucket, value: float64(b.GetCumulativeCount()), bound: b.GetUpperBound()})
	}
	if !infinite && len(h.GetBucket()) > 0 {
		e = append(e, sample{labels: bucket, value: float64(h.GetSampleCount()), bound: math.Inf(1)})
	}
	return e
}

// series are the labels alone.
func (e exposition) series() series {
	out := make(series, len(e))
	for i, s := range e {
		out[i] = s.labels
	}
	return out
}
