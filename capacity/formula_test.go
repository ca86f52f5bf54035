package capacity

import (
	"encoding/csv"
	"encoding/json"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"plimsoll/profile"
	"plimsoll/profile/trace"
)

func llama(t *testing.T, size string) Throughput {
	t.Helper()
	for _, row := range PublishedThroughputs() {
		if strings.HasSuffix(row.Model, "-"+size) {
			return row
		}
	}
	t.Fatalf("no published row for %s", size)
	return Throughput{}
}

func workload(qps, isl, osl, isl99, osl99, ratio float64) Workload {
	return Workload{
		Rate: qps, ISL: isl, OSL: osl, ISLP99: isl99, OSLP99: osl99,
		Pattern: trace.Flat, PeakToAverage: ratio, PeakWindow: time.Minute,
	}
}

// objective has its latencies in ms.
func objective(ttft, itl, availability float64) SLO {
	return SLO{TTFT: milliseconds(ttft), ITL: milliseconds(itl), Availability: availability}
}

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// The two workloads of the article.
var (
	chatLoad   = workload(100, 256, 512, 1024, 2048, 2.5)
	ragLoad    = workload(50, 8192, 256, 16384, 512, 1.3)
	chatbotSLO = objective(500, 50, 0.999)
	ragSLO     = objective(2000, 50, 0.999)
)

func as(s Strategy) Options {
	return Options{Strategy: s, UtilizationTarget: 0.70, USDPerGPUHour: PublishedUSDPerGPUHr}
}

