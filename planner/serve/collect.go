package serve

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plimsoll/planner"
)

// Add takes an event.
func (m *Metrics) Add(e Event) {
	m.events.WithLabelValues(e.Name, string(e.Kind)).Inc()
	if e.Decision == nil || e.Observation == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last[e.Name] = e
}

// Describe sends nothing: which figures there are depends on the deployment.
func (m *Metrics) Describe(chan<- *prometheus.Desc) {}

// Collect sends the newest decisions' figures.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.events.Collect(to)
	m.mu.Lock()
	last := maps.Clone(m.last)
	m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(last)) {
		for _, g := range m.gauges {
			if f := g.of(*last[name].Observation, *last[name].Decision); f.Known {
				to <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, f.Value, name)
			}
		}
	}
}

// statusMetrics are figures of the runners themselves, read when scraped.
type statusMetrics struct{ runners []*Runner }

// statusGauge is one of them; of is NaN where there is no figure.
type statusGauge struct {
	desc *prometheus.Desc
	of   func(Status, planner.Deployment) float64
}

func statusGauges() []statusGauge {
	gauge := func(name, help string, of func(Status, planner.Deployment) float64) statusGauge {
		return statusGauge{prometheus.NewDesc(name, help, []string{"dynamo_namespace"}, nil), of}
	}
	return []statusGauge{
		gauge("dynamo_planner_gpu_hours", "GPU-hours held by the deployment since the planner first saw it.", func(s Status, _ planner.Deployment) float64 { return s.GPUHours }),
		gauge("dynamo_planner_sla_target_ttft_ms", "TTFT to keep, in ms.", func(_ Status, d planner.Deployment) float64 { return promised(d.SLA.TTFT) }),
		gauge("dynamo_planner_sla_target_itl_ms", "ITL to keep, in ms.", func(_ Status, d planner.Deployment) float64 { return promised(d.SLA.ITL) }),
		gauge("plimsoll_planner_interval_seconds", "Interval between decisions in force.", func(s Status, _ planner.Deployment) float64 { return s.Interval.Seconds() }),
		gauge("plimsoll_planner_paused", "1 while decisions are not carried out.", func(s Status, _ planner.Deployment) float64 {
			if s.Advise {
				return 1
			}
			return 0
		}),
	}
}

// promised is a latency in ms; NaN where none is promised.
func promised(d time.Duration) float64 {
	if d == 0 {
		return math.NaN()
	}
	return d.Seconds() * 1e3
}

// Describe sends all of them.
func (statusMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, g := range statusGauges() {
		to <- g.desc
	}
}

// Collect reads every runner's status.
func (m statusMetrics) Collect(to chan<- prometheus.Metric) {
	for _, r := range m.runners {
		s, d := r.Status(), r.Deployment()
		for _, g := range statusGauges() {
			if v := g.of(s, d); !math.IsNaN(v) {
				to <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, v, s.Name)
			}
		}
	}
}
