package main

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"

	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
	"plimsoll/profile"
)

func (s simulation) card() card {
	r, f := s.report, s.fleet
	c := card{
		head:  []string{marked(r.Provenance), f.Layout(), shortModel(f.Model) + " on " + starred(f.GPU, fromDataSheet(s.warnings)), fmt.Sprintf("%s; ISL %.0f, OSL %.0f", s.load.text(), r.ISL.Mean(), r.OSL.Mean())},
		table: s.latencyTable(), below: append(s.decides(), starredBelow(s.warnings, f.TTFTError, f.ITLError)...), warnings: s.warnings,
	}
	c.facts = append(s.attainment(), detail{"Served", fmt.Sprintf("%s of %s in %s: %.4g requests/s, %.4g output tokens/s, %.4g tokens/s/GPU",
		engine.Number(float64(r.Finished)), engine.Count(r.Offered, "request"), seconds(r.At), r.Requests, r.Tokens, r.Tokens/float64(max(f.GPUs(), 1)))})
	if trust := errorWords(f.TTFTError, f.ITLError); trust != "" {
		if off := s.factor(); off > 0 {
			trust += ": attainment moves with them"
		}
		c.facts = append(c.facts, detail{"Trust", trust})
	}
	return c
}

func (s simulation) detailed() string {
	var b bytes.Buffer
	r, f := s.report, s.fleet
	if f.Note != "" {
		fmt.Fprintf(&b, "Note: %s\n", f.Note)
	}
	fmt.Fprintf(&b, "Step times: %s; %s scheduling\n", f.Source, f.Scheduling())
	fmt.Fprintf(&b, "Each engine: %s\nRouting: %s\n", f.PoolWords(engineWords), f.Routing())
	if f.TTFTError.Known() {
		fmt.Fprintf(&b, "Model error of TTFT: %s\n", f.TTFTError.Words())
	}
	if f.ITLError.Known() {
		fmt.Fprintf(&b, "Model error of ITL: %s\n", f.ITLError.Words())
	}
	if off := s.factor(); off > 0 {
		fmt.Fprintf(&b, "Attainment moves with the step times: half of the model's errors of TTFT or of ITL are larger than a factor of %.2f\n", off)
	}
	b.WriteString("\n" + s.poolTable().text(""))
	if len(r.Pools) > 1 {
		fmt.Fprintf(&b, "\nLinks from prefill to decode engines: busy %s\n", tenths(r.Links.Utilisation))
	}
	if d := r.Pools; d[0].PrefixHits.All() > 0 {
		h := d[0].PrefixHits
		fmt.Fprintf(&b, "\nPrefix cache held %.1f %% of prompt tokens (GPU %.1f, DRAM %.1f, NVMe %.1f)\n", 100*h.All(), 100*h.HBM, 100*h.DRAM, 100*h.NVMe)
	}
	return b.String()
}

// text is a load in a line: what was asked for, and what came.
func (l simulatedLoad) text() string {
	asked := ""
	if l.asked > 0 {
		asked = fmt.Sprintf(", %.4g requests/s asked for", l.asked)
	}
	if l.perSecond() == 0 { // no time passed between them
		return fmt.Sprintf("%s%s: %d at once", l.words, asked, l.n)
	}
	return fmt.Sprintf("%s%s: %s in %s, %.4g/s", l.words, asked, engine.Count(l.n, "request"), seconds(engine.FromDuration(l.last)), l.perSecond())
}

// engineWords are the limits of a pool's engines.
func engineWords(p fleet.Pool) string {
	l := p.Engine.Limits
	return fmt.Sprintf("max-num-seqs %d, max-num-batched-tokens %d, max-model-len %d, KV cache of %d tokens",
		l.MaxNumSeqs, l.MaxNumBatchedTokens, l.MaxModelLen, p.Engine.KVTokens())
}

