package serve

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"plimsoll/engine"
	"plimsoll/planner"
)

// Metrics are the planners' own figures for Prometheus: those of NVIDIA Dynamo's
// planner under the same names (components/planner, 2026-08), and ours. A figure
// that is missing has no sample, so that nobody takes it for 0.
type Metrics struct {
	mu   sync.Mutex
	last map[string]Event // newest decision by deployment

	events *prometheus.CounterVec
	gauges []gauge
}

// gauge is one figure of the newest decision.
type gauge struct {
	desc *prometheus.Desc
	of   figureOf
}

func num(n int) planner.Figure[float64] { return planner.Known(float64(n)) }

// NewMetrics makes a collector; feed it with Add.
func NewMetrics() *Metrics {
	m := &Metrics{last: map[string]Event{}}
	m.events = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "plimsoll_planner_events_total", Help: "Events by kind."}, []string{"dynamo_namespace", "kind"})
	add := func(name, help string, of figureOf) {
		m.gauges = append(m.gauges, gauge{prometheus.NewDesc(name, help, []string{"dynamo_namespace"}, nil), of})
	}
	upstreamGauges(add)
	ownGauges(add)
	return m
}

// figureOf reads one figure of an interval and its decision.
type figureOf func(planner.Observation, planner.Decision) planner.Figure[float64]

type adder func(name, help string, of figureOf)

// upstreamGauges are those of Dynamo's planner.
func upstreamGauges(add adder) {
	const p = "dynamo_planner_"
	replicas := func(r planner.Role) figureOf {
		return func(o planner.Observation, _ planner.Decision) planner.Figure[float64] {
			pool, ok := o.Pool(r)
			return planner.Figure[float64]{Value: float64(pool.Ready), Known: ok}
		}
	}
	add(p+"num_prefill_replicas", "Prefill replicas that serve.", replicas(engine.RolePrefill))
	add(p+"num_decode_replicas", "Decode replicas that serve; of an aggregated deployment, those of its pool.", func(o planner.Observation, d planner.Decision) planner.Figure[float64] {
		if f := replicas(engine.RoleDecode)(o, d); f.Known {
			return f
		}
		return replicas(engine.RoleAggregated)(o, d)
	})
	add(p+"observed_ttft_ms", "Mean TTFT of the last interval, in ms.", func(o planner.Observation, _ planner.Decision) planner.Figure[float64] {
		return planner.Milliseconds(o.TTFT.Mean)
	})
	add(p+"observed_itl_ms", "Mean ITL of the last interval, in ms.", func(o planner.Observation, _ planner.Decision) planner.Figure[float64] {
		return planner.Milliseconds(o.ITL.Mean)
	})
	add(p+"observed_requests_per_second", "Requests that came.", func(o planner.Observation, _ planner.Decision) planner.Figure[float64] {
		return planner.Figure[float64]{Value: o.Arrivals.Value / o.Length.Seconds(), Known: o.Arrivals.Known && o.Length > 0}
	})
	add(p+"observed_request_duration_seconds", "Mean duration of whole requests.", func(o planner.Observation, _ planner.Decision) planner.Figure[float64] {
		return planner.Figure[float64]{Value: o.Duration.Mean.Value.Seconds(), Known: o.Duration.Mean.Known}
	})
	add(p+"observed_input_sequence_tokens", "Mean ISL.", func(o planner.Observation, _ planner.Decision) planner.Figure[float64] { return o.ISL.Mean })
	add(p+"observed_output_sequence_tokens", "Mean OSL.", func(o planner.Observation, _ planner.Decision) planner.Figure[float64] { return o.OSL.Mean })
	add(p+"predicted_requests_per_second", "Requests expected in the next interval.", func(_ planner.Observation, d planner.Decision) planner.Figure[float64] { return d.Forecast.Rate })
	add(p+"predicted_input_sequence_tokens", "Mean ISL expected.", func(_ planner.Observation, d planner.Decision) planner.Figure[float64] { return d.Forecast.ISL })
	add(p+"predicted_output_sequence_tokens", "Mean OSL expected.", func(_ planner.Observation, d planner.Decision) planner.Figure[float64] { return d.Forecast.OSL })
	add(p+"predicted_num_prefill_replicas", "Prefill replicas decided on.", wanted(engine.RolePrefill))
	add(p+"predicted_num_decode_replicas", "Decode replicas decided on.", wanted(engine.RoleDecode))
	add(p+"engine_prefill_capacity_requests_per_second", "What a prefill engine carries within the SLA.", carries(engine.RolePrefill))
	add(p+"engine_decode_capacity_requests_per_second", "What a decode engine carries within the SLA.", carries(engine.RoleDecode))
	add(p+"estimated_ttft_ms", "TTFT that the profile predicts with what was decided, in ms.", latency(engine.RolePrefill))
	add(p+"estimated_itl_ms", "ITL that the profile predicts with what was decided, in ms.", latency(engine.RoleDecode))
}

// ownGauges are what Dynamo's planner does not show.
func ownGauges(add adder) {
	const p = "plimsoll_planner_"
	add(p+"aggregated_replicas_wanted", "Aggregated replicas decided on.", wanted(engine.RoleAggregated))
	add(p+"gpus_wanted", "GPUs of what was decided.", func(_ planner.Observation, d planner.Decision) planner.Figure[float64] { return num(d.GPUs) })
	add(p+"prefill_correction_ratio", "How much slower prefill was than its profile.", func(_ planner.Observation, d planner.Decision) planner.Figure[float64] { return d.Correction.Prefill })
	add(p+"decode_correction_ratio", "How much slower decode was than its profile.", func(_ planner.Observation, d planner.Decision) planner.Figure[float64] { return d.Correction.Decode })
	add(p+"sized_requests_per_second", "Requests that were sized for, the forecast's error included.", func(_ planner.Observation, d planner.Decision) planner.Figure[float64] { return d.Forecast.High })
	add(p+"missing_figures", "Figures that the last decision lacked.", func(_ planner.Observation, d planner.Decision) planner.Figure[float64] { return num(len(d.Missing)) })
	add(p+"last_decision_timestamp_seconds", "When the last decision was made.", func(_ planner.Observation, d planner.Decision) planner.Figure[float64] {
		return planner.Known(float64(d.At.UnixMilli()) / 1e3)
	})
}

// wanted are the replicas decided on, of a pool that there is.
func wanted(r planner.Role) figureOf {
	return func(o planner.Observation, d planner.Decision) planner.Figure[float64] {
		_, ok := o.Pool(r)
		return planner.Figure[float64]{Value: float64(d.Want.Of(r)), Known: ok}
	}
}

func carries(r planner.Role) figureOf {
	return capacityOf(r, func(c planner.PoolCapacity) planner.Figure[float64] { return c.Rate })
}

func latency(r planner.Role) figureOf {
	return capacityOf(r, func(c planner.PoolCapacity) planner.Figure[float64] { return c.Latency })
}

func capacityOf(r planner.Role, of func(planner.PoolCapacity) planner.Figure[float64]) figureOf {
	return func(_ planner.Observation, d planner.Decision) planner.Figure[float64] {
		for _, c := range d.Capacity {
			if c.Role == r {
				return of(c)
			}
		}
		return planner.Figure[float64]{}
	}
}
