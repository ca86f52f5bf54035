package capacity

import (
	"math"
	"strings"
	"testing"
	"time"

	"plimsoll/profile"
	"plimsoll/profile/trace"
)

func TestChecksNameFieldAndRange(t *testing.T) {
	for _, c := range []struct {
		change func(*drawn)
		want   string
	}{
		{func(d *drawn) { d.w.Rate = 0 }, "--rate is 0: want 1e-09 to 1000000"},
		{func(d *drawn) { d.w.Rate = math.NaN() }, "--rate is NaN"},
		{func(d *drawn) { d.w.Rate = math.Inf(1) }, "--rate is +Inf"},
		{func(d *drawn) { d.w.ISL = 0 }, "--isl is 0: want 1 to 16777216"},
		{func(d *drawn) { d.w.ISLP99 = 200 }, "--isl-p99 200 is below --isl 256: want at least the mean"},
		{func(d *drawn) { d.w.OSLP99 = 511 }, "--osl-p99 511 is below --osl 512"},
		{func(d *drawn) { d.w.PeakToAverage = 0.9 }, "--peak-to-average is 0.9: want 1 to 1000000"},
		{func(d *drawn) { d.w.PeakWindow = 0 }, "--peak-window is 0s: want the time over which --peak-to-average 2.5 was counted"},
		{func(d *drawn) { d.w.Pattern = "weekly" }, `pattern "weekly" is unknown: want flat, business_hours or global`},
		{func(d *drawn) { d.slo.TTFT = 0 }, "--ttft-p99 is 0s: want above 0 to 24h0m0s"},
		{func(d *drawn) { d.slo.ITL = 25 * time.Hour }, "--itl-p99 is 25h0m0s"},
		{func(d *drawn) { d.slo.E2EP99 = -1 }, "--e2e-p99 is -1ns"},
		{func(d *drawn) { d.slo.Availability = 1 }, "--availability is 1, but any number of replicas can fail: want 0 to below 1"},
		{func(d *drawn) { d.slo.Availability = 99.9 }, "--availability is 99.9: want 0 to below 1"},
		{func(d *drawn) { d.slo.Availability = math.NaN() }, "--availability is NaN"},
		{func(d *drawn) { d.t.PrefillTPS = 0 }, "prefill_tokens_s is 0: want 1"},
		{func(d *drawn) { d.t.DecodeTPS = math.Inf(1) }, "decode_tokens_s is +Inf"},
		{func(d *drawn) { d.t.TP = 0 }, "tp is 0: want 1 to 1024"},
		{func(d *drawn) { d.t.MaxBatch = 0 }, "max_batch is 0"},
		{func(d *drawn) { d.t.KVBytesPerToken = 0 }, "kv_bytes_per_token is 0"},
		{func(d *drawn) { d.t.GPUMemoryBytes = 80 }, "gpu_memory_bytes is 80"},
		{func(d *drawn) { d.t.Provenance = 5 }, "provenance is 5: want measured"},
		{func(d *drawn) { d.o.UtilizationTarget = 1.1 }, "utilization_target is 1.1: want 0.01 to 1"},
		{func(d *drawn) { d.o.USDPerGPUHour = -1 }, "cost_per_gpu_hour is -1: want 0"},
		{func(d *drawn) { d.o.Strategy = "mixed" }, `strategy is "mixed": want disaggregated, aggregated (or colocated) or auto`},
	} {
		d := drawn{chatLoad, chatbotSLO, llama(t, "70B"), as(Disaggregated)}
		c.change(&d)
		_, err := Formula(d.w, d.slo, d.t, d.o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Formula: error %v lacks %q", err, c.want)
		}
		if _, other := Minimum(d.w, d.slo, d.t, d.o); other == nil {
			t.Errorf("Minimum takes what Formula does not: %v", err)
		}
	}
}

// All that is wrong is said at once.
func TestChecksJoin(t *testing.T) {
	_, err := Formula(Workload{}, SLO{}, Throughput{}, Options{})
	for _, want := range []string{"--rate", "--isl", "--osl", "pattern", "--peak-to-average", "--ttft-p99", "--itl-p99", "prefill_tokens_s", "utilization_target", "strategy"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %s", err, want)
		}
	}
}

func TestTooManyGPUs(t *testing.T) {
	w := workload(1e6, 1e6, 1e6, 1e6, 1e6, 1)
	for _, s := range []Strategy{Disaggregated, Aggregated, Auto} {
		if _, err := Formula(w, chatbotSLO, llama(t, "405B"), as(s)); err == nil || !strings.Contains(err.Error(), "Check the units") {
			t.Errorf("%s: %v", s, err)
		}
	}
	th := llama(t, "8B")
	th.KVBytesPerToken = 1e9
	w = workload(1e6, 1e4, 1e5, 1e4, 1e5, 1)
	if _, err := Minimum(w, objective(5000, 1000, 0), th, as(Disaggregated)); err == nil || !strings.Contains(err.Error(), "Check the units") {
		t.Errorf("the KV cache: %v", err)
	}
}