// attainment says what share of the requests met the SLA, where there is one.
func (s simulation) attainment() []detail {
	sla, a := s.fleet.SLA, s.report.Attainment
	if !s.judged() {
		return []detail{{"Answer", "no SLA was given: --ttft and --itl say which share of requests meets it"}}
	}
	both := s.batches.Met(a.Both, func(v fleet.Interval) int64 { return v.MetBoth })
	var of []string
	if sla.TTFT > 0 {
		of = append(of, fmt.Sprintf("TTFT ≤ %g ms (%s)", profile.Milliseconds(sla.TTFT), percent(a.TTFT)))
	}
	if sla.ITL > 0 {
		of = append(of, fmt.Sprintf("ITL ≤ %g ms (%s)", profile.Milliseconds(sla.ITL), percent(a.ITL)))
	}
	answer := fmt.Sprintf("%s of %s meet %s", percent(a.Both), engine.Count(a.Requests, "request"), strings.Join(of, " and "))
	if s.load.steady {
		answer += fmt.Sprintf("; by 90 %% confidence %s to %s", percent(both.Low), percent(both.High))
	}
	return []detail{
		{"Answer", answer},
		{"Goodput", fmt.Sprintf("%.4g requests/s, %.4g output tokens/s", s.report.GoodRequests, s.report.GoodTokens)},
	}
}

// percent never rounds a miss away, nor the last success.
func percent(share float64) string {
	switch {
	case share > 0.9999 && share < 1:
		return fmt.Sprintf("%.4f %%", math.Floor(1e6*share)/1e4)
	case share > 0 && share < 0.0001:
		return fmt.Sprintf("%.4f %%", math.Ceil(1e6*share)/1e4)
	}
	return fmt.Sprintf("%.2f %%", 100*share)
}

