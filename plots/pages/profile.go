package pages

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"plimsoll/profile"
	"plimsoll/recommend"
)

// Profile is what was measured of an engine, and what is picked of it for an SLA
// that the reader may change.
type Profile struct {
	Origin

	SLA      profile.SLA // of the profile; its statistic holds for others too
	Rank     recommend.Rank
	ISL, OSL int     // tokens
	USD      float64 // of a GPU-hour; 0: not known

	// Points are those that the pick was made of: of the sweep, without
	// configurations that were left out.
	Points []profile.Point
	// TTFTErrors are of the latency model behind aggregated engines' TTFT, by slug:
	// their points have that of ITL.
	TTFTErrors map[string]profile.ModelError
	Prefill    profile.PrefillSurface // at the pick; empty where there is none
	Decode     profile.DecodeSurface  // likewise

	Ending Ending // for its own SLA

	LeftOut     []Fact // configurations, and why
	Verified    []string
	Assumptions []string
}

// Ending is what a profile comes to for its own SLA.
type Ending struct {
	Infeasible  string   // the picks are no answer, and why; empty: they are one
	Shortfall   []string // by what they miss, and what could be promised
	Suggested   []string // rates and bounds
	Recommended map[profile.Phase]Recommended
}

// Recommended is a pick at the rate that it is recommended at.
type Recommended struct {
	Rate     float64 `json:"rate"`     // requests/s of one engine; 0: not known, or none holds
	Verified string  `json:"verified"` // its latencies under a load; empty: there was none
	Missed   bool    `json:"missed"`   // that load missed the SLA
	// UnderLoad is the verdict on that load: how many requests missed a limit.
	UnderLoad string `json:"under_load"`
}

// HTML is the page.
func (p Profile) HTML() ([]byte, error) {
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("page %q: %w", p.Title, err)
	}
	d, err := p.data()
	if err != nil {
		return nil, fmt.Errorf("page %q: %w", p.Title, err)
	}
	kind := page{template: "profile.html", scripts: []string{"format.js", "svg.js", "table.js", "xy.js", "profile.js"}}
	return kind.html(p.Origin, d, p.body(d))
}

func (p Profile) check() error {
	if p.SLA.TTFT <= 0 || p.SLA.ITL <= 0 {
		return fmt.Errorf("an SLA of TTFT %v and ITL %v: want both above 0", p.SLA.TTFT, p.SLA.ITL)
	}
	if p.Rank != recommend.BySingle && p.Rank != recommend.BySustained {
		return fmt.Errorf("rank %q: want %s or %s", p.Rank, recommend.BySustained, recommend.BySingle)
	}
	if p.ISL <= 0 || p.OSL <= 0 {
		return fmt.Errorf("ISL %d and OSL %d: want both above 0", p.ISL, p.OSL)
	}
	if math.IsNaN(p.USD) || math.IsInf(p.USD, 0) || p.USD < 0 {
		return fmt.Errorf("%v USD for a GPU-hour: want 0 or more", p.USD)
	}
	if len(p.Points) == 0 {
		return errors.New("no points: want those that the pick was made of")
	}
	return nil
}

// profileData is what the page's script shows and draws.
type profileData struct {
	Aggregated  bool                          `json:"aggregated"`
	SLA         limits                        `json:"sla"` // of the profile: where in Limits
	Limits      limitsOf                      `json:"limits"`
	Stops       stopsOf                       `json:"stops"`
	Picks       picks                         `json:"picks"`
	Answers     []answer                      `json:"answers"`
	Stat        string                        `json:"stat"`
	ISL         int                           `json:"isl"`
	OSL         int                           `json:"osl"`
	USD         float64                       `json:"usd"`
	Recommended map[profile.Phase]Recommended `json:"recommended"`
	Candidates  []candidateData               `json:"candidates"`
	Prefill     [][3]float64                  `json:"prefill"` // ISL, TTFT ms, tokens/s/GPU
	Decode      [][4]float64                  `json:"decode"`  // KV use, context, ITL ms, tokens/s/GPU
}

// limits are two places in limitsOf.
type limits struct {
	TTFT int `json:"ttft"`
	ITL  int `json:"itl"`
}

// candidateData is a point as it is shown.
type candidateData struct {
	ID         string        `json:"id"`
	Phase      profile.Phase `json:"phase"`
	Label      string        `json:"label"`
	GPUs       int           `json:"gpus"`
	InFlight   float64       `json:"in_flight"`
	Rate       float64       `json:"rate"`
	TTFT       time.Duration `json:"ttft_ns"` // by the SLA's statistic; 0: none
	ITL        time.Duration `json:"itl_ns"`  // likewise
	Throughput float64       `json:"throughput"`
	// Where the figures may be, ms and tokens/s/GPU; null: not known.
	InTTFT       *[2]float64 `json:"in_ttft"`
	InITL        *[2]float64 `json:"in_itl"`
	InThroughput *[2]float64 `json:"in_throughput"`
	Bar          bool        `json:"bar"` // a chart shows the throughput's
}

