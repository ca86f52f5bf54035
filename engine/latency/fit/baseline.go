package main

import "plimsoll/engine/latency"

// naiveTPOT is the rule of thumb: all weights and all KV cache, once per token,
// at the data sheet's bandwidth, no more in flight than the KV cache holds.
func naiveTPOT(obs []latency.Observation) []latency.Residual {
	var out []latency.Residual
	for _, o := range obs {
		if o.Kind.TTFT() {
			continue
		}
		n := float64(o.InFlight)
		if o.Kind == latency.KindOpenITL {
			n = 1 + o.Rate*float64(o.OSL)*o.Seconds // as measured: in its favour
		}
		bytes := o.Model.WeightBytes(o.Config.Weights) + n*o.Context*o.Model.KVBytesPerToken(o.Config.KV)
		seconds := bytes / (float64(o.Config.Parallelism.TP) * o.GPU.HBMBytesPerSec)
		out = append(out, latency.Residual{Kind: o.Kind, Measured: o.Seconds, After: seconds})
	}
	return out
}
