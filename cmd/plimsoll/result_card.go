package main

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"plimsoll/capacity"
	"plimsoll/capacity/prices"
	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/profile"
	"plimsoll/profile/store"
	"plimsoll/recommend"
)

// card is a finished profile at a glance; details are added by the caller.
func (o outcome) card() card {
	rec := o.rec
	c := card{
		head:  []string{marked(rec.Provenance), shortModel(rec.Model), o.gpuWords(), fmt.Sprintf("ISL %d, OSL %d", rec.Workload.ISL, rec.Workload.OSL)},
		facts: o.facts(), table: o.cardTable(), warnings: rec.Warnings,
		page: filepath.Join(o.dir, "report.html"), last: suggestedLines(rec),
	}
	ttft, itl := o.modelErrors()
	c.below = starredBelow(rec.Warnings, ttft, itl)
	if rec.Provenance == profile.Measured {
		c.head = slices.Insert(c.head, 1, strings.TrimSpace(string(rec.Engine.Kind)+" "+rec.Engine.Version))
	} else if own := o.dep.defaults(o.opts); own != "" && o.dep.modelled() {
		c.head = append(c.head, own)
	}
	if b := o.res.Aggregated.Picked.Bracket; o.res.Partial != "" || b != nil && b.Wide() {
		c.head = append(c.head, "PARTIAL")
	}
	if rec.Feasible && rec.Simulates() {
		c.next = fmt.Sprintf("plimsoll capacity plan --profile %s --gpu-count %d", o.dir, max(o.fleet().wanted, o.dep.gpuCount))
	}
	return c
}

// shortModel is a model's name without its maker.
func shortModel(name string) string { return name[strings.LastIndex(name, "/")+1:] }

// gpuWords are the GPUs that there are.
func (o outcome) gpuWords() string {
	if o.dep.unknownGPUs {
		return "GPUs not known"
	}
	return fmt.Sprintf("%d × %s", o.dep.gpuCount, starred(cmp.Or(o.rec.GPU, "GPU"), fromDataSheet(o.rec.Warnings)))
}

// cardFleet is the fleet that a profile comes to on the GPUs that there are.
type cardFleet struct {
	recommend.Split
	prefill, decode recommend.Candidate // of aggregated engines, decode
	picks           bool                // these are the picks
	wanted          int                 // GPUs that one engine of each pick takes
	alone           float64             // requests/s that the picks carry; 0: there is no room for them
}

// fleet is how the GPUs are best shared among engines of the picks, or of other
// candidates where those carry clearly more on just these GPUs.
func (o outcome) fleet() cardFleet {
	if a := o.rec.Aggregated; a != nil {
		n := max(o.dep.gpuCount/a.GPUs, 1)
		return cardFleet{recommend.Split{Decode: n, GPUs: n * a.GPUs, RPS: float64(n) * a.SustainedRPS}, recommend.Candidate{}, o.res.Aggregated.Picked, true, a.GPUs, 0}
	}
	best := cardFleet{}
	for _, p := range bests(o.res.Prefill) {
		for _, d := range bests(o.res.Decode) {
			picks := p.Point.ID == o.res.Prefill.Picked.Point.ID && d.Point.ID == o.res.Decode.Picked.Point.ID
			a, b := recommend.Engine{GPUs: p.Point.Config.GPUs(), RPS: p.RPS}, recommend.Engine{GPUs: d.Point.Config.GPUs(), RPS: d.RPS}
			if picks {
				a.RPS, b.RPS = o.rec.Prefill.SustainedRPS, o.rec.Decode.SustainedRPS
			}
			if !p.Feasible || !d.Feasible {
				continue
			}
			s := recommend.SplitGPUs(o.dep.gpuCount, a, b)
			switch room := a.GPUs+b.GPUs <= o.dep.gpuCount; {
			case picks: // which come first
				best = cardFleet{s, p, d, true, a.GPUs + b.GPUs, s.RPS}
				if !room {
					best.alone = 0
				}
			case room && (best.GPUs > o.dep.gpuCount || s.RPS > worthSaying*best.RPS):
				best = cardFleet{s, p, d, false, best.wanted, best.alone}
			}
		}
	}
	return best
}

// facts are the answer: what to run, what it carries and costs, how far to trust it.
func (o outcome) facts() []detail {
	rec := o.rec
	if ch := o.res.Aggregated; ch.Open(o.opts.sla) {
		return []detail{{"SLA", ch.Why}}
	}
	if !rec.Feasible {
		return o.shortfall()
	}
	fleet := o.fleet()
	return slices.DeleteFunc([]detail{
		{"Use", o.useWords(fleet)},
		{"Carries", o.carriesWords(fleet)},
		{"Limit", o.limitWords()},
		{"Or", o.insteadWords(fleet)},
		{"Costs", o.costWords(fleet)},
		{"Trust", o.trustWords()},
	}, func(d detail) bool { return d.text == "" })
}