func (p Profile) data() (profileData, error) {
	d := profileData{
		Stat: string(p.SLA.Stat), ISL: p.ISL, OSL: p.OSL, USD: p.USD,
		Recommended: p.Ending.Recommended, Candidates: []candidateData{}, Prefill: [][3]float64{}, Decode: [][4]float64{},
	}
	for _, x := range p.Points {
		c := p.candidate(x)
		c.Bar, c.InThroughput = p.barred(x), pair(throughputOf(x).In)
		c.InTTFT, c.InITL = pair(p.latencyOf(x, "TTFT").In), pair(p.latencyOf(x, "ITL").In)
		for _, v := range []float64{c.InFlight, c.Rate, c.Throughput} {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return d, fmt.Errorf("point %s has %v: want finite numbers", x.ID, v)
			}
		}
		d.Aggregated = d.Aggregated || x.Phase == profile.Aggregated
		d.Candidates = append(d.Candidates, c)
	}
	if d.Aggregated && slices.ContainsFunc(p.Points, func(x profile.Point) bool { return x.Phase != profile.Aggregated }) {
		return d, errors.New("points of aggregated engines and of others: want one kind")
	}
	for _, s := range p.Prefill.Samples {
		d.Prefill = append(d.Prefill, [3]float64{float64(s.ISL), profile.Milliseconds(s.TTFT), s.ThroughputPerGPU})
	}
	for _, s := range p.Decode.Samples {
		d.Decode = append(d.Decode, [4]float64{s.KVUsage, s.Context, profile.Milliseconds(s.ITL), s.ThroughputPerGPU})
	}
	p.answer(&d)
	return d, nil
}

func (p Profile) candidate(x profile.Point) candidateData {
	c := candidateData{ID: x.ID, Phase: x.Phase, Label: x.Config.Label(), GPUs: x.Config.GPUs(), InFlight: x.InFlight, Rate: x.Rate, Throughput: x.ThroughputPerGPU}
	switch {
	case x.Phase == profile.Prefill:
		c.TTFT = x.Latency(p.SLA)
	case x.Phase == profile.Decode:
		c.ITL = x.Latency(p.SLA)
	case x.Load != nil:
		c.TTFT, c.ITL = x.Load.TTFT.At(p.SLA.Stat), x.Load.TPOT.At(p.SLA.Stat)
	}
	return c
}

// quantity is a figure, and where it may be; the zero interval: not known.
type quantity struct {
	Value float64
	In    profile.Interval
}

// text is the figure with its interval.
func (q quantity) text() string {
	switch {
	case q.Value <= 0:
		return "–"
	case q.In.High <= 0:
		return number(q.Value)
	}
	return fmt.Sprintf("%s (%s to %s)", number(q.Value), number(q.In.Low), number(q.In.High))
}

// latencyOf is a point's latency by the SLA's statistic, ms.
func (p Profile) latencyOf(x profile.Point, name string) quantity {
	c := p.candidate(x)
	l, i, off := c.ITL, x.LatencyInterval(p.SLA), x.ModelError
	if name == "TTFT" {
		l = c.TTFT
	}
	if own, ok := p.TTFTErrors[x.Config.Slug()]; ok && name == "TTFT" && x.Phase == profile.Aggregated {
		off = own
	}
	if x.Phase == profile.Aggregated && !x.ModelError.Known() && x.Load != nil {
		i = x.Load.TTFT.Interval(p.SLA.Stat)
		if name == "ITL" {
			i = x.Load.TPOT.Interval(p.SLA.Stat)
		}
	}
	if off.Known() {
		i = off.Around(float64(l))
	}
	ms := float64(time.Millisecond)
	return quantity{profile.Milliseconds(l), profile.Interval{Low: i.Low / ms, High: i.High / ms}}
}

func throughputOf(x profile.Point) quantity {
	return quantity{x.ThroughputPerGPU, x.ThroughputInterval()}
}

// loadOf is a candidate's load in words.
func loadOf(c candidateData) string {
	if c.Rate > 0 {
		return number(c.Rate) + " requests/s"
	}
	return number(c.InFlight) + " in flight"
}

// barred reports whether a chart shows where a point's throughput may be: a model's
// error is one factor everywhere, whose bars would cover each other but for the pick's.
func (p Profile) barred(x profile.Point) bool {
	if !x.ModelError.Known() {
		return true
	}
	ch, ok := p.picked(x.Phase)
	return ok && ch.Picked.Point.ID == x.ID
}

// pair is an interval as a script takes it; nil where it is not known.
func pair(i profile.Interval) *[2]float64 {
	if !(i.High > 0) || math.IsInf(i.High, 0) || math.IsNaN(i.Low) {
		return nil
	}
	return &[2]float64{i.Low, i.High}
}
