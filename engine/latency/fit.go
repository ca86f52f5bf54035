package latency

import (
	_ "embed" // the fits
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Fit is a set of coefficients, the measured rows that they come from, and how
// far off they were on rows that were held out.
type Fit struct {
	Name    string `json:"name"`
	Engine  string `json:"engine"`
	Version string `json:"version,omitempty"` // empty: rows of several versions together
	Source  string `json:"source"`

	Coefficients Coefficients `json:"coefficients"`
	Rows         []Rows       `json:"rows"`
	Calibrated   int          `json:"calibrated,omitempty"` // own points that Calibrate had

	// Held-out errors for more of the same: each row left out in turn.
	TTFT Error `json:"ttft"`
	TPOT Error `json:"tpot"`
	// The same where what was left out is everything of one TP, model, GPU or
	// engine version, and after calibrating on six points of another version.
	OtherTP      Held `json:"other_tp"`
	OtherModel   Held `json:"other_model"`
	OtherGPU     Held `json:"other_gpu"`
	OtherVersion Held `json:"other_version"`
	SixPoints    Held `json:"six_points"`
}

// Rows are measured rows of one model, GPU and TP.
type Rows struct {
	Model string `json:"model"` // catalog names
	GPU   string `json:"gpu"`
	TP    int    `json:"tp"`
	N     int    `json:"n"`
}

// Held is the error on held-out rows of either latency.
type Held struct {
	TTFT Error `json:"ttft"`
	TPOT Error `json:"tpot"`
}

// Error is a relative error: 0.05 is 5 %.
type Error struct {
	Median float64 `json:"median"`
	Mean   float64 `json:"mean"`
	P90    float64 `json:"p90"`
	N      int     `json:"n"`     // points behind it
	Basis  string  `json:"basis"` // in words: what was held out
}

// widest is the larger of both errors, each figure by itself, on the basis of the
// one with the larger median.
func (e Error) widest(o Error) Error {
	if o.Median > e.Median {
		e, o = o, e
	}
	e.Mean, e.P90 = max(e.Mean, o.Mean), max(e.P90, o.P90)
	return e
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

// TTFTError is how far off TTFT may be for this model, GPU and TP: as far as on
// rows held out of the fit that were as unlike the rest as this is.
func (m Model) TTFTError() Error {
	f := m.about.fit
	return m.about.errorOf(f.TTFT, func(h Held) Error { return h.TTFT })
}

// ITLError is the same for ITL and TPOT.
func (m Model) ITLError() Error {
	f := m.about.fit
	return m.about.errorOf(f.TPOT, func(h Held) Error { return h.TPOT })
}

func (a *about) errorOf(same Error, of func(Held) Error) Error {
	f, worst := a.fit, same
	seen := func(like func(Rows) bool) bool { return slices.ContainsFunc(f.Rows, like) }
	if !seen(func(r Rows) bool { return r.Model == a.model.Name }) {
		worst = worst.widest(of(f.OtherModel))
	}
	if !seen(func(r Rows) bool { return r.GPU == a.gpu.Name }) {
		worst = worst.widest(of(f.OtherGPU))
	}
	// Parallelism that no row has (PP, DP, EP) is at least as unlike as another TP.
	if p := a.config.Parallelism; p.GPUs() != p.TP || p.EP > 1 || !seen(func(r Rows) bool { return r.TP == p.TP }) {
		worst = worst.widest(of(f.OtherTP))
	}
	if f.Version == "" && f.Calibrated == 0 {
		worst = worst.widest(of(f.OtherVersion))
	}
	return worst
}