// shortfall says what nothing meets, and what could be promised.
func (o outcome) shortfall() (out []detail) {
	all := []recommend.Choice{o.res.Prefill, o.res.Decode, o.res.Aggregated}
	for _, line := range shortfallLines(all, o.opts.sla) {
		switch name, text, _ := strings.Cut(strings.TrimSpace(line), ": "); name {
		case "nearest":
			out = append(out, detail{"Nearest", text})
		case "could be promised":
			out = append(out, detail{"Promise", text})
		default:
			out = append(out, detail{"SLA", strings.TrimSpace(line)})
		}
	}
	if len(out) == 0 {
		out = append(out, detail{"SLA", unmet(o.rec).Error()})
	}
	return out
}

// useWords is the fleet.
func (o outcome) useWords(fleet cardFleet) string {
	if o.dep.unknownGPUs {
		return "the endpoint as it is"
	}
	of := fmt.Sprintf("all %s", engine.Count(fleet.GPUs, "GPU"))
	switch there := o.dep.gpuCount; {
	case o.dep.imported: // nobody said how many there are
		of = engine.Count(fleet.GPUs, "GPU")
	case fleet.GPUs > there && o.dep.kind == engine.KindEndpoint:
		of = fmt.Sprintf("%s: each engine is one like this endpoint", engine.Count(fleet.GPUs, "GPU"))
	case fleet.GPUs > there:
		of = fmt.Sprintf("%s: more than the %d there are", engine.Count(fleet.GPUs, "GPU"), there)
	case fleet.GPUs < there:
		of = fmt.Sprintf("%d of %s", fleet.GPUs, engine.Count(there, "GPU"))
	}
	switch {
	case fleet.picks:
	case fleet.alone == 0:
		of += fmt.Sprintf("; not the picks ▸ below: one engine of each needs %d", fleet.wanted)
	default:
		of += fmt.Sprintf("; not the picks ▸ below: they carry only %s/s here", plain(fleet.alone))
	}
	if o.rec.Mode == store.Aggregated {
		return fmt.Sprintf("%d × aggregated %s   (%s)", fleet.Decode, fleet.decode.Label(), of)
	}
	return fmt.Sprintf("%d × %s prefill + %d × %s decode   (%s)", fleet.Prefill, fleet.prefill.Label(), fleet.Decode, fleet.decode.Label(), of)
}

// carriesWords are the rates of the fleet, each with what it promises.
func (o outcome) carriesWords(fleet cardFleet) string {
	s := fmt.Sprintf("%s/s with %s", plain(fleet.RPS), o.rec.SLA.SLA())
	switch p := o.rec.Aggregated; {
	case p == nil || p.RateInterval.Low == 0:
	case p.RateInterval.High == 0:
		s = fmt.Sprintf("%s/s or more, with %s", plain(fleet.RPS), o.rec.SLA.SLA())
	default:
		s = fmt.Sprintf("%s/s, at most %s/s, with %s", plain(fleet.RPS), plain(float64(fleet.Decode)*p.RateInterval.High), o.rec.SLA.SLA())
	}
	most := math.Inf(1)
	for p, n := range map[*store.Pick]int{o.rec.Prefill: fleet.Prefill, o.rec.Decode: fleet.Decode, o.rec.Aggregated: fleet.Decode} {
		if p != nil {
			most = min(most, float64(n)*p.MostRPS)
		}
	}
	if most > 0 && fleet.picks {
		s += fmt.Sprintf("; %s/s with %g %% of requests within each", plain(most), 100*profile.MostRequests)
	}
	return s
}

// limitWords say that the client ended a search, not the SLA; empty where none did.
func (o outcome) limitWords() string {
	for _, ch := range []recommend.Choice{o.res.Decode, o.res.Aggregated} {
		if strings.Contains(ch.Picked.Ended, field.MaxInFlight) {
			return fmt.Sprintf("your --max-in-flight %d ended the %s search, not the SLA", ch.Picked.Point.Cap, ch.Phase)
		}
	}
	return ""
}

// worthSaying is how much more the other mode has to carry for the answer to name it.
const worthSaying = 1.05

