package latency

import (
	"fmt"
	"math"
)

// Coefficients turn the physics of a step into its time. The factors are
// measured times over ideal ones (data-sheet bandwidth and peak); the spans are
// seconds. All are positive; Check says what is wrong with others.
type Coefficients struct {
	Weights      float64 `json:"weights"`       // × bytes of weights / memory bandwidth
	Experts      float64 `json:"experts"`       // × bytes of routed experts touched / memory bandwidth
	KV           float64 `json:"kv"`            // × bytes of KV cache read / memory bandwidth
	FLOPs        float64 `json:"flops"`         // × FLOPs of matrix products / peak
	LowFLOPs     float64 `json:"low_flops"`     // the same where operands have 8 bits or fewer
	Attention    float64 `json:"attention"`     // × FLOPs of query-key pairs / BF16 peak
	AllReduce    float64 `json:"all_reduce"`    // × bytes exchanged / link bandwidth
	Layer        float64 `json:"layer_s"`       // s per layer and step: launches, norms, small kernels
	Collective   float64 `json:"collective_s"`  // s per layer, step and doubling of the GPUs that exchange
	PrefillLayer float64 `json:"prefill_s"`     // s more per layer of a step with a prompt: no CUDA graph
	Request      float64 `json:"request_s"`     // s per sequence and step: scheduling, sampling
	Step         float64 `json:"step_s"`        // s per step, whatever the model
	Overhead     float64 `json:"per_request_s"` // s per request outside of steps: HTTP, tokenizing
}

// numCoefficients is the number of fields of Coefficients; the first numFactors
// are factors, the others spans.
const (
	numCoefficients = 13
	numFactors      = 7
)

// coefficientNames are the fields' JSON names, in order.
var coefficientNames = [numCoefficients]string{
	"weights", "experts", "kv", "flops", "low_flops", "attention", "all_reduce",
	"layer_s", "collective_s", "prefill_s", "request_s", "step_s", "per_request_s",
}

// vector lists the fields in order.
func (c Coefficients) vector() [numCoefficients]float64 {
	return [numCoefficients]float64{
		c.Weights, c.Experts, c.KV, c.FLOPs, c.LowFLOPs, c.Attention, c.AllReduce,
		c.Layer, c.Collective, c.PrefillLayer, c.Request, c.Step, c.Overhead,
	}
}

func fromVector(v [numCoefficients]float64) Coefficients {
	return Coefficients{
		Weights: v[0], Experts: v[1], KV: v[2], FLOPs: v[3], LowFLOPs: v[4], Attention: v[5], AllReduce: v[6],
		Layer: v[7], Collective: v[8], PrefillLayer: v[9], Request: v[10], Step: v[11], Overhead: v[12],
	}
}

// least and most bound the coefficients. No kernel beats the data sheet, but a
// switch that adds up (NVLink SHARP) halves the bytes of an all-reduce; spans
// are at least a nanosecond, and nothing is a thousand times slower than ideal.
func least() Coefficients {
	return Coefficients{
		Weights: 1, Experts: 1, KV: 1, FLOPs: 1, LowFLOPs: 1, Attention: 1, AllReduce: 0.5,
		Layer: 1e-9, Collective: 1e-9, PrefillLayer: 1e-9, Request: 1e-9, Step: 1e-9, Overhead: 1e-9,
	}
}

func most() Coefficients {
	return Coefficients{
		Weights: 1000, Experts: 1000, KV: 1000, FLOPs: 1000, LowFLOPs: 1000, Attention: 1000, AllReduce: 1000,
		Layer: 0.1, Collective: 0.1, PrefillLayer: 0.1, Request: 0.1, Step: 10, Overhead: 100,
	}
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

// bounded takes back what rounding through logarithms puts beyond a bound.
func (c Coefficients) bounded() Coefficients {
	v, low, high := c.vector(), least().vector(), most().vector()
	for i := range v {
		v[i] = min(max(v[i], low[i]), high[i])
	}
	return fromVector(v)
}

// Physical is what a fit starts from where nothing was measured: the data
// sheet's speeds with the efficiencies that kernels reach (80 to 90 % of
// bandwidth, 65 % of the BF16 peak, half of that of FP8 and less in attention)
// and launch costs of some microseconds per kernel. Round numbers, not fitted.
func Physical() Coefficients {
	return Coefficients{
		Weights: 1.1, Experts: 1.3, KV: 1.3, FLOPs: 1.5, LowFLOPs: 2, Attention: 2.5, AllReduce: 1.5,
		Layer: 30e-6, Collective: 10e-6, PrefillLayer: 50e-6, Request: 10e-6, Step: 500e-6, Overhead: 5e-3,
	}
}
