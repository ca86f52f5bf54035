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
	Points  []profile.Point
	Prefill profile.PrefillSurface // at the pick; empty where there is none
	Decode  profile.DecodeSurface  // likewise

	LeftOut     []Fact                     // configurations, and why
	Dropped     map[profile.Phase][]string // of them, those that a phase was not measured of
	Verified    []string
	Assumptions []string
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
	if p.Rank != recommend.ByThroughput && p.Rank != recommend.BySustained {
		return fmt.Errorf("rank %q: want %s or %s", p.Rank, recommend.ByThroughput, recommend.BySustained)
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
	Aggregated bool            `json:"aggregated"`
	SLA        limits          `json:"sla"` // of the profile: where in Limits
	Limits     limitsOf        `json:"limits"`
	Stops      stopsOf         `json:"stops"`
	Picks      picks           `json:"picks"`
	Answers    []answer        `json:"answers"`
	Stat       string          `json:"stat"`
	ISL        int             `json:"isl"`
	OSL        int             `json:"osl"`
	USD        float64         `json:"usd"`
	Candidates []candidateData `json:"candidates"`
	Prefill    [][3]float64    `json:"prefill"` // ISL, TTFT ms, tokens/s/GPU
	Decode     [][4]float64    `json:"decode"`  // KV use, context, ITL ms, tokens/s/GPU
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
}

func (p Profile) data() (profileData, error) {
	d := profileData{
		Stat: p.SLA.By(), ISL: p.ISL, OSL: p.OSL, USD: p.USD,
		Candidates: []candidateData{}, Prefill: [][3]float64{}, Decode: [][4]float64{},
	}
	for _, x := range p.Points {
		c := p.candidate(x)
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
	c := candidateData{ID: x.ID, Phase: x.Phase, Label: x.Config.Parallelism.Label(), GPUs: x.Config.GPUs(), InFlight: x.InFlight, Rate: x.Rate, Throughput: x.ThroughputPerGPU}
	switch {
	case x.Phase == profile.Prefill:
		c.TTFT = x.Latency(p.SLA)
	case x.Phase == profile.Decode:
		c.ITL = x.Latency(p.SLA)
	case x.Load != nil:
		c.TTFT, c.ITL = x.Load.TTFT.At(p.SLA.Stat), x.Load.ITLAt(p.SLA)
	}
	return c
}
