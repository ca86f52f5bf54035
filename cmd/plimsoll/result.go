package main

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
	"plimsoll/profile/store"
	"plimsoll/recommend"
)

// outputState says what a run into dir would meet.
func outputState(dir string) (string, error) {
	st, err := store.Inspect(dir)
	if err != nil {
		return "", err
	}
	switch st {
	case store.OurRun:
		return dir + " holds a run: --resume continues it, --force moves it aside", nil
	case store.Foreign:
		return dir + " holds something else and would be refused", nil
	case store.Absent, store.Empty:
	}
	return dir, nil
}

// result prints a finished profile; with JSON, recommendation.json itself.
func (u *console) result(out outcome) error {
	var why []explanation
	if u.opts.explain {
		var err error
		if why, err = out.dep.explain(out.opts, out.res.Prefill, out.res.Decode); err != nil {
			return err
		}
	}
	switch {
	case u.opts.format == "json" && u.opts.explain:
		return printJSON(u.out, explained{out.rec, why})
	case u.opts.format == "json":
		return printJSON(u.out, out.rec)
	}
	c, b := out.card(), &bytes.Buffer{}
	explainTables(b, why)
	if u.opts.details {
		u.details(b, out)
	}
	c.details = b.String()
	return show(u.out, c.text())
}

// details is all that the card leaves out.
func (u *console) details(b *bytes.Buffer, out outcome) {
	rec := out.rec
	fmt.Fprintf(b, "\n%s on %d × %s, %s\n", rec.Model, out.dep.gpuCount, cmp.Or(rec.GPU, "GPU"), strings.TrimSpace(string(rec.Engine.Kind)+" "+rec.Engine.Version))
	fmt.Fprintf(b, "Target: ISL %d, OSL %d, %s\n", rec.Workload.ISL, rec.Workload.OSL, rec.SLA.SLA())
	if rec.Mode == store.Aggregated {
		aggregatedTable(b, out)
	} else {
		prefillTable(b, out)
		decodeTable(b, out)
	}
	for _, s := range out.res.Skips {
		fmt.Fprintf(b, "  left out: %s\n", strings.TrimSpace(string(s.Phase)+" "+s.Label+": "+s.Reason))
	}
	footer(b, out)
	for _, note := range u.notes {
		fmt.Fprintf(b, "Note: %s\n", note)
	}
}

func prefillTable(b *bytes.Buffer, out outcome) {
	fmt.Fprintf(b, "\nPrefill at ISL %d (%s)\n", out.opts.isl, out.res.Prefill.Picked.Point.Provenance)
	t := newTable("config", "GPUs", "TTFT ms", "tokens/s/GPU", "sustained/GPU", "verdict")
	ch := out.res.Prefill
	for _, c := range ch.All {
		t.row(c.Label(), itoa(c.Point.Config.GPUs()), plusMinus(c.Point, out.opts.sla),
			fmt.Sprintf("%.2f", c.Point.ThroughputPerGPU), fmt.Sprintf("%.0f", c.Sustained), out.verdict(ch, c))
	}
	b.WriteString(t.text("  "))
	belowTable(b, ch)
}

func decodeTable(b *bytes.Buffer, out outcome) {
	fmt.Fprintf(b, "\nDecode at ISL %d, OSL %d (%s)\n", out.opts.isl, out.opts.osl, out.res.Decode.Picked.Point.Provenance)
	t := newTable("config", "GPUs", "in flight", "KV use", "ITL ms", "tokens/s/GPU", "sustained/GPU", "verdict")
	ch := out.res.Decode
	for _, c := range byLoad(ch.All) {
		t.row(c.Label(), itoa(c.Point.Config.GPUs()), shownInFlight(c.Point), fmt.Sprintf("%.1f %%", 100*c.Point.KVUsage),
			plusMinus(c.Point, out.opts.sla), fmt.Sprintf("%.2f", c.Point.ThroughputPerGPU), fmt.Sprintf("%.0f", c.Sustained), out.verdict(ch, c))
	}
	b.WriteString(t.text("  "))
	belowTable(b, ch)
}

// askedWithin is how near the requests in flight are to what was asked for where
// that is shown: their mean over a window is never exactly it.
const askedWithin = 0.01

// inFlight is how many requests are said to have been in flight: as many as were
// asked for, or the mean that was seen where it is another.
func inFlight(p profile.Point) float64 {
	if asked := float64(p.Asked); p.Rate == 0 && math.Abs(p.InFlight-asked) <= askedWithin*asked {
		return asked
	}
	return p.InFlight
}

// shownInFlight is inFlight in a table: whole where it was asked for.
func shownInFlight(p profile.Point) string {
	if n := inFlight(p); n == float64(p.Asked) {
		return itoa(p.Asked)
	}
	return fmt.Sprintf("%.1f", p.InFlight)
}

// byLoad orders candidates by size, at one size TP before TEP before DEP as
// elsewhere, then by load, whatever order the search measured them in.
func byLoad(cs []recommend.Candidate) []recommend.Candidate {
	return slices.SortedStableFunc(slices.Values(cs), func(a, b recommend.Candidate) int {
		p, q := a.Point.Config.Parallelism.Normal(), b.Point.Config.Parallelism.Normal()
		return cmp.Or(cmp.Compare(p.GPUs(), q.GPUs()), cmp.Compare(p.DP, q.DP), cmp.Compare(p.EP, q.EP), cmp.Compare(p.PP, q.PP),
			cmp.Compare(a.Point.InFlight, b.Point.InFlight))
	})
}

