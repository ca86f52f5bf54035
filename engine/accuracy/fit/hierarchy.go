package main

import (
	"math"
	"slices"
	"strings"

	"plimsoll/engine"
	"plimsoll/engine/accuracy"
	"plimsoll/engine/latency"
)

// fitsOf are the fits, the default first.
var fitsOf = []string{"vllm", "vllm-0.12", "trtllm", "sglang"}

// fitOf is the fit that a row is for: vLLM schedules ahead since 0.14.
func fitOf(p point) string {
	if p.row.Config.Kind == engine.KindVLLM && strings.HasPrefix(p.row.Version, "0.12") {
		return "vllm-0.12"
	}
	return string(p.row.Config.Kind)
}

func modelOf(p point) string { return p.row.Model.Name }
func groupOf(p point) string { return p.row.Group() }

func versionOf(p point) string { return p.row.Version }

// How many rows count at the most: of a model in the fit of an engine, of a group in
// that of a model, and in its own.
const (
	ofEngine = 3
	ofModel  = 10
	ofGroup  = 20
)

// level is what was known of a group whose rows were held out.
type level int

const (
	model   level = iota // nothing of its model
	group                // other groups of its model
	version              // its rows and all others, but none of that version of the engine
	half                 // half of its own layouts and loads
	tables               // as group, but no kernel of its GPU
	six                  // as model, then calibrated on six points of it
	numLevels
)

// held is the residuals of one group by level, as tangent has them.
type held struct {
	group string
	row   accuracy.Row // one of them
	said  []string     // versions of the engine
	r     [numLevels]accuracy.Residuals
}

// study is the fit of one engine and its errors.
type study struct {
	name string
	t    tangent
	x    []float64 // of the engine
	held []*held
	fit  latency.Fit
}

// studies fits all engines.
func studies(all []point) []*study {
	var out []*study
	for _, name := range fitsOf {
		s := &study{name: name}
		ps := slices.DeleteFunc(slices.Clone(all), func(p point) bool { return fitOf(p) != name })
		every := where(ps, func(point) bool { return true })
		s.x = physical(name).center
		for range 3 {
			s.t = tangentAt(ps, s.x)
			s.x = s.t.solve(physical(name), every, modelOf, ofEngine)
		}
		s.t = tangentAt(ps, s.x)
		s.fitAll()
		out = append(out, s)
	}
	return out
}

func where(ps []point, ok func(point) bool) (in []int) {
	for i, p := range ps {
		if ok(p) {
			in = append(in, i)
		}
	}
	return in
}

func pick(ps []point, in []int) (out []point) {
	for _, i := range in {
		out = append(out, ps[i])
	}
	return out
}

