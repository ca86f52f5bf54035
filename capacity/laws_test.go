package capacity

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine/enginetest"
	"plimsoll/profile/trace"
)

// drawn is a plan's inputs.
type drawn struct {
	w   Workload
	slo SLO
	t   Throughput
	o   Options
}

func draw(t *rapid.T) drawn {
	isl, osl := rapid.Float64Range(1, 10_000).Draw(t, "isl"), rapid.Float64Range(1, 2_000).Draw(t, "osl")
	tail := rapid.Float64Range(1, 14).Draw(t, "tail")
	return drawn{
		Workload{
			Rate: rapid.Float64Range(0.1, 2_000).Draw(t, "qps"), ISL: isl, ISLP99: isl * tail, OSL: osl, OSLP99: osl * tail,
			Pattern: trace.Flat, PeakToAverage: rapid.Float64Range(1, 10).Draw(t, "ratio"), PeakWindow: time.Minute,
		},
		SLO{
			TTFT: time.Duration(rapid.IntRange(10, 5_000).Draw(t, "ttft")) * time.Millisecond, ITL: time.Duration(rapid.IntRange(1, 200).Draw(t, "itl")) * time.Millisecond,
			Availability: rapid.Float64Range(0, 0.9999).Draw(t, "availability"),
		},
		rapid.SampledFrom(PublishedThroughputs()).Draw(t, "row"),
		Options{rapid.SampledFrom([]Strategy{Disaggregated, Aggregated, Auto}).Draw(t, "strategy"), rapid.Float64Range(0.3, 1).Draw(t, "utilization"), USD(rapid.Float64Range(0.1, 20).Draw(t, "price"))},
	}
}

func (d drawn) plan(t *rapid.T) (FormulaPlan, MinimumPlan) {
	p, err := Formula(d.w, d.slo, d.t, d.o)
	m, errMinimum := Minimum(d.w, d.slo, d.t, d.o)
	if err = errors.Join(err, errMinimum); err != nil {
		if strings.Contains(err.Error(), "GPUs, above") {
			t.Skip(err) // beyond what is planned for
		}
		t.Fatal(err)
	}
	return p, m
}

// More to do, or a harder promise, never takes fewer GPUs, and a lower price
// never costs more.
func TestFormulaLaws(t *testing.T) {
	for name, harder := range map[string]func(t *rapid.T, d *drawn, by float64){
		"more requests":   func(_ *rapid.T, d *drawn, by float64) { d.w.Rate *= by },
		"longer prompts":  func(_ *rapid.T, d *drawn, by float64) { d.w.ISL *= by; d.w.ISLP99 *= by },
		"longer answers":  func(_ *rapid.T, d *drawn, by float64) { d.w.OSL *= by; d.w.OSLP99 *= by },
		"higher peaks":    func(_ *rapid.T, d *drawn, by float64) { d.w.PeakToAverage *= by },
		"a tighter TTFT":  func(_ *rapid.T, d *drawn, by float64) { d.slo.TTFT = time.Duration(float64(d.slo.TTFT) / by) },
		"a tighter ITL":   func(_ *rapid.T, d *drawn, by float64) { d.slo.ITL = time.Duration(float64(d.slo.ITL) / by) },
		"more available":  func(_ *rapid.T, d *drawn, by float64) { d.slo.Availability = 1 - (1-d.slo.Availability)/by },
		"slower groups":   func(_ *rapid.T, d *drawn, by float64) { d.t.PrefillTPS /= by; d.t.DecodeTPS /= by },
		"more headroom":   func(_ *rapid.T, d *drawn, by float64) { d.o.UtilizationTarget /= by },
		"larger KV cache": func(_ *rapid.T, d *drawn, by float64) { d.t.KVBytesPerToken = int64(float64(d.t.KVBytesPerToken) * by) },
	} {
		t.Run(name, func(t *testing.T) {
			enginetest.Check(t, func(t *rapid.T) {
				easy := draw(t)
				hard := easy
				harder(t, &hard, rapid.Float64Range(1, 10).Draw(t, "by"))
				p, m := easy.plan(t)
				q, n := hard.plan(t)
				if q.TotalGPUs < p.TotalGPUs && easy.o.Strategy != Auto || q.TotalGPUsFinal < p.TotalGPUsFinal || n.TotalGPUs < m.TotalGPUs {
					t.Fatalf("%+v takes fewer GPUs than %+v, or its minimum does: %d, %d", q, p, n.TotalGPUs, m.TotalGPUs)
				}
				if q.HourlyUSD < p.HourlyUSD {
					t.Fatalf("it costs %v, less than %v", q.HourlyUSD, p.HourlyUSD)
				}
			})
		})
	}
	t.Run("a lower price", func(t *testing.T) {
		enginetest.Check(t, func(t *rapid.T) {
			dear := draw(t)
			cheap := dear
			cheap.o.USDPerGPUHour *= USD(rapid.Float64Range(0, 1).Draw(t, "by"))
			p, m := dear.plan(t)
			q, n := cheap.plan(t)
			if q.TotalGPUsFinal != p.TotalGPUsFinal || q.AnnualUSD > p.AnnualUSD || q.Per1MTokensUSD > p.Per1MTokensUSD || n.Per1kQueriesUSD > m.Per1kQueriesUSD {
				t.Fatalf("%+v costs more than %+v", q, p)
			}
		})
	})
}

// The sums of a plan add up, whatever goes in, and its corrections are finite.
func TestFormulaSums(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		d := draw(t)
		p, m := d.plan(t)
		if p.Strategy == Disaggregated && (p.Groups != p.PrefillGroups+p.DecodeGroups || p.TotalGPUs != p.PrefillGPUs+p.DecodeGPUs || m.TotalGPUs < p.TotalGPUs) ||
			p.TotalGPUs != p.Groups*d.t.TP || p.TotalGPUsWithBurst < p.TotalGPUs || p.TotalGPUsFinal != p.TotalGPUsWithBurst+p.RedundancyGPUs {
			t.Fatalf("%+v, at the minimum %+v", p, m)
		}
		for _, c := range Misleads(d.w, d.slo, d.t, d.o, p, Facts{ReplicaAvailability: 0.99}) {
			if !(c.Right >= 0 && c.Right < 1e18) || c.Right == c.Formula || c.Why == "" {
				t.Fatalf("%+v", c)
			}
		}
		average := d.w.CostsAtAverage(p.TotalGPUsFinal, d.o.USDPerGPUHour)
		if peak := d.w.CostsAtPeak(p.TotalGPUsFinal, d.o.USDPerGPUHour); average.Per1MTokensUSD < peak.Per1MTokensUSD*(1-1e-12) || peak.HourlyUSD != p.HourlyUSD {
			t.Fatalf("costs %+v at the peak, %+v on average, of %+v", peak, average, p)
		}
	})
}