// plusMinus is a latency with its interval: by both ends where they are not as far off,
// as those of percentiles and of a model's error.
func plusMinus(p profile.Point, s profile.SLA) string {
	l, i := profile.Milliseconds(p.Latency(s)), p.LatencyInterval(s)
	low, high := i.Low/float64(time.Millisecond), i.High/float64(time.Millisecond)
	switch even := math.Abs(low+high-2*l) < 0.005; { // as far as is shown
	case i.High <= 0:
		return fmt.Sprintf("%.2f", l)
	case even && !p.ModelError.Known():
		return fmt.Sprintf("%.2f ± %.2f", l, high-l)
	default:
		return fmt.Sprintf("%.2f (%.2f to %.2f)", l, low, high)
	}
}

// verdict is one cell of the tables, the pick's with what it did under load.
func (o outcome) verdict(ch recommend.Choice, c recommend.Candidate) string {
	v := verdict(ch, c, o.opts.sla)
	if load := loadVerdict(o.rec.PhasePick(ch.Phase)); load != "" && c.Point.ID == ch.Picked.Point.ID {
		v += "; " + load
	}
	return v
}

// verdict is the same without the load: picked and why, or what the candidate lost by.
func verdict(ch recommend.Choice, c recommend.Candidate, sla profile.SLA) string {
	switch {
	case c.Point.ID == ch.Picked.Point.ID && ch.Feasible:
		return "picked: " + ch.Why
	case c.Point.ID == ch.Picked.Point.ID:
		if s, short := ch.Shortfall(sla); short && ch.Why == s.String() {
			return "nearest: " + s.Nearest()
		}
		return "nearest: " + ch.Why
	case ch.Phase == profile.Aggregated && c.Feasible && !c.Point.Load.Surely(c.Point.Phase, sla):
		return c.WithEnd("held, undecided") // by its interval another load might miss, or it has none
	case ch.Phase == profile.Aggregated && c.Feasible:
		return c.WithEnd("holds") // at a lower rate, or in another configuration
	case ch.Phase == profile.Aggregated:
		return ch.LostAggregated(c, sla).Reason
	}
	best := ch.Picked.Value(ch.Rank)
	if v := c.Value(ch.Rank); c.Feasible && ch.Feasible && (v < best || v == best && c.Point.Config == ch.Picked.Point.Config) {
		kind := "" // the full reason is in recommendation.json
		if ch.Rank == recommend.BySustained {
			kind = "sustained "
		}
		return c.WithEnd(fmt.Sprintf("-%.0f %% %sthroughput per GPU", 100*(1-v/best), kind))
	}
	return ch.Lost(c, sla).Reason
}

func footer(b *bytes.Buffer, out outcome) {
	fmt.Fprintf(b, "\nAssumed:\n")
	for _, a := range out.rec.Assumptions {
		fmt.Fprintf(b, "  - %s\n", a)
	}
	for _, line := range verifiedLines(out.rec) {
		fmt.Fprintln(b, line)
	}
	if as := out.rec.Verified.All(); len(as) > 0 {
		fmt.Fprintf(b, "  by %s\n", as[0].Load)
	}
	for _, line := range recommendedLines(out.rec) {
		fmt.Fprintln(b, line)
	}
	if hasSurfaces(out.res) {
		fmt.Fprintf(b, "Surfaces: %s at %s, %s at %s\n", engine.Count(len(out.res.PrefillSurface.Samples), "prefill point"), out.rec.PickOf(engine.RolePrefill).Label,
			engine.Count(len(out.res.DecodeSurface.Samples), "decode point"), out.rec.PickOf(engine.RoleDecode).Label)
	}
	if out.dep.kind == engine.KindEstimate {
		fmt.Fprintf(b, "Computed: %s in virtual time, by the latency model's fit %s\n", engine.Count(out.res.Cost.Requests, "request"), out.dep.fit.Name)
	}
	costLine(b, out.res.Cost, out.dep.kind)
	if out.rec.Mode == store.Aggregated {
		stageLine(b, out.stages)
	}
	if out.dep.kind == engine.KindSim {
		fmt.Fprintf(b, "Simulated: steps take the time of the latency model's fit %s\n", out.dep.fit.Name)
	}
	if out.dep.modelled() {
		modelErrors(b, out)
	}
	clientLine(b, out.self)
	fmt.Fprintf(b, "Files: %s\n", out.dir)
}

// modelErrors says how far off the latency model behind the picks may be.
func modelErrors(b *bytes.Buffer, out outcome) {
	rec := out.rec
	if rec.Mode == store.Aggregated {
		fmt.Fprintf(b, "Model error of TTFT: %s\n", aggregatedTTFTError(out.res).Words())
		fmt.Fprintf(b, "Model error of ITL: %s\n", rec.Aggregated.ModelError.Words())
		return
	}
	fmt.Fprintf(b, "Model error of TTFT and prefill throughput: %s\n", rec.Prefill.ModelError.Words())
	fmt.Fprintf(b, "Model error of ITL and decode throughput: %s\n", rec.Decode.ModelError.Words())
}