func tenths(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

// parts are the run's latencies that each batch has a sketch of.
func (s simulation) parts() []part {
	r := s.report
	return []part{
		{"TTFT", r.TTFT, func(v fleet.Interval) fleet.Sketch { return v.TTFT }},
		{"ITL, requests' means", r.TPOT, func(v fleet.Interval) fleet.Sketch { return v.TPOT }},
		{"ITL, single gaps", r.ITL, func(v fleet.Interval) fleet.Sketch { return v.ITL }},
		{"E2E", r.E2E, func(v fleet.Interval) fleet.Sketch { return v.E2E }},
	}
}

type part struct {
	name string
	run  fleet.Sketch
	of   func(fleet.Interval) fleet.Sketch
}

// decides says how many requests give the p99s that are open or wide to ±10 %.
func (s simulation) decides() []string {
	var need []string
	for _, p := range s.parts() {
		if b := s.batches.P99(p.run, p.of); s.load.steady && b.Times > 0 && p.run.Count() > 0 {
			need = append(need, fmt.Sprintf("%s %s", p.name, engine.Number(twoDigits(b.Times*float64(s.load.n)))))
		}
	}
	if need == nil {
		return nil
	}
	return []string{"≥: the run is too short for an upper end. A p99 to ±10 % takes at least so many requests: " + strings.Join(need, "; ")}
}

// twoDigits is x, rounded up to two digits.
func twoDigits(x float64) float64 {
	scale := math.Pow10(int(math.Floor(math.Log10(x))) - 1)
	return math.Ceil(x/scale) * scale
}

func (s simulation) latencyTable() *table {
	r, parts, steady := s.report, s.parts(), s.load.steady
	head := []string{"ms", "mean", "p50", "p90", "p95", "p99", "p99 by 90 %", "p99.9", "max"}
	if !s.load.steady {
		head = slices.Delete(head, 6, 7)
	}
	t := newTable(head...)
	row := func(name string, s fleet.Sketch, in string) {
		if s.Count() == 0 {
			return
		}
		cells := []string{name, millis(int64(s.Mean()))}
		for _, q := range []float64{0.5, 0.9, 0.95, 0.99, 0.999} {
			if q == 0.999 && steady {
				cells = append(cells, in)
			}
			cells = append(cells, millis(s.Quantile(q)))
		}
		t.row(append(cells, millis(s.Max()))...)
	}
	for _, p := range parts {
		b := s.batches.P99(p.run, p.of)
		in := "≥ " + millis(int64(b.Low))
		if !b.Open {
			in = millis(int64(b.Low)) + "–" + millis(int64(b.High))
		} else if b.Low == 0 { // too short for anything
			in = "open"
		}
		row(p.name, p.run, in)
	}
	for _, p := range r.Pools {
		name := "wait"
		if len(r.Pools) > 1 {
			name = string(p.Role) + " wait"
		}
		row(name, p.Wait, "")
	}
	row("link wait", r.Links.Wait, "")
	row("transfer", r.Links.Move, "")
	return t
}

// millis prints picoseconds in milliseconds, four digits where there are so many.
func millis(ps int64) string {
	v := engine.Picoseconds(ps).Milliseconds()
	if v >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.4g", v)
}

// seconds has a tenth, or three digits where that would be none.
func seconds(t engine.Picoseconds) string {
	if s := t.Seconds(); s < 0.1 {
		return fmt.Sprintf("%.3g s", s)
	}
	return fmt.Sprintf("%.1f s", t.Seconds())
}

func (s simulation) poolTable() *table {
	t := newTable("pool", "replicas", "GPUs", "busy", "KV use", "KV peak", "running", "waiting", "most waiting", "preempted", "GPU-hours")
	for i, p := range s.report.Pools {
		c := s.fleet.Pools[i]
		t.row(string(p.Role), itoa(c.Replicas), itoa(c.Replicas*c.GPUs), tenths(p.Utilisation), tenths(p.KVUseMean), tenths(p.KVUsePeak),
			fmt.Sprintf("%.4g", p.RunningMean), fmt.Sprintf("%.4g", p.WaitingMean), fmt.Sprintf("%.0f", p.WaitingPeak),
			fmt.Sprint(p.Preemptions), fmt.Sprintf("%.4g", p.GPUSeconds/3600))
	}
	return t
}

// A load is too much where a request waits for longer than this share of the time in
// which all came, of so many requests at least: those before it are then what it waits
// for, and more of them would make it wait longer.
const (
	longWait       = 0.5
	enoughRequests = 10
)

// saturated says where latencies are those of how many requests there are. Of loads that
// last for longer fleet.Report says by itself that the queue grows.
func (s simulation) saturated() []profile.Warning {
	r, came := s.report, engine.FromDuration(s.load.last)
	if s.load.n < enoughRequests || came == 0 || slices.ContainsFunc(r.Warnings, func(w profile.Warning) bool { return w.Code == "saturated" }) {
		return nil
	}
	wait := engine.Picoseconds(0)
	for _, p := range r.Pools {
		if p.Wait.Count() > 0 {
			wait = max(wait, engine.Picoseconds(p.Wait.Max()))
		}
	}
	if float64(wait) <= longWait*float64(came) {
		return nil
	}
	return []profile.Warning{profile.Warnf("saturated", "%d requests came within %s (%.4g/s), but only %.4g/s were served, and one waited %s. Latencies depend on the number of requests, not on the rate; lower the rate",
		s.load.n, seconds(came), s.load.perSecond(), r.Requests, seconds(wait))}
}

// fewRequests names the percentiles that are no more than the largest figure: of fewer
// requests than 1/(1−q) none is expected beyond quantile q.
func fewRequests(r fleet.Report) []profile.Warning {
	n := r.TTFT.Count()
	if n == 0 {
		return nil
	}
	for _, p := range []struct {
		name     string
		quantile float64
	}{{"p50", 0.5}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}, {"p99.9", 0.999}} {
		if need := int64(math.Round(1 / (1 - p.quantile))); n < need {
			return []profile.Warning{profile.Warnf("few_requests", "percentiles of TTFT and E2E from %s on are at or near the maximum of %s. Simulate more: %s needs at least %[4]d", p.name, engine.Count(n, "request"), p.name, need)}
		}
	}
	return nil
}