func names(ps []point, of func(point) string) (out []string) {
	for _, p := range ps {
		if n := of(p); !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

// fitAll fits the engine's models and groups.
func (s *study) fitAll() {
	engine, old, _ := strings.Cut(s.name, "-")
	if old != "" {
		old = "0.14"
	}
	s.fit = latency.Fit{Name: s.name, Engine: engine, Before: old, Source: source, Coefficients: latency.FromLogs(s.x)}
	for _, p := range s.t.ps {
		s.fit.Longest = max(s.fit.Longest, p.row.ISL+p.row.OSL)
		if p.row.TTFT > 0 {
			s.fit.LongestTTFT = max(s.fit.LongestTTFT, p.row.ISL)
		}
	}
	for _, m := range names(s.t.ps, modelOf) {
		of := where(s.t.ps, func(p point) bool { return modelOf(p) == m })
		rest := where(s.t.ps, func(p point) bool { return modelOf(p) != m })
		xm := s.t.solve(within(s.name, s.x), of, groupOf, ofModel)
		without := s.t.solve(physical(s.name), rest, modelOf, ofEngine)
		s.fit.Groups = append(s.fit.Groups, latency.Group{Model: m, Rows: len(of), Versions: said(pick(s.t.ps, of)), Coefficients: latency.FromLogs(xm)})
		for _, g := range names(pick(s.t.ps, of), groupOf) {
			s.fit.Groups = append(s.fit.Groups, s.group(g, of, without, xm))
		}
	}
}

// group is the fit of one group of a model, whose residuals it holds out.
func (s *study) group(name string, of []int, without, xm []float64) latency.Group {
	in := slices.DeleteFunc(slices.Clone(of), func(i int) bool { return groupOf(s.t.ps[i]) != name })
	kin := slices.DeleteFunc(slices.Clone(of), func(i int) bool { return groupOf(s.t.ps[i]) == name })
	ps := pick(s.t.ps, in)
	h := &held{group: name, row: ps[0].row, said: said(ps)}
	h.r[model] = residuals(ps, without)
	known := without
	if len(kin) > 0 {
		known = s.t.solve(within(s.name, without), kin, groupOf, ofModel)
		h.r[group] = residuals(ps, known)
	}
	h.r[tables] = residuals(untabled(ps), known)
	h.r[version] = s.versions(of, in)
	for n := range 2 {
		fit := slices.DeleteFunc(slices.Clone(in), func(i int) bool { return part(s.t.ps[i].row) == n })
		left := slices.DeleteFunc(slices.Clone(in), func(i int) bool { return part(s.t.ps[i].row) != n })
		if len(fit) > 0 && len(left) > 0 {
			h.r[half] = append(h.r[half], residuals(pick(s.t.ps, left), s.t.solve(within(s.name, known), fit, groupOf, ofGroup))...)
		}
	}
	h.r[six] = calibrated(ps, without)
	s.held = append(s.held, h)
	r := ps[0].row
	xg := s.t.solve(within(s.name, xm), in, groupOf, ofGroup)
	return latency.Group{Model: r.Model.Name, GPU: r.GPU.Name, Weights: r.Config.Weights, Rows: len(in), Versions: said(ps), Coefficients: latency.FromLogs(xg)}
}

// said are the versions that points say.
func said(ps []point) []string {
	return slices.DeleteFunc(names(ps, versionOf), func(v string) bool { return v == "" })
}

// versions are the residuals of a group's rows, in, of a model's, of, where no row of the
// same version was fitted.
func (s *study) versions(of, in []int) (r accuracy.Residuals) {
	for _, v := range names(pick(s.t.ps, in), versionOf) {
		old := func(i int) bool { return versionOf(s.t.ps[i]) == v }
		x := physical(s.name).center
		for _, step := range []struct {
			rows  []int
			unit  func(point) string
			count float64
		}{{where(s.t.ps, func(point) bool { return true }), modelOf, ofEngine}, {of, groupOf, ofModel}, {in, groupOf, ofGroup}} {
			rest := slices.DeleteFunc(slices.Clone(step.rows), old)
			if len(rest) == 0 {
				continue
			}
			p := within(s.name, x)
			if step.count == ofEngine {
				p = physical(s.name)
			}
			x = s.t.solve(p, rest, step.unit, step.count)
		}
		if slices.Equal(x, physical(s.name).center) { // the engine was measured in no other version
			continue
		}
		r = append(r, residuals(pick(s.t.ps, slices.DeleteFunc(slices.Clone(in), func(i int) bool { return !old(i) })), x)...)
	}
	return r
}

// untabled are the points as if no kernel of their GPU had been measured.
func untabled(ps []point) (out []point) {
	for _, p := range ps {
		m, err := latency.NewWithout(p.row.Model, p.row.GPU, p.row.Engine(), p.row.Fit())
		if err == nil {
			out = append(out, point{p.row, m})
		}
	}
	return out
}

// calibrated are the residuals of the points but six, on which coefficients are
// calibrated from x.
func calibrated(ps []point, x []float64) []float64 {
	const points = 6
	if len(ps) < 3*points {
		return nil
	}
	var candidates []latency.Observation
	for _, p := range ps {
		candidates = append(candidates, observation(p.row))
	}
	prior := latency.Fit{Name: "prior", Coefficients: latency.FromLogs(x)}
	chosen := latency.Informative(prior, candidates, points)
	var obs []latency.Observation
	for _, i := range chosen {
		obs = append(obs, candidates[i])
	}
	f, _, err := latency.Calibrate(prior, obs)
	if err != nil {
		panic(err) // rows that were predicted can be calibrated on
	}
	var rest []point
	for i, p := range ps {
		if !slices.Contains(chosen, i) {
			rest = append(rest, p)
		}
	}
	r := residuals(rest, f.Coefficients.Logs())
	for i := range r { // no point had a TTFT
		if i%accuracy.Kinds != accuracy.TPOT {
			r[i] = math.NaN()
		}
	}
	return r
}

// observation is a row's TPOT, or its TTFT where it has no other.
func observation(r accuracy.Row) latency.Observation {
	o := latency.Observation{Model: r.Model, GPU: r.GPU, Config: r.Engine(), ISL: r.ISL, OSL: r.OSL, Cached: r.Cached, InFlight: r.Concurrency, Rate: r.Rate, Context: float64(r.ISL), Seconds: r.TPOT}
	switch r.Loop {
	case accuracy.Closed:
		o.Kind = latency.KindTPOT
	case accuracy.Open:
		o.Kind = latency.KindOpenITL
	case accuracy.Step:
		o.Kind = latency.KindITL
	case accuracy.Single:
		o.Kind, o.Seconds = latency.KindTTFT, r.TTFT
	}
	return o
}

// part cuts a group in halves by layout and length, so that each predicts others.
func part(r accuracy.Row) int {
	p := r.Config.Parallelism
	return (octave(p.TP) + octave(p.EP) + octave(r.ISL)/2) % 2
}

func octave(n int) int { return int(math.Round(math.Log2(float64(max(1, n))))) }