func formula(t *testing.T, w Workload, slo SLO, th Throughput, o Options) FormulaPlan {
	t.Helper()
	p, err := Formula(w, slo, th, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// The figures that the article's code gives. Money to the digits that it prints.
func TestGoldens(t *testing.T) {
	for _, c := range []struct {
		name                            string
		w                               Workload
		slo                             SLO
		prefill, decode                 int
		gpus, withBurst, final          int
		ttft, itl, kv, ratio            float64
		hourly, daily, monthly, annual  float64
		per1k, per1kMinimum, per1mToken float64
	}{
		{"chatbot", chatLoad, chatbotSLO, 1, 10, 44, 66, 76, 25.48, 12.5, 12_582_912, 0.1, 266, 6384, 191_520, 2_330_160, 0.7389, 0.4278, 0.4861},
		{"rag", ragLoad, ragSLO, 12, 3, 60, 60, 70, 332.68, 6.25, 34_603_008, 4, 245, 5880, 176_400, 2_146_200, 1.3611, 1.1667, 0.4861},
	} {
		t.Run(c.name, func(t *testing.T) {
			th := llama(t, "70B")
			p := formula(t, c.w, c.slo, th, as(Disaggregated))
			if p.PrefillGroups != c.prefill || p.DecodeGroups != c.decode || p.Groups != c.prefill+c.decode {
				t.Errorf("groups %d + %d = %d, want %d + %d", p.PrefillGroups, p.DecodeGroups, p.Groups, c.prefill, c.decode)
			}
			if p.PrefillGPUs != 4*c.prefill || p.DecodeGPUs != 4*c.decode || p.TotalGPUs != c.gpus || p.TotalGPUsWithBurst != c.withBurst || p.TotalGPUsFinal != c.final || p.RedundancyGPUs != 10 {
				t.Errorf("GPUs %d + %d = %d, %d, %d (redundancy %d), want %d, %d, %d", p.PrefillGPUs, p.DecodeGPUs, p.TotalGPUs, p.TotalGPUsWithBurst, p.TotalGPUsFinal, p.RedundancyGPUs, c.gpus, c.withBurst, c.final)
			}
			near(t, "TTFT", p.EstimatedTTFTP99Ms, c.ttft, 1e-9)
			near(t, "ITL", p.EstimatedITLP99Ms, c.itl, 1e-9)
			near(t, "ratio", p.PrefillDecodeRatio, c.ratio, 1e-12)
			near(t, "hourly", float64(p.HourlyUSD), c.hourly, 1e-9)
			near(t, "daily", float64(p.DailyUSD), c.daily, 1e-6)
			near(t, "monthly", float64(p.MonthlyUSD), c.monthly, 1e-6)
			near(t, "annual", float64(p.AnnualUSD), c.annual, 1e-6)
			near(t, "per 1k queries", float64(p.Per1kQueriesUSD), c.per1k, 5e-5)
			near(t, "per 1M tokens", float64(p.Per1MTokensUSD), c.per1mToken, 5e-5)
			m, err := Minimum(c.w, c.slo, th, as(Disaggregated))
			if err != nil {
				t.Fatal(err)
			}
			near(t, "KV bytes", m.KVCacheBytes, c.kv, 1e-3)
			near(t, "per 1k queries at the minimum", float64(m.Per1kQueriesUSD), c.per1kMinimum, 5e-5)
			if m.TotalGPUs != c.gpus {
				t.Errorf("minimum %d GPUs, want %d", m.TotalGPUs, c.gpus)
			}
			if p.Provenance != profile.Published {
				t.Errorf("provenance %v", p.Provenance)
			}
		})
	}
}

func TestGoldensAggregated(t *testing.T) {
	for _, c := range []struct {
		w                       Workload
		slo                     SLO
		groups, gpus, up, final int
	}{
		{chatLoad, chatbotSLO, 18, 72, 108, 110},
		{ragLoad, ragSLO, 95, 380, 380, 382},
	} {
		p := formula(t, c.w, c.slo, llama(t, "70B"), as("colocated"))
		if p.Strategy != Aggregated || p.Groups != c.groups || p.TotalGPUs != c.gpus || p.TotalGPUsWithBurst != c.up || p.TotalGPUsFinal != c.final {
			t.Errorf("%+v, want %d groups and %d, %d, %d GPUs", p, c.groups, c.gpus, c.up, c.final)
		}
		if auto := formula(t, c.w, c.slo, llama(t, "70B"), as(Auto)); auto.Strategy != Disaggregated {
			t.Errorf("auto is %s with %d GPUs", auto.Strategy, auto.TotalGPUsFinal)
		}
	}
}

// The article prints 32 GPUs for this one; its code gives 3 + 6 groups.
func TestThirdWorkloadOfTheArticle(t *testing.T) {
	p := formula(t, workload(200, 500, 150, 500, 150, 1.5), chatbotSLO, llama(t, "70B"), as(Disaggregated))
	if p.PrefillGroups != 3 || p.DecodeGroups != 6 || p.TotalGPUs != 36 {
		t.Errorf("%d + %d groups, %d GPUs, want 3 + 6 and 36", p.PrefillGroups, p.DecodeGroups, p.TotalGPUs)
	}
}

func TestBranches(t *testing.T) {
	th := llama(t, "70B")
	for _, c := range []struct {
		name    string
		w       Workload
		slo     SLO
		th      Throughput
		o       Options
		prefill int
		decode  int
		final   int
		binding string
	}{
		// TTFT: 16384/50000·1000 + 5 = 332.68 ms; 12 · 332.68/200 = 19.96.
		{"ttft factor", ragLoad, objective(200, 50, 0), th, as(Disaggregated), 20, 3, 92, "ttft"},
		// ITL: 1000/(8000/100) = 12.5 ms; 10 · 12.5/10 = 12.5. Burst 1.5: (1 + 13)·4·1.5 = 84.
		{"itl factor", chatLoad, objective(500, 10, 0), th, as(Disaggregated), 1, 13, 84, "itl"},
		// An estimate equal to the SLO multiplies nothing.
		{"itl at the SLO", chatLoad, SLO{TTFT: time.Second, ITL: 12500 * time.Microsecond}, th, as(Disaggregated), 1, 10, 66, "decode throughput"},
		{"prefill binds", ragLoad, objective(2000, 50, 0), th, as(Disaggregated), 12, 3, 60, "prefill throughput"},
		// N+1: 48 // 12 + 1 = 5.
		{"n+1", ragLoad, objective(2000, 50, 0.99), th, as(Disaggregated), 12, 3, 65, "prefill throughput"},
		{"just below n+1", ragLoad, objective(2000, 50, 0.9899), th, as(Disaggregated), 12, 3, 60, "prefill throughput"},
		{"aggregated n+1", ragLoad, objective(2000, 50, 0.99), th, as(Aggregated), 0, 0, 381, "decode throughput"},
		// 0.8·25000 = 20000 beside 0.6·30000 = 18000: (256+512)·100/(18000·0.7) = 6.10 → 7 groups of 1, burst 1.5: 10.5.
		{"aggregated, prefill binds", chatLoad, objective(500, 50, 0), Throughput{TP: 1, PrefillTPS: 30_000, DecodeTPS: 25_000, MaxBatch: 1, KVBytesPerToken: 1, GPUMemoryBytes: 1 << 30}, as(Aggregated), 0, 0, 11, "prefill throughput"},
		// 1 + 24 groups are 100 GPUs, and 100 · (1 + (1.7 − 1.5)/2) is 110, of which
		// floating point makes 110.00000000000001.
		{"exact figures are not rounded up", workload(100, 256, 1344, 256, 1344, 1.7), objective(500, 50, 0), th, as(Disaggregated), 1, 24, 110, "decode throughput"},
		{"a trickle", workload(1e-9, 1, 1, 1, 1, 1), objective(500, 50, 0), th, as(Disaggregated), 1, 1, 8, "decode throughput"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := formula(t, c.w, c.slo, c.th, c.o)
			if p.PrefillGroups != c.prefill || p.DecodeGroups != c.decode || p.TotalGPUsFinal != c.final || p.Binding != c.binding {
				t.Errorf("%d + %d groups, %d GPUs, bound by %s; want %d + %d, %d, %s", p.PrefillGroups, p.DecodeGroups, p.TotalGPUsFinal, p.Binding, c.prefill, c.decode, c.final, c.binding)
			}
		})
	}
}

// 100·512/8000 = 6.4 sequences of 768 tokens of 1e9 bytes are 4.9152e12 bytes;
// 10 groups hold 10·0.55·4·80·1024³ = 1.889786e12; 4.9152e12/1.889786e11 = 26.01.
func TestMinimumByKVCache(t *testing.T) {
	th := llama(t, "70B")
	th.KVBytesPerToken = 1e9
	m, err := Minimum(chatLoad, chatbotSLO, th, as(Disaggregated))
	if err != nil {
		t.Fatal(err)
	}
	if m.DecodeGroups != 27 || m.PrefillGroups != 1 || m.TotalGPUs != 112 || m.Binding != "kv cache" {
		t.Errorf("%+v, want 1 + 27 groups, 112 GPUs, bound by the KV cache", m)
	}
	near(t, "weights' budget", m.WeightBudgetBytes, 0.35*4*80*(1<<30), 1)
}

// testdata/formula.py did the same sums in exact fractions.
func TestAgainstFractions(t *testing.T) {
	f, err := os.Open("testdata/formula.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // only read
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) != 401 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for _, row := range rows[1:] {
		v := make([]float64, len(row))
		for i, s := range row {
			if v[i], err = strconv.ParseFloat(s, 64); err != nil {
				t.Fatal(err)
			}
		}
		w := workload(v[0], v[1], v[2], v[3], v[4], v[5])
		slo := objective(v[6], v[7], v[8])
		th := Throughput{PrefillTPS: v[9], DecodeTPS: v[10], TP: int(v[11]), KVBytesPerToken: int64(v[12]), MaxBatch: 1, GPUMemoryBytes: PublishedGPUBytes}
		p, a := formula(t, w, slo, th, as(Disaggregated)), formula(t, w, slo, th, as(Aggregated))
		m, err := Minimum(w, slo, th, as(Disaggregated))
		if err != nil {
			t.Fatal(err)
		}
		got := []int{p.PrefillGroups, p.DecodeGroups, p.TotalGPUs, p.TotalGPUsWithBurst, p.TotalGPUsFinal, m.TotalGPUs, a.Groups, a.TotalGPUsFinal}
		for i, g := range got {
			if float64(g) != v[13+i] {
				t.Errorf("%s: %v: column %d is %d, want %v", strings.Join(row, ","), got, 13+i, g, v[13+i])
			}
		}
	}
}

func TestPlanJSON(t *testing.T) {
	text, err := json.Marshal(formula(t, chatLoad, chatbotSLO, llama(t, "70B"), as(Disaggregated)))
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	for _, key := range strings.Fields(`strategy groups utilization_target prefill_groups decode_groups prefill_gpus decode_gpus
		total_gpus burst_headroom_factor total_gpus_with_burst redundancy_gpus total_gpus_final prefill_decode_ratio
		estimated_ttft_p99_ms estimated_itl_p99_ms hourly_cost_usd daily_cost_usd monthly_cost_usd annual_cost_usd
		cost_per_1k_queries_usd cost_per_1m_tokens_usd provenance binding`) {
		if _, ok := fields[key]; !ok {
			t.Errorf("%s is missing in %s", key, text)
		}
	}
	if fields["provenance"] != "published" {
		t.Errorf("provenance is %v", fields["provenance"])
	}
}