// insteadWords are the fleet of the other mode where that carries more on these GPUs: up to
// the rate that short trials find, for a profile of that mode may end below it.
func (o outcome) insteadWords(fleet cardFleet) string {
	a, ok := o.rec.Instead()
	if !ok {
		return ""
	}
	n := o.dep.gpuCount / a.GPUs
	rps := float64(n) * a.RPS
	if n > 0 && fleet.GPUs > o.dep.gpuCount {
		return fmt.Sprintf("%d × %s %s on %s: up to %s/s (%s)   → --mode %s", n, a.Mode, a.Label, engine.Count(n*a.GPUs, "GPU"), plain(floored(rps)), a.Provenance, a.Mode)
	}
	if rps < worthSaying*fleet.RPS {
		return ""
	}
	return fmt.Sprintf("%d × %s %s: up to %s/s, up to %.0f %% more on these %s (%s)   → --mode %s", n, a.Mode, a.Label, plain(floored(rps)), math.Floor(100*(rps/fleet.RPS-1)), engine.Count(o.dep.gpuCount, "GPU"), a.Provenance, a.Mode)
}

// floored is x > 0 rounded down to three digits.
func floored(x float64) float64 {
	unit := math.Pow10(int(math.Floor(math.Log10(x))) - 2)
	return math.Floor(x/unit) * unit
}

// costWords are what the fleet costs by list prices; empty where the GPU has none.
func (o outcome) costWords(fleet cardFleet) string {
	table, err := prices.Default()
	if err != nil || o.rec.GPU == "" {
		return ""
	}
	p, d := fleet.prefill.Point.Config, fleet.decode.Point.Config
	largest := max(p.Nodes.Of(p.GPUs()), d.Nodes.Of(d.GPUs()))
	offer := money{table: table, kind: prices.OnDemand}.of(o.rec.GPU, largest)
	if !offer.usd.Known() {
		return fmt.Sprintf("no price of %s is known: capacity plan --cost-per-gpu-hour takes yours", o.rec.GPU)
	}
	billed, whole := fleet.GPUs, ""
	if n := offer.instance; n > 1 && billed%n > 0 {
		billed += n - billed%n
		whole = fmt.Sprintf(", for the %d GPUs of whole instances", billed)
	}
	hourly := offer.usd * capacity.USD(billed)
	per := float64(hourly) / (fleet.RPS * float64(o.rec.Workload.OSL) * time.Hour.Seconds()) * 1e6
	return fmt.Sprintf("$%s/h, $%s per 1M output tokens%s   (%s)", amount(hourly), amount(per), whole, offer.words())
}

// modelErrors are of the latency model behind the picks; zero = not known.
func (o outcome) modelErrors() (ttft, itl profile.ModelError) {
	if a := o.rec.Aggregated; a != nil {
		return aggregatedTTFTError(o.res), a.ModelError
	}
	return o.rec.Prefill.ModelError, o.rec.Decode.ModelError
}

// trustWords say how far off the figures may be.
func (o outcome) trustWords() string {
	rec := o.rec
	switch known := errorWords(o.modelErrors()); {
	case known != "":
		return known + "   → --engine vllm measures"
	case rec.Provenance != profile.Measured:
	case rec.Mode == store.Disaggregated && slices.ContainsFunc(rec.Picks(), func(p store.Picked) bool { return p.Run == nil }):
		return "latencies are measured on this engine; rates are computed from them   → --verify always measures them"
	default:
		return "measured on this engine; --details has the 95 % intervals"
	}
	return rec.Provenance.String() + "; its error is unknown"
}

// mostLosers is how many candidates of a phase the card shows beside the pick.
const mostLosers = 3

// cardTable has the pick of each phase, and why the others are not.
func (o outcome) cardTable() *table {
	t := newTable("", "", "per engine", "tokens/s/GPU", "why")
	t.words = len(t.head) - 1
	for _, ch := range []recommend.Choice{o.res.Prefill, o.res.Decode, o.res.Aggregated} {
		if ch.Phase == "" {
			continue // of the other mode
		}
		name := string(ch.Phase)
		row := func(mark, label, rate, value, why string) {
			t.row(name, mark+label, rate, value, why)
			name = ""
		}
		best := bests(ch)
		for i, c := range best[:min(len(best), mostLosers+1)] {
			mark, words := "  ", o.loserWords
			if i == 0 {
				mark, words = "▸ ", o.pickWords
			}
			row(mark, c.Label(), o.rateWords(ch, c), thousands(o.valueOf(ch, c)), words(ch, c))
		}
		shown := len(best) - 1
		for _, s := range o.res.Skips {
			if s.Phase != ch.Phase && s.Phase != "" {
				continue
			}
			if shown++; shown <= mostLosers {
				row("  ", s.Label, "–", "–", shortened(s.Reason))
			}
		}
		if n := shown - mostLosers; n > 0 {
			row("  ", fmt.Sprintf("and %d more", n), "", "", "")
		}
	}
	if a, ok := o.rec.Instead(); ok {
		t.row(string(a.Mode), "  "+a.Label, plain(a.RPS)+"/s", thousands(a.RPSPerGPU*float64(o.rec.Workload.OSL)), lessWords(a))
	}
	return t
}

