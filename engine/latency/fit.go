package latency

import (
	"cmp"
	_ "embed" // the fits
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/operator"
)

// Fit is what whole engines of one kind showed beyond their kernels, and how far off
// step times with it were on rows that were held out.
type Fit struct {
	Name    string `json:"name"`
	Engine  string `json:"engine"`
	Version string `json:"version,omitempty"` // empty: one that nobody said
	Before  string `json:"before,omitempty"`  // of the engine's versions, those before this one; empty: all others
	Source  string `json:"source"`

	// Of models that no group is of, and of the groups.
	Coefficients Coefficients `json:"coefficients"`
	Groups       []Group      `json:"groups,omitempty"`

	Longest     int `json:"longest"`              // context in the rows, tokens: beyond it nothing was compared
	LongestTTFT int `json:"longest_ttft"`         // prompt in the rows that have a TTFT, tokens
	Calibrated  int `json:"calibrated,omitempty"` // own loads that Calibrate had

	// Errors on models left out of the fit, without experts and with; on versions of the
	// engine left out; on GPUs whose kernels were left out; and after calibrating on six
	// points of a group left out.
	Dense          Held `json:"dense"`
	Experts        Held `json:"experts"`
	DenseVersion   Held `json:"dense_version"`
	ExpertsVersion Held `json:"experts_version"`
	NoKernels      Held `json:"no_kernels"`
	SixPoints      Held `json:"six_points"`
}

// Group is what rows of one model showed, on one GPU or on all of them together.
type Group struct {
	Model   string       `json:"model"` // catalog names
	GPU     string       `json:"gpu,omitempty"`
	Weights engine.DType `json:"weights,omitempty"`
	Rows    int          `json:"rows"`

	Versions []string `json:"versions,omitempty"` // of the engine, as far as rows say

	Coefficients Coefficients `json:"coefficients"`
	Held                      // errors on other layouts, or on other GPUs
}

// Release is the engine that the fit is of. Zero where that is the newest vLLM, for which
// engines are taken that say nothing else.
func (f Fit) Release() engine.Release {
	if f.Version == "" && engine.Kind(f.Engine) == engine.KindVLLM {
		return engine.Release{}
	}
	return engine.Release{Kind: engine.Kind(f.Engine), Version: f.Version}
}

// For is the most special group that holds for the model, weights and GPU; false where
// the fit has no row of the model.
func (f Fit) For(model, gpu string, weights engine.DType) (Group, bool) {
	best, rank := Group{}, -1
	for _, g := range f.Groups {
		if g.Model != model || g.GPU != "" && (g.GPU != gpu || g.Weights.Width() != cmp.Or(weights, engine.BF16).Width()) {
			continue
		}
		if r := len(g.GPU); r > rank {
			best, rank = g, r
		}
	}
	return best, rank >= 0
}

// measured reports whether rows of g are of the engine's version, 0.15 being any 0.15.x;
// of any group where g is none.
func (f Fit) measured(g Group) bool {
	groups := []Group{g}
	if g.Model == "" {
		groups = f.Groups
	}
	return f.Version != "" && slices.ContainsFunc(groups, func(g Group) bool {
		return slices.ContainsFunc(g.Versions, func(v string) bool {
			return v == f.Version || strings.HasPrefix(v, f.Version+".")
		})
	})
}

// FromDataSheet reports whether f has times on a GPU from its data sheet alone: none of its
// kernels were measured, and no row of f is of it.
func (f Fit) FromDataSheet(gpu string) bool {
	return !operator.Measured(gpu) && !slices.ContainsFunc(f.Groups, func(g Group) bool { return g.GPU == gpu })
}

// of is f for one model alone: its coefficients are those of the group that holds.
func (f Fit) of(m catalog.Model, gpu catalog.GPU, weights engine.DType) Fit {
	if g, ok := f.For(m.Name, gpu.Name, weights); ok {
		f.Coefficients = g.Coefficients
	}
	return f
}

//go:embed fits.json
var fitsJSON []byte

var shipped = sync.OnceValue(func() []Fit {
	var fits []Fit
	if err := json.Unmarshal(fitsJSON, &fits); err != nil || len(fits) == 0 {
		panic(fmt.Sprintf("latency: fits.json, which comes with the program: %v", err))
	}
	return fits
})

// Fits are the fits that come with the program, one per engine, the default first.
func Fits() []Fit {
	fits := slices.Clone(shipped())
	for i := range fits {
		fits[i].Groups = slices.Clone(fits[i].Groups)
	}
	return fits
}

// DefaultFit is for an engine of which nothing is known: that of vLLM.
func DefaultFit() Fit { return Fits()[0] }

// FitFor is the shipped fit for an engine and its version, "" = not known. An engine
// that has none gets the default.
func FitFor(kind engine.Kind, version string) Fit {
	version = strings.TrimPrefix(version, "v")
	asked, known := engine.Release{Version: version}.Number()
	if !known {
		version = "" // such as nightly
	}
	fits := Fits()
	f := fits[0]
	for _, g := range fits {
		last, some := engine.Release{Version: g.Before}.Number()
		if g.Engine == string(kind) && (!some || known && asked < last) {
			f = g
		}
	}
	switch {
	case f.Engine != string(kind) && kind != "":
		f.Name += " for " + strings.TrimSpace(string(kind)+" "+version)
		f.Engine, f.Version = string(kind), version
	case version != "":
		f.Name, f.Version = f.Engine+"-"+version, version
	}
	return f
}

// engineVersion is an engine, and its version where it is said: trtllm, vllm-0.19.1.
var engineVersion = regexp.MustCompile(`^(vllm|sglang|trtllm)(?:-v?([0-9]+(?:\.[0-9]+)*(?:\.?(?:rc|post|dev)[0-9]+)*))?$`)

// FitByName is the shipped fit of an engine, named alone or with its version, in any case.
func FitByName(name string) (Fit, error) {
	named := engineVersion.FindStringSubmatch(strings.ToLower(strings.TrimSpace(name)))
	if named == nil {
		return Fit{}, fmt.Errorf("unknown fit %q: want vllm, trtllm or sglang, with a version or without", name)
	}
	return FitFor(engine.Kind(named[1]), named[2]), nil
}
