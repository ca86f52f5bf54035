package engine

import "fmt"

// Factors are how many times as long an engine takes: for prompts, which TTFT is made of,
// and for what decodes. The zero Factors leave both as they are.
type Factors struct {
	TTFT float64 `json:"ttft"`
	ITL  float64 `json:"itl"`
}

// FactorsOf are those of two errors; one that is not known, which is below 1, is taken for
// the other.
func FactorsOf(ttft, itl float64) Factors {
	f := Factors{ttft, itl}
	if ttft < 1 {
		f.TTFT = itl
	}
	if itl < 1 {
		f.ITL = ttft
	}
	return f
}

// Known reports whether an engine may be slower by f than it is taken to be.
func (f Factors) Known() bool { return max(f.TTFT, f.ITL) > 1 }

// Inverse is as much faster as f is slower.
func (f Factors) Inverse() Factors { return Factors{1 / f.TTFT, 1 / f.ITL} }

// Words say what takes how many times as long, up to "times".
func (f Factors) Words() string {
	ttft, itl := fmt.Sprintf("%.2f", f.TTFT), fmt.Sprintf("%.2f", f.ITL)
	if ttft == itl {
		return "steps are " + ttft + " times"
	}
	return "prompts are " + ttft + " and decode steps " + itl + " times"
}