// lessWords compare the other mode with the picks.
func lessWords(a store.Alternative) string {
	switch less := 100 * a.Less(); {
	case a.PickRPSPerGPU <= 0:
		return a.Provenance.String()
	case less < 0:
		return fmt.Sprintf("%.0f %% more requests/s per GPU than the picks in a large fleet (%s)", -less, a.Provenance)
	default:
		return fmt.Sprintf("%.0f %% fewer requests/s per GPU than the picks in a large fleet (%s)", less, a.Provenance)
	}
}

// bests are the candidates of a choice, one for each configuration, the pick first.
func bests(ch recommend.Choice) (out []recommend.Candidate) {
	all := slices.Clone(ch.All)
	of := func(c recommend.Candidate) float64 {
		switch {
		case c.Point.ID == ch.Picked.Point.ID:
			return math.Inf(1)
		case c.Feasible:
			return c.Value(ch.Rank)
		}
		return -float64(c.Point.InFlight) // of those that miss, the one nearest to holding
	}
	slices.SortStableFunc(all, func(a, b recommend.Candidate) int { return cmp.Compare(of(b), of(a)) })
	for _, c := range all {
		if !slices.ContainsFunc(out, func(o recommend.Candidate) bool { return o.Label() == c.Label() }) {
			out = append(out, c)
		}
	}
	return out
}

// valueOf is what a candidate carries per GPU, in tokens/s: at the rate beside it where it
// was ranked by that, or was imported and not ranked.
func (o outcome) valueOf(ch recommend.Choice, c recommend.Candidate) float64 {
	if o.dep.imported {
		return c.Sustained
	}
	return c.Value(ch.Rank)
}

// rateWords is what one engine carries.
func (o outcome) rateWords(ch recommend.Choice, c recommend.Candidate) string {
	rps := c.RPS
	if p := o.rec.PhasePick(ch.Phase); c.Point.ID == ch.Picked.Point.ID && p != nil {
		rps = p.SustainedRPS
	}
	if !c.Feasible || rps <= 0 {
		return "–"
	}
	return plain(rps) + "/s"
}

// pickWords say at what load the pick is, what ends it there, and what it did under load.
func (o outcome) pickWords(ch recommend.Choice, pick recommend.Candidate) string {
	var out []string
	switch ch.Phase {
	case profile.Prefill: // one prompt at a time
	case profile.Aggregated: // its load counts those that wait for a place
		out = append(out, cmp.Or(pick.Ended, pick.Elsewhere(o.opts.sla), shownInFlight(pick.Point)+" in flight"))
	case profile.Decode:
		s := shownInFlight(pick.Point) + " in flight"
		miss := math.Inf(1)
		for _, c := range ch.All {
			if c.Label() == pick.Label() && pick.Feasible && !c.Feasible {
				miss = min(miss, inFlight(c.Point))
			}
		}
		if !math.IsInf(miss, 0) {
			s += fmt.Sprintf("; %.4g miss ITL", miss)
		}
		out = append(out, pick.WithEnd(s))
	}
	if p := o.rec.PhasePick(ch.Phase); p != nil && p.UnderLoad != nil && ch.Feasible {
		out = append(out, loadVerdict(p))
	}
	return strings.Join(out, "; ")
}

// loserWords say what a candidate lost by.
func (o outcome) loserWords(ch recommend.Choice, c recommend.Candidate) string {
	switch best := ch.Picked.Value(ch.Rank); {
	case c.Feasible && ch.Feasible && c.Value(ch.Rank) > 0.995*best:
		return c.WithEnd("as much per GPU")
	case c.Feasible && ch.Feasible && best > 0:
		return c.WithEnd(fmt.Sprintf("%.0f %% less per GPU", 100*(1-c.Value(ch.Rank)/best)))
	}
	return shortened(verdict(ch, c, o.opts.sla))
}

// mostRunes is the longest reason on a card: --details has it whole.
const mostRunes = 64

// shortened is the beginning of a reason.
func shortened(text string) string {
	text = firstLine(text)
	if runes := []rune(text); len(runes) > mostRunes {
		cut := string(runes[:mostRunes])
		return strings.TrimRight(cut[:max(strings.LastIndex(cut, " "), 1)], " ,;:") + " …"
	}
	return text
}

// thousands is a whole number with commas; "–" for none.
func thousands(x float64) string {
	if !(x > 0) {
		return "–"
	}
	s := strconv.FormatFloat(math.Round(x), 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
