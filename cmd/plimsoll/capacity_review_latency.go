package main

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"plimsoll/capacity"
	"plimsoll/capacity/autoscale"
	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
	"plimsoll/planner/observe"
	"plimsoll/profile"
	"plimsoll/profile/trace"
)

// reviewSource is where traffic comes from that a server counted.
type reviewSource struct {
	Server     string             `json:"prometheus"`
	Preset     string             `json:"preset"`
	Model      string             `json:"model,omitempty"`
	Namespace  string             `json:"namespace,omitempty"`
	Provenance profile.Provenance `json:"provenance"` // of the latencies that it saw
	From       time.Time          `json:"from"`
	To         time.Time          `json:"to"`
	Counted    string             `json:"counted"` // arrivals, or ends
	Requests   float64            `json:"requests"`
	Every      float64            `json:"scrape_s"` // from one sample to the next
	Window     float64            `json:"window_s"`
	Windows    int                `json:"windows"`
	Gaps       int                `json:"gaps"`
	PeakAt     time.Time          `json:"peak_at"` // the end of the busiest window
	// Of that window; null = not known.
	Engines int      `json:"engines,omitempty"`
	Running *float64 `json:"running"`
	Waiting *float64 `json:"waiting"`
	KVUse   *float64 `json:"kv_use"`
}

func (s seen) source() *reviewSource {
	t := s.traffic
	r := &reviewSource{
		Server: s.server, Preset: s.from.Names.Preset, Model: s.from.Model, Namespace: s.from.Namespace, Provenance: s.from.Provenance,
		From: t.Range.From.UTC(), To: t.Range.To.UTC(), Counted: "ends", Requests: t.Requests, Every: t.Scrapes.Seconds(),
		Window: t.Range.Window.Seconds(), Windows: len(t.Windows), Gaps: t.Gaps, PeakAt: t.PeakAt.UTC(),
		Engines: t.Engines, Running: orNull(t.Running), Waiting: orNull(t.Waiting), KVUse: orNull(t.KVUse),
	}
	if s.from.CountsArrivals() {
		r.Counted = "arrivals"
	}
	return r
}

func (r reviewSource) text() string {
	of := ""
	if r.Model != "" {
		of = " of " + r.Model
	}
	return fmt.Sprintf("From %s: %.0f requests%s from %s to %s, %s metrics every %v, counted as %s\n", r.Server, r.Requests, of,
		r.From.Format(time.RFC3339), r.To.Format(time.RFC3339), r.Preset, time.Duration(r.Every*float64(time.Second)).Round(10*time.Millisecond),
		map[string]string{"arrivals": "they arrive", "ends": "they end"}[r.Counted])
}

// bounds are those of a histogram's bucket.
type bounds struct {
	Low  float64  `json:"low"`
	High *float64 `json:"high"` // null: there is none
}

// boundsOf is nil for a quantile that is not known.
func boundsOf(q observe.Quantile) *bounds {
	if !q.Known() {
		return nil
	}
	return &bounds{q.Low, orNull(q.High)}
}

// text is "100 to 200", "above 100", or "–" of nil.
func (b *bounds) text() string {
	switch {
	case b == nil:
		return "–"
	case b.High == nil:
		return fmt.Sprintf("above %.4g", b.Low)
	}
	return fmt.Sprintf("%.4g to %.4g", b.Low, *b.High)
}

// within is a value with the bounds that it lies between; "–" where there is none.
func within(x *float64, b *bounds) string {
	switch {
	case x == nil:
		return "–"
	case b == nil:
		return fmt.Sprintf("%.4g", *x)
	}
	return fmt.Sprintf("%.4g (%s)", *x, b.text())
}

// reviewLatency is one latency's 99th percentile, as it was promised, planned,
// simulated and measured; ms, null = not known.
type reviewLatency struct {
	Name      string   `json:"name"`
	SLO       *float64 `json:"slo_p99_ms"`
	Planned   *float64 `json:"planned_p99_ms"`
	Simulated *float64 `json:"simulated_p99_ms"` // at the measured peak
	// Allowed is what the simulation allows: from the mean rate, the shortest p99
	// lengths and steps as much shorter as the model's error has them, to the peak,
	// the longest p99 lengths and steps as much longer.
	Allowed    *bounds            `json:"simulated_between_ms,omitempty"`
	Measured   *float64           `json:"measured_p99_ms"` // of the whole range
	Between    *bounds            `json:"measured_between_ms,omitempty"`
	Provenance profile.Provenance `json:"measured_provenance"`
	Verdict    string             `json:"verdict"` // agrees, slower, faster, unknown
}

