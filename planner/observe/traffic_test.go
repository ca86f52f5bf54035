package observe

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/profile"
)

const (
	scrape = 5 * time.Second
	hour   = time.Hour
)

// engine adds an engine's series as vLLM has them: requests per second, of
// prompts of so many tokens.
func (f *fake) engine(model, name string, until time.Duration, rate, isl float64) {
	l := []string{"model_name", model, "instance", name}
	f.add("vllm:request_success_total", scrape, until, rising(rate), l...)
	f.add("vllm:num_requests_running", scrape, until, func(time.Duration) float64 { return 3 }, l...)
	f.add("vllm:num_requests_waiting", scrape, until, func(time.Duration) float64 { return 0 }, l...)
	f.add("vllm:gpu_cache_usage_perc", scrape, until, func(time.Duration) float64 { return 0.5 }, l...)
	f.histogram("vllm:request_prompt_tokens", scrape, until, map[string]float64{"500": rate / 2, "1000": rate, "+Inf": rate}, rate*isl, l...)
	f.histogram("vllm:request_generation_tokens", scrape, until, map[string]float64{"50": rate, "+Inf": rate}, rate*40, l...)
	f.histogram("vllm:time_to_first_token_seconds", scrape, until, map[string]float64{"0.1": rate * 0.98, "+Inf": rate}, rate*0.05, l...)
	f.histogram("vllm:time_per_output_token_seconds", scrape, until, map[string]float64{"0.01": 0, "0.025": rate * 39, "+Inf": rate * 39}, rate*39*0.02, l...)
}

// counted is the series by which an engine's requests are counted.
func (f *fake) counted() *fakeSeries {
	i := slices.IndexFunc(f.series, func(s fakeSeries) bool { return s.labels["__name__"] == vLLM().FirstTokens[0] })
	return &f.series[i]
}

func wanted(model string) Wanted {
	return Wanted{Presets: Presets("auto"), Model: model, From: begin, To: begin.Add(hour)}
}

func minutes() Range { return Range{From: begin, To: begin.Add(hour), Window: time.Minute} }

