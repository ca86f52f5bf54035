package latency

import (
	"fmt"
	"math"
)

// Coefficients are what only whole engines show. The factors multiply the times of
// operators as their kernels were measured alone; the spans are seconds. All are
// positive; Check says what is wrong with others.
type Coefficients struct {
	Products    float64 `json:"products"`      // × matrix products and what is done by element
	Prefill     float64 `json:"prefill"`       // × attention of prompts
	Decode      float64 `json:"decode"`        // × attention in decode
	Experts     float64 `json:"experts"`       // × routed experts
	Collectives float64 `json:"collectives"`   // × all-reduce and its like
	Layer       float64 `json:"layer_s"`       // s per layer and step: norms, launches, what lies between kernels
	Quantised   float64 `json:"quantised_s"`   // s more per layer whose products have quantised operands
	MoE         float64 `json:"moe_s"`         // s more per layer with experts
	MLA         float64 `json:"mla_s"`         // s more per layer with compressed attention
	Step        float64 `json:"step_s"`        // s per step, whatever the model
	Sequence    float64 `json:"sequence_s"`    // s per sequence and step: scheduling, sampling
	Prompt      float64 `json:"prompt_s"`      // s more per layer of a step with a prompt: no CUDA graph
	PromptMoE   float64 `json:"prompt_moe_s"`  // s more per such layer with experts
	Overhead    float64 `json:"per_request_s"` // s per request outside of steps: HTTP, the way to the scheduler
	Tokenise    float64 `json:"per_token_s"`   // s per prompt token outside of steps
}

// numCoefficients is the number of fields of Coefficients; the first numFactors
// are factors, the others spans.
const (
	numCoefficients = 15
	numFactors      = 5
)

// coefficientNames are the fields' JSON names, in order.
var coefficientNames = [numCoefficients]string{
	"products", "prefill", "decode", "experts", "collectives",
	"layer_s", "quantised_s", "moe_s", "mla_s", "step_s", "sequence_s", "prompt_s", "prompt_moe_s", "per_request_s", "per_token_s",
}

// vector lists the fields in order.
func (c Coefficients) vector() [numCoefficients]float64 {
	return [numCoefficients]float64{
		c.Products, c.Prefill, c.Decode, c.Experts, c.Collectives,
		c.Layer, c.Quantised, c.MoE, c.MLA, c.Step, c.Sequence, c.Prompt, c.PromptMoE, c.Overhead, c.Tokenise,
	}
}

func fromVector(v [numCoefficients]float64) Coefficients {
	return Coefficients{
		Products: v[0], Prefill: v[1], Decode: v[2], Experts: v[3], Collectives: v[4],
		Layer: v[5], Quantised: v[6], MoE: v[7], MLA: v[8], Step: v[9], Sequence: v[10], Prompt: v[11], PromptMoE: v[12], Overhead: v[13], Tokenise: v[14],
	}
}

// least and most bound the coefficients: kernels in an engine are between five times
// faster and a thousand times slower than alone, spans at least a nanosecond, or a
// picosecond for a token.
func least() Coefficients {
	var v [numCoefficients]float64
	for i := range v {
		v[i] = 1e-9
		if i < numFactors {
			v[i] = 0.2
		}
	}
	v[numCoefficients-1] = 1e-12
	return fromVector(v)
}

func most() Coefficients {
	var v [numCoefficients]float64
	for i := range v {
		v[i] = 1000
		if i >= numFactors {
			v[i] = 10
		}
	}
	return fromVector(v)
}

// Physical is what a fit starts from where nothing was measured: kernels as they are
// alone, and launch costs of some microseconds per kernel. Round numbers, not fitted.
func Physical() Coefficients {
	return Coefficients{
		Products: 1, Prefill: 1, Decode: 1, Experts: 1, Collectives: 1,
		Layer: 10e-6, Quantised: 5e-6, MoE: 10e-6, MLA: 10e-6, Step: 300e-6, Sequence: 5e-6, Prompt: 40e-6, PromptMoE: 100e-6, Overhead: 15e-3, Tokenise: 3e-6,
	}
}

// Logs are the logarithms of the coefficients, in order, and FromLogs is the inverse,
// within bounds.
func (c Coefficients) Logs() []float64 {
	x := logs(c)
	return x[:]
}

// FromLogs is the inverse of Logs.
func FromLogs(x []float64) Coefficients { return exps([numCoefficients]float64(x)).bounded() }

func (c Coefficients) bounded() Coefficients {
	v, low, high := c.vector(), least().vector(), most().vector()
	for i := range v {
		v[i] = min(max(v[i], low[i]), high[i])
	}
	return fromVector(v)
}

// Check refuses coefficients that no engine has.
func (c Coefficients) Check() error {
	low, high := least().vector(), most().vector()
	for i, x := range c.vector() {
		if math.IsNaN(x) || x < low[i] || x > high[i] {
			return fmt.Errorf("coefficient %s is %g: want %g to %g", coefficientNames[i], x, low[i], high[i])
		}
	}
	return nil
}
