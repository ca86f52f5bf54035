package plots

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"plimsoll/profile"
)

// Candidate is one operating point of one configuration.
type Candidate struct {
	Label    string        // configuration: "TP:4"
	Group    string        // points of one group share a line and a look; Label where empty
	Latency  time.Duration // TTFT or ITL, at the SLA's statistic
	Low      time.Duration // interval of Latency, as the Caption says;
	High     time.Duration // both 0 where there is none
	InFlight float64       // requests in flight, averaged; 0 = not stated

	ThroughputPerGPU float64          // tokens/s/GPU
	Interval         profile.Interval // of it; both ends 0 where there is none

	Feasible bool // meets the SLA
	Picked   bool // the pick, or the nearest where nothing meets the SLA
}

// shown is the label as it is drawn beside a point.
func (c Candidate) shown() string { return shorten(clean(c.Label), 28) }

func (c Candidate) group() string {
	if c.Group != "" {
		return clean(c.Group)
	}
	return clean(c.Label)
}

// PrefillPerformance shows throughput per GPU (prompt tokens/s/GPU) against
// TTFT, one point a candidate.
func PrefillPerformance(c Caption, cs []Candidate) (*Picture, error) {
	return performance(c, cs, phase{
		title: "Prefill: throughput per GPU against TTFT",
		name:  "TTFT", sla: c.SLA.TTFT,
		throughput: "Prefill throughput (prompt tokens/s/GPU)",
		text:       Candidate.shown,
		must:       true,
	})
}

// DecodePerformance shows throughput per GPU (output tokens/s/GPU) against
// ITL: a line a group, a point an in-flight count.
func DecodePerformance(c Caption, cs []Candidate) (*Picture, error) {
	return performance(c, cs, phase{
		title: "Decode: throughput per GPU against ITL, by requests in flight",
		name:  "ITL", sla: c.SLA.ITL,
		throughput: "Decode throughput (output tokens/s/GPU)",
		text:       inFlightText,
		joined:     true,
	})
}

// AggregatedTTFT shows throughput per GPU (output tokens/s/GPU) of engines that do
// prefill and decode against TTFT under load: a line a group, a point a rate,
// which stands in InFlight, requests/s.
func AggregatedTTFT(c Caption, cs []Candidate) (*Picture, error) {
	return performance(c, cs, aggregatedPhase("TTFT", c.SLA.TTFT))
}

// AggregatedITL is AggregatedTTFT against ITL.
func AggregatedITL(c Caption, cs []Candidate) (*Picture, error) {
	return performance(c, cs, aggregatedPhase("ITL", c.SLA.ITL))
}

func aggregatedPhase(latency string, sla time.Duration) phase {
	return phase{
		title: "Aggregated: throughput per GPU against " + latency + ", by requests/s",
		name:  latency, sla: sla,
		throughput: "Throughput (output tokens/s/GPU)",
		text:       rateText,
		joined:     true,
	}
}

func rateText(k Candidate) string {
	if k.InFlight <= 0 {
		return "alone"
	}
	return number(k.InFlight) + "/s"
}

// phase is what differs between the pictures.
type phase struct {
	title, name, throughput string
	sla                     time.Duration
	text                    func(Candidate) string
	joined, must            bool
}

func inFlightText(k Candidate) string {
	if k.InFlight <= 0 {
		return ""
	}
	return "n=" + number(k.InFlight)
}

func performance(c Caption, cs []Candidate, ph phase) (*Picture, error) {
	errs := []error{c.check()}
	for _, k := range cs {
		errs = append(errs, k.check(ph.name))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("plotting %s performance: %w", ph.name, err)
	}
	ch := chart{
		caption: c, title: ph.title,
		x:      fmt.Sprintf("%s (ms, %s)", ph.name, c.against()),
		y:      ph.throughput,
		series: seriesOf(c, cs, ph),
		dots:   dotWords{"meets the SLA", "fails the SLA"},
	}
	if ph.sla > 0 {
		ch.limits = []limit{{at: ms(ph.sla), text: c.slaText(ph.name, ph.sla)}}
		ch.zones = []zone{{hi: ms(ph.sla), text: fmt.Sprintf("feasible: %s ≤ %s ms", ph.name, number(ms(ph.sla)))}}
	}
	return ch.picture(), nil
}

func (c Candidate) check(latency string) error {
	s := clean(c.Label)
	errs := []error{
		drawable(s, latency+" in ms", ms(c.Latency)),
		drawable(s, "lower end of "+latency+" in ms", ms(c.Low)),
		drawable(s, "upper end of "+latency+" in ms", ms(c.High)),
		drawable(s, "throughput per GPU", c.ThroughputPerGPU),
		drawable(s, "lower end of throughput per GPU", c.Interval.Low),
		drawable(s, "upper end of throughput per GPU", c.Interval.High),
		drawable(s, "in-flight count", c.InFlight),
	}
	if c.Low > c.High || c.Interval.Low > c.Interval.High {
		errs = append(errs, fmt.Errorf("series %q: an interval's lower end is above its upper end", s))
	}
	return errors.Join(errs...)
}

// seriesOf groups candidates in the order in which groups first appear; within
// a joined one, points go by in-flight count.
func seriesOf(c Caption, cs []Candidate, ph phase) []series {
	var names []string
	groups := map[string][]Candidate{}
	for _, k := range cs {
		g := k.group()
		if _, seen := groups[g]; !seen {
			names = append(names, g)
		}
		groups[g] = append(groups[g], k)
	}
	var out []series
	for i, n := range names {
		g := groups[n]
		if ph.joined {
			slices.SortStableFunc(g, func(a, b Candidate) int { return cmp.Compare(a.InFlight, b.InFlight) })
		}
		s := series{name: n, look: lookOf(i), joined: ph.joined}
		for j, k := range g {
			d := k.dot(c, ph)
			if ph.joined && j == len(g)-1 && !k.Picked { // the line's own end names it
				d.text, d.must = joinSet(" ", shorten(n, 28), d.text), len(names) <= 8
			}
			s.dots = append(s.dots, d)
		}
		out = append(out, s)
	}
	return out
}

func (c Candidate) dot(caption Caption, ph phase) dot {
	d := dot{
		x: ms(c.Latency), y: c.ThroughputPerGPU,
		xs: span{ms(c.Low), ms(c.High)}, ys: span{c.Interval.Low, c.Interval.High},
		text: ph.text(c), must: ph.must, solid: c.Feasible, picked: c.Picked,
	}
	if c.Picked {
		d.text = c.shown()
		if ph.joined {
			d.text = joinSet(" ", d.text, ph.text(c))
		}
		d.text = joinSet(" ", d.text, "("+caption.pickWord()+")")
	}
	return d
}
