package forecast

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"
)

// column is one of testdata's series, with NaN for gaps.
func column(t testing.TB, file, name string) []float64 {
	t.Helper()
	rows, err := csv.NewReader(bytes.NewReader(testdata(t, file))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var values []float64
	for i, cell := range rows[0] {
		if cell != name {
			continue
		}
		for _, r := range rows[1:] {
			v, err := strconv.ParseFloat(r[i], 64)
			if err != nil {
				v = math.NaN()
			}
			values = append(values, v)
		}
	}
	return values
}

// traces are the series of testdata that have lengths or rates.
var traces = []struct {
	file, name string
	interval   time.Duration
}{
	{"m-mid.csv", "rate_rps", 10 * time.Minute},
	{"m-mid.csv", "isl", 10 * time.Minute},
	{"m-mid.csv", "osl", 10 * time.Minute},
	{"mm-image.csv", "rate_rps", 10 * time.Minute},
	{"mm-image.csv", "osl", 10 * time.Minute},
	{"azure-conv.csv", "rate_rps", 30 * time.Second},
	{"azure-conv.csv", "isl", 30 * time.Second},
	{"azure-conv.csv", "osl", 30 * time.Second},
}

// score is of the forecasts one step ahead: their absolute errors by the values
// (WAPE). The first five values, and gaps, do not count.
func score(t testing.TB, o Options, values []float64) (wape float64) {
	t.Helper()
	p := of(t, o)
	var errs, sum float64
	for i, y := range values {
		if i > 5 && !math.IsNaN(y) {
			errs += math.Abs(p.Forecast(1) - y)
			sum += y
		}
		p.Observe(y)
	}
	return errs / sum
}

// BenchmarkTraces scores every predictor on every series; the metric is WAPE in
// percent.
func BenchmarkTraces(b *testing.B) {
	for _, c := range traces {
		values := column(b, c.file, c.name)
		for _, k := range Kinds() {
			for _, log1p := range []bool{false, true} {
				if log1p && k == Constant {
					continue
				}
				o := DefaultOptions(k)
				o.Log1p, o.Interval = log1p, c.interval
				b.Run(fmt.Sprintf("%s/%s/%s/log1p=%v", c.file, c.name, k, log1p), func(b *testing.B) {
					for b.Loop() {
						b.ReportMetric(100*score(b, o, values), "WAPE-%")
					}
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}

// BenchmarkStep is an interval of a series with a full window: observe and
// forecast, with all the fitting that goes with it.
func BenchmarkStep(b *testing.B) {
	values := column(b, "m-mid.csv", "rate_rps")
	for _, k := range Kinds() {
		b.Run(string(k), func(b *testing.B) {
			b.ReportAllocs()
			p := of(b, DefaultOptions(k), values[:50]...)
			i := 50
			for b.Loop() {
				p.Observe(values[i%len(values)])
				p.Forecast(1)
				i++
			}
		})
	}
}

// BenchmarkSelect is the dearest step of ARIMA: an order is selected.
func BenchmarkSelect(b *testing.B) {
	all := column(b, "m-mid.csv", "rate_rps")
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		var a arima
		at := i * 7 % (len(all) - 50)
		selected(a.enter(all[at : at+50]))
		i++
	}
}