func look(t *testing.T, f *fake) Traffic {
	t.Helper()
	src, err := f.serve().Find(t.Context(), wanted("m"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := src.Traffic(t.Context(), minutes())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if !(math.Abs(got-want) <= within) {
		t.Errorf("%s is %v, want %v ± %v", what, got, want, within)
	}
}

func codes(ws []profile.Warning) []string {
	var out []string
	for _, w := range ws {
		out = append(out, w.Code)
	}
	return out
}

// Two engines, of which one has nine times the requests and prompts a tenth as
// long: means are of requests. A mean over series would be 550.
func TestTrafficIsOfAllRequests(t *testing.T) {
	f := &fake{t: t}
	f.engine("m", "a", hour, 9, 100)
	f.engine("m", "b", hour, 1, 1000)
	f.engine("other", "c", hour, 50, 7)
	got := look(t, f)
	// Every first window lacks the first scrape interval.
	near(t, "rate", got.Rate, 10, 0.02)
	near(t, "peak", got.Peak, 10, 1e-9)
	near(t, "requests", got.Requests, 36000, 60)
	near(t, "mean ISL", got.ISL.Mean, 190, 1e-9)
	near(t, "p99 ISL", got.ISL.P99.Value, 990, 1e-6)
	if got.ISL.P99.Low != 500 || got.ISL.P99.High != 1000 {
		t.Errorf("p99 of ISL %+v: want it between 500 and 1000", got.ISL.P99)
	}
	near(t, "mean OSL", got.OSL.Mean, 40, 1e-9)
	if got.Scrapes.Round(100*time.Millisecond) != scrape || got.Gaps != 0 {
		t.Errorf("a sample every %v, %d gaps", got.Scrapes, got.Gaps)
	}
	if want := []string{"wide_bucket", "wide_bucket"}; !slices.Equal(codes(got.Warnings), want) {
		t.Errorf("warnings %v, want %v", codes(got.Warnings), want)
	}
}

func TestLengthsAboveTheBuckets(t *testing.T) {
	f := &fake{t: t}
	f.add("vllm:request_success_total", scrape, hour, rising(2), "model_name", "m")
	f.histogram("vllm:request_prompt_tokens", scrape, hour, map[string]float64{"100": 1.9, "+Inf": 2}, 200, "model_name", "m")
	got := look(t, f)
	if p := got.ISL.P99; !p.Open || p.Value != 100 || !slices.Contains(codes(got.Warnings), "above_buckets") {
		t.Errorf("p99 of ISL %+v, warnings %v: want it above 100 tokens", p, codes(got.Warnings))
	}
}

func TestCounterResetIsNoLoss(t *testing.T) {
	f := &fake{t: t}
	f.add("vllm:request_success_total", scrape, hour, func(at time.Duration) float64 {
		return 4 * (at % (25 * time.Minute)).Seconds() // begins again twice
	}, "model_name", "m")
	got := look(t, f)
	near(t, "requests", got.Requests, 4*3600, 60) // 20 for each beginning
	near(t, "peak", got.Peak, 4, 1e-9)
}

// A window without samples is left out of the mean, and not taken as idle.
func TestGapIsNotZero(t *testing.T) {
	for name, outage := range map[string]func(*fakeSeries){
		"samples": func(s *fakeSeries) {
			from, _ := slices.BinarySearch(s.at, 20*time.Minute)
			to, _ := slices.BinarySearch(s.at, 30*time.Minute)
			s.at, s.values = slices.Delete(s.at, from, to), slices.Delete(s.values, from, to)
		},
		"numbers": func(s *fakeSeries) {
			for i, at := range s.at {
				if at >= 20*time.Minute && at < 30*time.Minute {
					s.values[i] = math.NaN()
				}
			}
		},
		"finite numbers": func(s *fakeSeries) {
			for i, at := range s.at {
				if at >= 20*time.Minute && at < 30*time.Minute {
					s.values[i] = math.Inf(1)
				}
			}
		},
	} {
		f := &fake{t: t}
		f.engine("m", "a", hour, 2, 100)
		outage(f.counted())
		got := look(t, f)
		near(t, "rate without "+name, got.Rate, 2, 0.05)
		if got.Gaps < 9 || got.Gaps > 11 || !slices.Contains(codes(got.Warnings), "gaps") {
			t.Errorf("without %s: %d gaps, warnings %v", name, got.Gaps, codes(got.Warnings))
		}
	}
}

func TestOneEngineAwayIsSaid(t *testing.T) {
	f := &fake{t: t}
	f.engine("m", "a", hour, 2, 100)
	f.engine("m", "b", hour, 2, 100)
	for i := range f.series {
		if s := &f.series[i]; s.labels["instance"] == "b" {
			s.at, s.values = slices.Delete(s.at, 240, 480), slices.Delete(s.values, 240, 480) // minutes 20 to 40
		}
	}
	if got := look(t, f); !slices.Contains(codes(got.Warnings), "fewer_series") {
		t.Errorf("warnings %v lack fewer_series", codes(got.Warnings))
	}
}

// Windows that scrapes cover in part are not gaps, and not whole either.
func TestPartlyScrapedWindowsAreSaid(t *testing.T) {
	for _, away := range []time.Duration{0, 30 * time.Second} {
		f := &fake{t: t}
		f.engine("m", "a", hour, 2, 100)
		s := f.counted()
		s.at, s.values = slices.Delete(s.at, 245, 245+int(away/scrape)), slices.Delete(s.values, 245, 245+int(away/scrape))
		if said := slices.Contains(codes(look(t, f).Warnings), "partly_scraped"); said != (away > 0) {
			t.Errorf("without scrapes for %v it is said: %v", away, said)
		}
	}
}

func TestWindowsShorterThanScrapesAreSaid(t *testing.T) {
	f := &fake{t: t}
	f.engine("m", "a", hour, 2, 100)
	src, err := f.serve().Find(t.Context(), wanted("m"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := src.Traffic(t.Context(), Range{From: begin, To: begin.Add(hour), Window: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if got.Range.Window < 4*scrape-time.Second || !slices.Contains(codes(got.Warnings), "window_unseen") {
		t.Errorf("windows of %v, warnings %v", got.Range.Window, codes(got.Warnings))
	}
	near(t, "peak", got.Peak, 2, 1e-9)
}

// Engines that came late do not make samples look rarer than they are.
func TestScrapesOfLateEngines(t *testing.T) {
	f := &fake{t: t}
	f.add("vllm:request_success_total", time.Second, 80*time.Second, rising(5), "model_name", "m")
	s := &f.series[0]
	s.at, s.values = s.at[40:], s.values[40:]
	w := wanted("m")
	w.To = begin.Add(80 * time.Second)
	src, err := f.serve().Find(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	got, err := src.Traffic(t.Context(), Range{From: begin, To: w.To, Window: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if got.Scrapes != time.Second || got.Gaps != 4 {
		t.Errorf("a sample every %v, %d gaps: want 1s and the first 4", got.Scrapes, got.Gaps)
	}
	near(t, "rate", got.Rate, 5, 0.2)
}

// A range query has 11,000 points at most: the fake refuses more, as Prometheus does.
func TestLongRangesAreAskedInPieces(t *testing.T) {
	f := &fake{t: t}
	const day = 24 * hour
	f.add("vllm:request_success_total", time.Second, day, func(at time.Duration) float64 {
		return 2*at.Seconds() + max(0, min(hour, at-10*hour)).Seconds() // the eleventh hour has 3
	}, "model_name", "m")
	w := wanted("m")
	w.To = begin.Add(day)
	src, err := f.serve().Find(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	windows, err := src.windows(t.Context(), Range{From: begin, To: begin.Add(day), Window: 4 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if len(windows) != 21_600 {
		t.Fatalf("%d windows, want 21600", len(windows))
	}
	for i, w := range windows[1:] {
		if want := map[bool]float64{true: 12, false: 8}[i+1 >= 9000 && i+1 < 9900]; w.Requests != want {
			t.Fatalf("window %d has %v requests, want %v", i+1, w.Requests, want)
		}
	}
}

func TestMeansOfCounters(t *testing.T) {
	f := &fake{t: t}
	f.add("vllm:request_success_total", scrape, hour, rising(2), "model_name", "m")
	f.add("vllm:prompt_tokens_total", scrape, hour, rising(600), "model_name", "m")
	got := look(t, f)
	near(t, "mean ISL", got.ISL.Mean, 300, 1e-9)
	if got.ISL.P99.Known || !math.IsNaN(got.OSL.Mean) {
		t.Errorf("known of what nobody said: %+v", got)
	}
	for _, code := range []string{"mean_of_counters", "not_measured", "counted_at_end"} {
		if !slices.Contains(codes(got.Warnings), code) {
			t.Errorf("warnings %v lack %s", codes(got.Warnings), code)
		}
	}
}

// Demand read as requests get on stops growing where engines are full (Dynamo #8861): what
// waits more than before came too, and what waits less came before, or has left.
func TestWaitingRequestsCame(t *testing.T) {
	f := &fake{t: t}
	f.engine("m", "a", hour, 2, 100)
	f.add("vllm:num_requests_waiting", scrape, hour, func(at time.Duration) float64 { // 5 requests/s come in minutes 10 to 20
		return max(0, min(3*(at-10*time.Minute).Seconds(), 1800-3*(at-20*time.Minute).Seconds()))
	}, "model_name", "m", "instance", "b")
	got := look(t, f)
	near(t, "requests", got.Requests, 7800, 1)
	near(t, "the busiest minute", got.Peak, 5, 1e-6)
	near(t, "a minute in which the queue falls", got.Windows[25].Requests, 0, 1e-6)
	if slices.Contains(codes(got.Warnings), "counted_at_end") {
		t.Errorf("warnings %v", codes(got.Warnings))
	}
}

func TestNothingCame(t *testing.T) {
	for name, c := range map[string]struct {
		value func(time.Duration) float64
		want  string
	}{
		"idle":       {rising(0), "did not rise in this range"},
		"no numbers": {func(time.Duration) float64 { return math.NaN() }, "no window of 1m0s has two samples"},
	} {
		f := &fake{t: t}
		f.add("vllm:request_success_total", scrape, hour, c.value, "model_name", "m")
		src, err := f.serve().Find(t.Context(), wanted("m"))
		if err != nil {
			t.Fatal(err)
		}
		var failed *Error
		if _, err = src.Traffic(t.Context(), minutes()); !errors.As(err, &failed) || !strings.Contains(err.Error(), c.want) || failed.Hint == "" {
			t.Errorf("%s: error %v, want one with %q and a hint", name, err, c.want)
		}
		later := Range{From: begin.Add(100 * hour), To: begin.Add(101 * hour), Window: time.Minute}
		if _, err = src.Traffic(t.Context(), later); !errors.As(err, new(*NotFoundError)) {
			t.Errorf("%s: an empty range gives %v", name, err)
		}
	}
}

func TestRangeCheck(t *testing.T) {
	for _, c := range []struct {
		span, window time.Duration
		ok           bool
	}{
		{hour, time.Minute, true},
		{time.Minute, time.Minute, true},
		{time.Second, time.Minute, false},
		{-hour, time.Minute, false},
		{hour, 0, false},
		{hour, 1500 * time.Microsecond, false},
		{10000 * hour, time.Second, false},
	} {
		if err := (Range{From: begin, To: begin.Add(c.span), Window: c.window}).Check(); (err == nil) != c.ok {
			t.Errorf("%v in windows of %v: %v", c.span, c.window, err)
		}
	}
}

// VictoriaMetrics counted what came in a gap in the window after it, until 2025: a peak there
// is said to be doubtful.
func TestPeakAfterAGap(t *testing.T) {
	for _, victoria := range []bool{false, true} {
		f := &fake{t: t, victoria: victoria}
		f.engine("m", "a", hour, 1, 600)
		f.away("b", half-10*time.Minute+5*time.Second, func(at time.Duration) float64 { return min(20*at.Seconds(), 1000) }, 0, 0)
		if got := look(t, f); slices.Contains(codes(got.Warnings), "peak_after_gap") != victoria || got.Peak < 10 {
			t.Errorf("victoria %v: peak %v, warnings %v", victoria, got.Peak, got.Warnings)
		}
	}
}

// What waits at an engine that was not scraped did not come when it is scraped again.
func TestAnEngineThatComesBackBringsNoRequests(t *testing.T) {
	f := &fake{t: t}
	for _, name := range []string{"a", "b"} {
		f.engine("m", name, hour, 1, 600)
	}
	for i, s := range f.series {
		if s.labels["__name__"] == "vllm:num_requests_waiting" {
			for k := range s.values {
				s.values[k] = 300
			}
		}
		if s.labels["instance"] == "b" {
			from, to := int(20*time.Minute/scrape), int(25*time.Minute/scrape)
			s.at, s.values = slices.Delete(s.at, from, to), slices.Delete(s.values, from, to)
			f.series[i] = s
		}
	}
	near(t, "peak", look(t, f).Peak, 2, 0.2)
}