func TestWorkloadDayAndWarnings(t *testing.T) {
	w := chatLoad
	w.Pattern = trace.BusinessHours
	if day := w.Day(); math.Abs(day[10]-40*2.1) > 1e-9 || math.Abs(day[0]-40*0.2) > 1e-9 {
		t.Errorf("the day is %v, want 84 at 10 h and 8 at night", day)
	}
	if ws := w.Warnings(); ws != nil {
		t.Errorf("a peak of 2.5 is above the pattern's 2.1: %v", ws)
	}
	w.PeakToAverage = 1.5
	ws := w.Warnings()
	if len(ws) != 1 || ws[0].Code != "pattern_above_peak" || !strings.Contains(ws[0].Message, "rises to 2.1 times its mean") || !strings.Contains(ws[0].Message, "140 requests/s") {
		t.Errorf("warnings %v", ws)
	}
	if p := formula(t, w, chatbotSLO, llama(t, "70B"), as(Disaggregated)); !warned(p.Warnings, "pattern_above_peak") {
		t.Errorf("the plan lost the warning: %v", p.Warnings)
	}
	w.Pattern = "weekly"
	if w.Day() != [24]float64{} {
		t.Error("an unknown pattern has a day")
	}
}

func warned(ws []profile.Warning, code string) bool {
	for _, w := range ws {
		if w.Code == code {
			return true
		}
	}
	return false
}

func TestPlanWarns(t *testing.T) {
	slo := chatbotSLO
	if p := formula(t, chatLoad, slo, llama(t, "70B"), as(Disaggregated)); warned(p.Warnings, "no_e2e") {
		t.Errorf("%v", p.Warnings)
	}
	slo.E2EP99 = time.Minute
	if p := formula(t, chatLoad, slo, llama(t, "70B"), as(Aggregated)); !warned(p.Warnings, "no_e2e") {
		t.Errorf("%v", p.Warnings)
	}
}

// 120 requests in 60 s, 30 of them in one second: 30/s, and 120 over the 59.5 s
// from the first to the last are 2.02/s.
func TestMeasured(t *testing.T) {
	var as []trace.Arrival
	for i := range 30 {
		as = append(as, trace.Arrival{At: time.Duration(i) * time.Millisecond, ISL: 100, OSL: 10})
	}
	for i := range 90 {
		as = append(as, trace.Arrival{At: time.Second + time.Duration(i)*650*time.Millisecond, ISL: 300, OSL: 50})
	}
	s, err := trace.Summarize(trace.Of(as...), time.Second, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	w, err := Measured(s, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "peak", w.Rate, 30, 1e-9)
	near(t, "average", w.AverageRate(), s.Rate, 1e-9)
	near(t, "ISL", w.ISL, 250, 1e-9)
	near(t, "p99 OSL", w.OSLP99, 50, 1e-9)
	if w.PeakWindow != time.Second || w.Pattern != trace.Flat {
		t.Errorf("%+v", w)
	}
	if w, err := Measured(s, time.Minute); err != nil || w.PeakToAverage != 1 {
		t.Errorf("in a window of the whole trace: %+v, %v", w, err)
	}
	if _, err := Measured(s, time.Hour); err == nil || !strings.Contains(err.Error(), "not summed up in windows of 1h0m0s") {
		t.Errorf("an unknown window: %v", err)
	}
	if _, err := Measured(trace.Stats{}, time.Second); err == nil {
		t.Error("an empty trace has a workload")
	}
}

func TestParseStrategy(t *testing.T) {
	for in, want := range map[string]Strategy{"colocated": Aggregated, "aggregated": Aggregated, "disaggregated": Disaggregated, "auto": Auto} {
		if got, err := parseStrategy(in); err != nil || got != want {
			t.Errorf("%s is %s, %v", in, got, err)
		}
	}
}

// The formulas need no distribution; a simulation of means and p99s does.
func TestPeakTrafficNamesALogNormalThatThereIsNot(t *testing.T) {
	w := chatbot()
	w.ISLP99 = 256 * 15
	if err := w.Check(); err != nil {
		t.Error(err)
	}
	_, err := w.PeakTraffic()
	if want := "--isl-p99: "; err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "no log-normal has both: want a p99 of 256 to 3831.93, or measure the lengths from a trace") {
		t.Errorf("got %v", err)
	}
}
