package capacity

import (
	"math"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/profile/trace"
)

// Facts are what the formulas leave out. The zero value knows nothing, and then
// only what follows from the plan itself is corrected.
type Facts struct {
	Model   catalog.Model // zero = not known
	Weights engine.DType
	KV      engine.DType
	// ReplicaAvailability is the probability that a failure domain is up, 0 = not
	// known; GroupsPerDomain is how many groups fail together, 0 = 1.
	ReplicaAvailability float64
	GroupsPerDomain     int
}

// Correction is a place where the formulas mislead: what they say, what is
// right, and why.
type Correction struct {
	Field   string  `json:"field"` // of the plan, snake_case
	Formula float64 `json:"formula"`
	Right   float64 `json:"right"`
	Unit    string  `json:"unit"`
	Why     string  `json:"why"` // one sentence without a full stop
}

// Misleads says where p, which Formula made of the same inputs, is wrong. Each
// figure is corrected by itself, the others as they are: together they are no
// plan, for which latencies have to be simulated.
func Misleads(w Workload, slo SLO, t Throughput, o Options, p FormulaPlan, f Facts) []Correction {
	if checkAll(w, slo, t, o) != nil {
		return nil
	}
	in := inputs{w, slo, t, o, p, f}
	var cs []Correction
	if p.Strategy == Disaggregated {
		cs = append(cs, in.latency()...)
	} else {
		cs = append(cs, in.together()...)
	}
	cs = append(cs, in.sequences()...)
	cs = append(cs, in.weights()...)
	cs = append(cs, in.headroom()...)
	cs = append(cs, in.spares()...)
	return append(cs, in.money()...)
}

// inputs are all that a correction may look at.
type inputs struct {
	w   Workload
	slo SLO
	t   Throughput
	o   Options
	p   FormulaPlan
	f   Facts
}

// changed is the correction, unless both figures are the same.
func changed[T ~float64](field string, formula, right T, unit, why string) []Correction {
	f, r := float64(formula), float64(right)
	if !(math.Abs(f-r) > 1e-9*math.Abs(f)) { // so is what is not known
		return nil
	}
	return []Correction{{field, f, r, unit, why}}
}

func (in inputs) known() bool { return in.f.Model.Layers > 0 }

// fullBatchITLMs is how long a step takes when a group gives the throughput
// that the plan counts on: each of MaxBatch sequences gets one token in it.
func (in inputs) fullBatchITLMs() float64 { return float64(in.t.MaxBatch) / in.t.DecodeTPS * 1000 }

// residentTokens is the mean context of a sequence in flight, in tokens. A
// sequence stays for as many steps as it has output tokens, L, with ISL + L/2
// tokens on average, so that a long one counts L times:
// ISL + E[L²]/(2·E[L]), where E[L²] = E[L]²·exp(σ²) for log-normal lengths.
func (in inputs) residentTokens() float64 {
	l, err := trace.NewLogNormal(in.w.OSL, in.w.OSLP99, 0)
	if err != nil { // Check has refused it
		return in.w.ISL + in.w.OSL
	}
	return in.w.ISL + in.w.OSL*math.Exp(l.Sigma*l.Sigma)/2
}