// p99s are of a simulated fleet, in ms.
type p99s struct{ ttft, itl, e2e float64 }

// leastError is how far measured and simulated percentiles may be apart where the
// step times have no stated error: what sampling and scraping alone make.
const leastError = 1.1

// compareLatencies sets what was measured beside the same fleet in simulation.
func (r *review) compareLatencies(cand candidate, keep caches, seed uint64) error {
	by := cmp.Or(max(1, cand.factor), 1)
	t := r.seen.traffic
	quiet, err := atRate(longest(r.workload, t.ISL.P99.Low, t.OSL.P99.Low), r.workload.AverageQPS(), seed)
	if err != nil {
		return err
	}
	busy, err := atRate(longest(r.workload, t.ISL.P99.High, t.OSL.P99.High), r.workload.PeakQPS, seed)
	if err != nil {
		return err
	}
	engines := r.engines()
	var at [3]p99s
	for i, x := range []struct {
		load   []trace.Arrival
		slower float64
	}{{r.load, 1}, {quiet, 1 / by}, {busy, by}} {
		l := cand.layout
		if x.slower != 1 {
			if l, err = cand.build(x.slower, keep); err != nil {
				return err
			}
		}
		if at[i], err = percentiles(l, engines, x.load, r.slo.ITLOf, seed); err != nil {
			return err
		}
	}
	itl := t.TPOT
	switch {
	case r.slo.ITLOf == profile.OfGap:
		itl = t.ITL
	case t.TPOT.Count == 0 && t.ITL.Count > 0:
		r.seen.warn("itl_of_gaps_only", "the metrics have single gaps between tokens, not requests' mean ITL, so that ITL is not compared: a plan by --itl-of gap can be")
	}
	for _, x := range []struct {
		name    string
		slo     time.Duration
		planned float64
		of      func(p99s) float64
		seen    observe.Latency
	}{
		{"TTFT", r.slo.TTFTP99, r.plan.EstimatedTTFTP99Ms, func(p p99s) float64 { return p.ttft }, t.TTFT},
		{"ITL", r.slo.ITLP99, r.plan.EstimatedITLP99Ms, func(p p99s) float64 { return p.itl }, itl},
		{"E2E", r.slo.E2EP99, r.plan.EstimatedE2EP99Ms, func(p p99s) float64 { return p.e2e }, t.E2E},
	} {
		l := reviewLatency{
			Name: x.name, Planned: orNull(x.planned), Simulated: orNull(x.of(at[0])),
			Provenance: r.seen.from.Provenance, Verdict: "unknown",
		}
		if low, high := x.of(at[1])/leastError, x.of(at[2])*leastError; low <= high { // not where there is none
			l.Allowed = &bounds{low, &high}
		}
		if x.slo > 0 {
			l.SLO = orNull(inMillis(x.slo.Seconds()))
		}
		if q := x.seen.P99; q.Known() {
			q = observe.Quantile{Value: inMillis(q.Value), Low: inMillis(q.Low), High: inMillis(q.High)}
			l.Measured, l.Between = orNull(q.Value), boundsOf(q)
			if l.Allowed != nil {
				l.Verdict = compared(q, *l.Allowed)
			}
		}
		r.seen.latencies = append(r.seen.latencies, l)
	}
	return nil
}

// longest is a workload with other p99 lengths, where they are known and lengths
// can have them beside their mean.
func longest(w capacity.Workload, isl, osl float64) capacity.Workload {
	for _, x := range []struct {
		to        *float64
		mean, p99 float64
	}{{&w.P99ISL, w.AvgISL, isl}, {&w.P99OSL, w.AvgOSL, osl}} {
		if _, err := lengthsThrough(x.mean, x.p99); err == nil {
			*x.to = max(x.mean, x.p99)
		}
	}
	return w
}

func inMillis(seconds float64) float64 { return 1e3 * seconds }

// compared says how two intervals lie: of the bucket that a percentile is in, and
// of what the simulation allows.
func compared(q observe.Quantile, allowed bounds) string {
	switch {
	case q.Low > *allowed.High:
		return "slower"
	case q.High < allowed.Low:
		return "faster"
	}
	return "agrees"
}

