package latency

import (
	"errors"
	"fmt"
	"math"
)

// check refuses an observation that cannot be one, naming the fields.
func (o Observation) check() error {
	var errs []error
	refuse := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	bounded := func(field string, x, low, high float64) {
		if math.IsNaN(x) || x < low || x > high {
			refuse("%s is %g: want %g to %g", field, x, low, high)
		}
	}
	const most = 1e7
	bounded("Seconds", o.Seconds, 1e-6, 1e5)
	bounded("Cached", float64(o.Cached), 0, most)
	switch o.Kind {
	case KindTTFT:
		bounded("ISL", float64(o.ISL), 1, most)
	case KindITL:
		bounded("InFlight", float64(o.InFlight), 1, most)
		bounded("Context", o.Context, 0, most)
	case KindTPOT, KindOpenITL, KindOpenTTFT:
		bounded("ISL", float64(o.ISL), 1, most)
		bounded("OSL", float64(o.OSL), 2, most)
		if o.Kind == KindTPOT {
			bounded("InFlight", float64(o.InFlight), 1, most)
		} else {
			bounded("Rate", o.Rate, 1e-6, most)
		}
	default:
		refuse("Kind is %q: want one of %q, %q, %q, %q, %q", o.Kind, KindTTFT, KindITL, KindTPOT, KindOpenITL, KindOpenTTFT)
	}
	if o.Cached > 0 && o.Cached >= o.ISL {
		refuse("Cached is %d of an ISL of %d: want less", o.Cached, o.ISL)
	}
	if o.Model.Layers <= 0 || o.Model.Hidden <= 0 || o.Model.QHeads <= 0 || o.Model.KVHeads <= 0 || o.Model.HeadDim <= 0 {
		refuse("Model %q has no architecture: want layers, hidden size and heads", o.Model.Name)
	}
	if !(o.GPU.HBMBytesPerSec > 0 && o.GPU.BF16FLOPS > 0 && o.GPU.LinkBytesPerSec > 0 && o.GPU.MemoryBytes > 0) {
		refuse("GPU %q has no data sheet: want memory, bandwidth, peak and link", o.GPU.Name)
	}
	if n := o.Config.Limits.MaxNumBatchedTokens; n > 0 && n < 64 {
		refuse("Config.Limits.MaxNumBatchedTokens is %d: want 64 or more, or 0 for the engine's own", n)
	}
	return errors.Join(errs...)
}

// tooLong reports whether the load is longer than its model's context.
func (o Observation) tooLong() bool {
	return o.Model.MaxContext > 0 && (o.ISL > o.Model.MaxContext || o.ISL+o.OSL > o.Model.MaxContext+1 || o.Context > float64(o.Model.MaxContext)) // a prompt alone has one token more
}

// samples lays the observations out; the error names the first that cannot be.
func samples(obs []Observation) ([]sample, error) {
	out := make([]sample, 0, len(obs))
	for i, o := range obs {
		err := o.check()
		if err == nil {
			var a about
			if a, err = layOut(o.Model, o.GPU, o.Config); err == nil {
				err = a.fits()
			}
			out = append(out, sample{about: &a, obs: o})
		}
		if err != nil {
			return nil, fmt.Errorf("point %d: %w", i+1, err)
		}
	}
	return out, nil
}
