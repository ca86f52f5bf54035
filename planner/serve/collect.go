package serve

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
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

func (statusMetrics) Describe(chan<- *prometheus.Desc) {}

// Collect reads every runner's status.
func (m statusMetrics) Collect(to chan<- prometheus.Metric) {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"dynamo_namespace"}, nil)
	}
	hours := desc("dynamo_planner_gpu_hours", "GPU-hours held by the deployment since the planner first saw it.")
	ttft, itl := desc("dynamo_planner_sla_target_ttft_ms", "TTFT to keep, in ms."), desc("dynamo_planner_sla_target_itl_ms", "ITL to keep, in ms.")
	paused, every := desc("plimsoll_planner_paused", "1 while decisions are not carried out."), desc("plimsoll_planner_interval_seconds", "Interval between decisions in force.")
	for _, r := range m.runners {
		s, d := r.Status(), r.Deployment()
		send := func(desc *prometheus.Desc, v float64) {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, s.Name)
		}
		send(hours, s.GPUHours)
		send(ttft, d.SLA.TTFT.Seconds()*1e3)
		send(itl, d.SLA.ITL.Seconds()*1e3)
		send(every, s.Interval.Seconds())
		if s.Paused || s.Advise {
			send(paused, 1)
		} else {
			send(paused, 0)
		}
	}
}
