package profile

import (
	"fmt"
	"math"
	"slices"
)

// Warning is a caveat that travels with a number into files, plots and tables.
type Warning struct {
	Code    string `json:"code"`    // stable, snake_case: "few_samples"
	Message string `json:"message"` // one line for people, without a full stop
	// Degree is how bad it is, where warnings of one code differ by that: more is
	// worse, by the code's own measure. 0 = they do not.
	Degree float64 `json:"degree,omitempty"`
}

// The codes of figures that cannot be right: whoever reads them is told so before
// anything else.
const (
	CodeFLOPS    = "flops_above_peak"  // faster than the GPU can compute
	CodeTTFTFlat = "ttft_flat"         // TTFT hardly grows with ISL: prompts were shorter than said, or reused
	CodeKVUsage  = "kv_usage_too_high" // far more tokens in use than the KV cache holds
)

// Implausible are those of the warnings that say that figures cannot be right.
func Implausible(ws []Warning) []Warning {
	return slices.DeleteFunc(slices.Clone(ws), func(w Warning) bool { return !w.Implausible() })
}

// Implausible reports whether w says that figures cannot be right.
func (w Warning) Implausible() bool {
	return slices.Contains([]string{CodeFLOPS, CodeTTFTFlat, CodeKVUsage}, w.Code)
}

// ImplausibleFirst is ws with Implausible before the others, whose order stays.
func ImplausibleFirst(ws []Warning) []Warning {
	return append(Implausible(ws), slices.DeleteFunc(slices.Clone(ws), Warning.Implausible)...)
}

// Warnf makes a Warning.
func Warnf(code, format string, args ...any) Warning {
	return Warning{Code: code, Message: fmt.Sprintf(format, args...)}
}

// By is the warning with its degree; one that is no number says nothing.
func (w Warning) By(degree float64) Warning {
	if w.Degree = degree; math.IsNaN(degree) || math.IsInf(degree, 0) {
		w.Degree = 0
	}
	return w
}

// JoinWarnings adds more to the warnings of one figure: what is known already is not
// said again, and of one code that has degrees only the worst.
func JoinWarnings(ws, more []Warning) []Warning {
	ws = slices.Clone(ws)
	for _, w := range more {
		i := slices.IndexFunc(ws, func(o Warning) bool { return o == w || w.Degree > 0 && o.Degree > 0 && o.Code == w.Code })
		switch {
		case i < 0:
			ws = append(ws, w)
		case w.Degree > ws[i].Degree:
			ws[i] = w
		}
	}
	return ws
}
