package main

import (
	"math"
	"slices"

	"plimsoll/engine/latency"
)

// table is every TP and concurrency that one family measured at one ISL and OSL.
type table struct {
	family string
	rows   []row
}

func tables(rows []row, families []string) []table {
	var out []table
	for _, r := range rows {
		if r.loop != "closed" || !r.fitted() || !slices.Contains(families, r.family) {
			continue
		}
		i := slices.IndexFunc(out, func(t table) bool {
			return t.family == r.family && t.rows[0].load.ISL == r.load.ISL && t.rows[0].load.OSL == r.load.OSL
		})
		if i < 0 {
			i, out = len(out), append(out, table{family: r.family})
		}
		out[i].rows = append(out[i].rows, r)
	}
	return out
}

// choice is an operating point as measured, as the formula of a closed loop
// predicts it, and as a simulated engine gives it.
type choice struct {
	measured, formula, simulated latency.Means
	gpus, inFlight, osl          float64
}

func measured(c choice) latency.Means { return c.measured }

// The ways to predict a choice. The coefficients are those with which the
// formula explains TPOT best, so that its TPOT goes with the simulated TTFT too.
const (
	byFormula    = "formula"
	bySimulation = "simulation"
	byBoth       = "TTFT by simulation, TPOT by formula"
)

var ways = map[string]func(choice) latency.Means{
	byFormula:    func(c choice) latency.Means { return c.formula },
	bySimulation: func(c choice) latency.Means { return c.simulated },
	byBoth:       func(c choice) latency.Means { return latency.Means{TTFT: c.simulated.TTFT, TPOT: c.formula.TPOT} },
}

// throughput is output tokens per second and GPU.
func (c choice) throughput(m latency.Means) float64 {
	return c.inFlight * c.osl / (m.TTFT + m.TPOT*(c.osl-1)) / c.gpus
}

func (t table) choices(k latency.Coefficients) ([]choice, error) {
	var out []choice
	for _, r := range t.rows {
		m, err := latency.NewWith(r.load.Model, r.load.GPU, r.load.Config, latency.Fit{Coefficients: k})
		if err != nil {
			return nil, err
		}
		s, err := simulate(m, r)
		if err != nil {
			return nil, err
		}
		out = append(out, choice{
			measured: latency.Means{TTFT: r.ttft, TPOT: r.tpot}, formula: m.ClosedLoop(r.load), simulated: s,
			gpus: float64(r.load.Config.GPUs()), inFlight: float64(r.load.InFlight), osl: float64(r.load.OSL),
		})
	}
	return out, nil
}

// verdicts count how a predicted pick does by the measured table.
type verdicts struct{ caps, equal, close, over, poor int }

func (v *verdicts) add(o verdicts) {
	v.caps += o.caps
	v.equal += o.equal
	v.close += o.close
	v.over += o.over
	v.poor += o.poor
}

// judge lets the predictions choose under each cap and looks the choice up in
// the table: equal to the table's best, within 3 % of its throughput, over a
// cap, or worse. A cap under which the table has nothing is no question.
func judge(choices []choice, predicted func(choice) latency.Means, ttftCaps []float64) verdicts {
	var v verdicts
	for _, first := range ttftCaps {
		for later := 0.005; later < 0.1; later *= 1.05 {
			cap := latency.Means{TTFT: first, TPOT: later}
			best := pick(choices, cap, measured)
			if best < 0 {
				continue
			}
			v.caps++
			chosen := pick(choices, cap, predicted)
			switch {
			case chosen == best:
				v.equal++
			case chosen < 0:
				v.poor++
			case !meets(choices[chosen].measured, cap):
				v.over++
			case choices[chosen].throughput(choices[chosen].measured) >= 0.97*choices[best].throughput(choices[best].measured):
				v.close++
			default:
				v.poor++
			}
		}
	}
	return v
}

func meets(m, cap latency.Means) bool { return m.TTFT <= cap.TTFT && m.TPOT <= cap.TPOT }

func pick(choices []choice, cap latency.Means, of func(choice) latency.Means) int {
	best := -1
	for i, c := range choices {
		if meets(of(c), cap) && (best < 0 || c.throughput(of(c)) > choices[best].throughput(of(choices[best]))) {
			best = i
		}
	}
	return best
}

// pickResult is how picks from a fit without the table's own rows do, predicted
// in one way.
type pickResult struct {
	family, by string
	tables     int
	itl, both  verdicts     // caps on TPOT alone; on TTFT too
	errors     latency.Held // of the predictions
}

var (
	anyTTFT  = []float64{math.Inf(1)}
	someTTFT = []float64{0.1, 0.2, 0.3, 0.5, 1, 2}
)

// picks fits each family without the rows of one table, and chooses in it.
func picks(rows []row, results []result) ([]pickResult, error) {
	var out []pickResult
	for _, r := range results[1:] {
		var all [][]choice
		for _, t := range tables(rows, []string{r.fit.Name}) {
			_, others := split(r.obs, func(o latency.Observation) bool {
				return o.ISL == t.rows[0].load.ISL && o.OSL == t.rows[0].load.OSL
			})
			k, err := latency.Estimate(r.from, others)
			if err != nil {
				return nil, err
			}
			choices, err := t.choices(k)
			if err != nil {
				return nil, err
			}
			all = append(all, choices)
		}
		if len(all) > 0 {
			out = append(out, judgeAll(r.fit.Name, byFormula, all), judgeAll(r.fit.Name, bySimulation, all), judgeAll(r.fit.Name, byBoth, all))
		}
	}
	return out, nil
}

// judgeAll is the picks of all of a family's tables.
func judgeAll(family, by string, tables [][]choice) pickResult {
	p, predicted := pickResult{family: family, by: by, tables: len(tables)}, ways[by]
	var residuals []latency.Residual
	for _, choices := range tables {
		p.itl.add(judge(choices, predicted, anyTTFT))
		p.both.add(judge(choices, predicted, someTTFT))
		for _, c := range choices {
			residuals = append(residuals,
				latency.Residual{Kind: latency.KindTTFT, Measured: c.measured.TTFT, After: predicted(c).TTFT},
				latency.Residual{Kind: latency.KindTPOT, Measured: c.measured.TPOT, After: predicted(c).TPOT})
		}
	}
	p.errors = summary("", residuals)
	return p
}