// engines are those of the fleet that was measured: as many as Prometheus saw of
// one pool, else the plan's with its spares.
func (r *review) engines() []int {
	out := make([]int, len(r.plan.Pools))
	for i, p := range r.plan.Pools {
		out[i] = p.Engines + p.SpareEngines
	}
	if n := r.seen.traffic.Engines; n > 0 && len(out) == 1 {
		if n != out[0] {
			r.seen.warn("other_fleet", "%d engines served this traffic, the plan has %d: measured latencies are compared with those of %d", n, out[0], n)
		}
		out[0] = min(n, maxReplicas)
	}
	return out
}

// percentiles simulates engines under a load.
func percentiles(l capacity.Layout, engines []int, load []trace.Arrival, itlOf profile.ITLOf, seed uint64) (p99s, error) {
	c := fleet.Config{Transfer: l.Transfer}
	for i, p := range l.Pools {
		pool := p.Pool
		pool.Replicas, pool.Engine.Seed = engines[i], seed
		c.Pools = append(c.Pools, pool)
	}
	f, err := fleet.New(c)
	if err != nil {
		return p99s{}, fmt.Errorf("simulating the fleet that served: %w", err)
	}
	for q := range autoscale.Requests(trace.Of(load...), l.PrefixBlock()) {
		if err := f.Offer(q); err != nil {
			return p99s{}, fmt.Errorf("simulating the fleet that served: %w", err)
		}
	}
	if err := f.Finish(fleet.Forever); err != nil {
		return p99s{}, fmt.Errorf("simulating the fleet that served: %w", err)
	}
	r := f.Report()
	of := func(s fleet.Sketch) float64 {
		if s.Count() == 0 {
			return math.NaN()
		}
		return inMillis(engine.Picoseconds(s.Quantile(0.99)).Duration().Seconds())
	}
	itl := r.TPOT
	if itlOf == profile.OfGap {
		itl = r.ITL
	}
	return p99s{of(r.TTFT), of(itl), of(r.E2E)}, nil
}

// slower reports whether a measured latency is above what the simulation allows.
func (s *seen) slower() bool {
	return s != nil && slices.ContainsFunc(s.latencies, func(l reviewLatency) bool { return l.Verdict == "slower" })
}

// latencyChanges are what the measured latencies ask for.
func (r *review) latencyChanges() []string {
	if r.seen == nil {
		return nil
	}
	var out []string
	for _, l := range r.seen.latencies {
		if l.SLO != nil && l.Between != nil && l.Between.Low >= *l.SLO {
			out = append(out, fmt.Sprintf("%s p99 was above %.4g ms: the SLO of %.4g ms was missed", l.Name, l.Between.Low, *l.SLO))
		}
		if l.Verdict == "slower" || l.Verdict == "faster" {
			out = append(out, fmt.Sprintf("%s p99 was %s ms, %s than the %s ms that the simulation allows with its error: the profile or the model does not describe this fleet; measure it again (profile-sla), or calibrate",
				l.Name, l.Between.text(), l.Verdict, l.Allowed.text()))
		}
	}
	return out
}

// latencyText is the table of measured latencies.
func (f reviewFile) latencyText(b *bytes.Buffer) {
	if len(f.Latencies) == 0 {
		return
	}
	seen := f.Source.Provenance.String()
	if f.Source.Provenance != profile.Measured {
		seen = strings.ToUpper(seen) + " by the embedded engine"
	}
	fmt.Fprintf(b, "\nLatencies, p99 in ms: those that Prometheus saw are %s; simulated are those of as many engines\n", seen)
	t := newTable("", "SLO", "planned", "simulated", "allowed", "seen", "verdict")
	for _, l := range f.Latencies {
		t.row(l.Name, within(l.SLO, nil), within(l.Planned, nil), within(l.Simulated, nil), l.Allowed.text(), within(l.Measured, l.Between), l.Verdict)
	}
	b.WriteString(t.text("  "))
}

// warningText is what to know of the traffic.
func (f reviewFile) warningText(b *bytes.Buffer) {
	for _, w := range f.Warnings {
		fmt.Fprintf(b, "  warning: %s\n", w.Message)
	}
}
