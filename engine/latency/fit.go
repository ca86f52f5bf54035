package latency

import (
	"cmp"
	_ "embed" // the fits
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"plimsoll/engine"
)

// Fit is a set of coefficients, the measured rows that they come from, and how
// far off they were on rows that were held out.
type Fit struct {
	Name    string `json:"name"`
	Engine  string `json:"engine"`
	Version string `json:"version,omitempty"` // empty: rows of several versions together, or one that nobody said
	Other   bool   `json:"other,omitempty"`   // its rows are of another engine or version: FitFor took the nearest
	Source  string `json:"source"`

	Coefficients Coefficients `json:"coefficients"`
	Rows         []Rows       `json:"rows"`
	Longest      int          `json:"longest"`              // context in the rows, tokens: beyond it nothing was compared
	LongestTTFT  int          `json:"longest_ttft"`         // prompt in the rows that have a TTFT, tokens
	Calibrated   int          `json:"calibrated,omitempty"` // own loads that Calibrate had

	// Held-out errors for more of the same: each row left out in turn.
	TTFT Error `json:"ttft"`
	TPOT Error `json:"tpot"`
	// The same where what was left out is everything of one TP, model or GPU; of
	// an engine of which the fit has no row; and after calibrating on six points
	// of such an engine.
	OtherTP      Held `json:"other_tp"`
	OtherModel   Held `json:"other_model"`
	OtherGPU     Held `json:"other_gpu"`
	OtherVersion Held `json:"other_version"`
	SixPoints    Held `json:"six_points"`
}

// Rows are measured rows of one model, GPU, precision and TP.
type Rows struct {
	Model   string       `json:"model"` // catalog names
	GPU     string       `json:"gpu"`
	Weights engine.DType `json:"weights"`
	KV      engine.DType `json:"kv"`
	TP      int          `json:"tp"`
	TTFT    int          `json:"ttft"` // how many, of either latency
	TPOT    int          `json:"tpot"`
}

// rowsOf counts observations by what they were measured on, in order of
// appearance.
func rowsOf(obs []Observation) []Rows {
	var out []Rows
	for _, o := range obs {
		like := Rows{
			Model: o.Model.Name, GPU: o.GPU.Name, TP: o.Config.Parallelism.TP,
			Weights: cmp.Or(o.Config.Weights, engine.BF16), KV: cmp.Or(o.Config.KV, engine.BF16),
		}
		i := slices.IndexFunc(out, func(r Rows) bool { r.TTFT, r.TPOT = 0, 0; return r == like })
		if i < 0 {
			i, out = len(out), append(out, like)
		}
		if o.Kind.TTFT() {
			out[i].TTFT++
		} else {
			out[i].TPOT++
		}
	}
	return out
}

// On says of a fit which observations it is to.
func (f Fit) On(obs []Observation) Fit {
	f.Rows, f.Longest, f.LongestTTFT = rowsOf(obs), 0, 0
	for _, o := range obs {
		f.Longest = max(f.Longest, o.ISL+o.OSL, int(o.Context))
		if o.Kind.TTFT() {
			f.LongestTTFT = max(f.LongestTTFT, o.ISL)
		}
	}
	return f
}

//go:embed families.json
var familiesJSON []byte

var shipped = sync.OnceValue(func() []Fit {
	var fits []Fit
	if err := json.Unmarshal(familiesJSON, &fits); err != nil || len(fits) == 0 {
		panic(fmt.Sprintf("latency: families.json, which comes with the program: %v", err))
	}
	return fits
})

// Fits are the fits that come with the program, the default first.
func Fits() []Fit {
	fits := slices.Clone(shipped())
	for i := range fits {
		fits[i].Rows = slices.Clone(fits[i].Rows)
	}
	return fits
}

// DefaultFit is for an engine of which nothing is known: recent versions of vLLM
// together, with the error that it has on a version it has not seen.
func DefaultFit() Fit {
	f := shipped()[0]
	f.Rows = slices.Clone(f.Rows)
	return f
}

// FitByName finds a shipped fit by its name, in any case.
func FitByName(name string) (Fit, error) {
	var names []string
	for _, f := range Fits() {
		if strings.EqualFold(f.Name, strings.TrimSpace(name)) {
			return f, nil
		}
		names = append(names, f.Name)
	}
	return Fit{}, fmt.Errorf("unknown fit %q: want one of %s", name, strings.Join(names, ", "))
}
