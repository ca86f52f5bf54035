package capacity

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"plimsoll/engine/field"
	"plimsoll/profile"
	"plimsoll/profile/trace"
)

// Shape is a workload as far as the ratio of prefill to decode goes.
type Shape struct {
	Name string  `json:"name"`
	ISL  float64 `json:"isl"` // mean tokens
	OSL  float64 `json:"osl"`
}

// ClassicShapes are the five that are used as examples.
// Source: as PublishedThroughputs.
func ClassicShapes() []Shape {
	return []Shape{
		{"chatbot", 128, 512},
		{"summarization", 4096, 256},
		{"code", 1024, 1024},
		{"rag", 8192, 128},
		{"agent", 2048, 256},
	}
}

// PhaseRatio is how the work of a shape divides into prefill and decode.
type PhaseRatio struct {
	Shape
	// Ratio is prefill over decode, in group-seconds per request.
	Ratio float64 `json:"ratio"`
	Text  string  `json:"text"` // "1:25": prefill groups to decode groups
	// PrefillShare of an aggregated group's time, 0 to 1.
	PrefillShare float64 `json:"prefill_share"`
	// SavingOver1To1 is the share of groups that a split by Ratio saves over as
	// many prefill as decode groups, 0 to 0.5, in fleets so large that whole
	// groups do not matter.
	SavingOver1To1 float64            `json:"saving_over_1_to_1"`
	Disaggregate   bool               `json:"disaggregate"`
	Why            string             `json:"why"`
	Provenance     profile.Provenance `json:"provenance"`
}

// littlePrefill is the share of an aggregated group's time below which prompts
// hardly disturb decoding. It is a judgement, not a measurement: a simulation of
// both is what decides.
const littlePrefill = 0.10

// Ratio is prefill to decode for a shape at these throughputs:
//
//	(ISL / prefill tokens/s) / (OSL / decode tokens/s)
//
// Advice is by how often decoding would meet a prompt: where prefill takes less
// than a tenth of an aggregated group's time, pools of their own gain little
// for the transfer of the KV cache and the rounding to whole groups.
func Ratio(s Shape, t Throughput) (PhaseRatio, error) {
	err := errors.Join(within(field.ISL, s.ISL, 1, trace.MaxTokens), within(field.OSL, s.OSL, 1, trace.MaxTokens), t.Check())
	if err != nil {
		return PhaseRatio{}, fmt.Errorf("ratio of prefill to decode: %w", err)
	}
	r := (s.ISL / t.PrefillTPS) / (s.OSL / t.DecodeTPS)
	p := PhaseRatio{
		Shape: s, Ratio: r, Text: ratioText(r),
		PrefillShare: r / (1 + r),
		// Groups 1 + r by ratio, 2·max(1, r) at 1:1, for the same work.
		SavingOver1To1: 1 - (1+r)/(2*max(1, r)),
		Provenance:     t.Provenance,
	}
	p.Disaggregate = p.PrefillShare >= littlePrefill
	if p.Disaggregate {
		p.Why = fmt.Sprintf("prefill takes %.3g %% of an aggregated group's time, so prompts often delay decoding. Separate pools keep ITL even", 100*p.PrefillShare)
	} else {
		p.Why = fmt.Sprintf("prefill takes only %.2g %% of an aggregated group's time. Separate pools gain little, and cost KV transfer and whole groups", 100*p.PrefillShare)
	}
	return p, nil
}

// ratioText is r as 1:x or x:1 with three digits; more where three would say
// 1:1 of a ratio that is not.
func ratioText(r float64) string {
	if r < 1 {
		return "1:" + digits(1/r)
	}
	return digits(r) + ":1"
}

// digits is x of at least 1 with three significant digits, or more where it is
// not 1 but would print as 1; a difference below 1e-9 is rounding.
func digits(x float64) string {
	decimals := max(0, 2-int(math.Floor(math.Log10(x))))
	for ; ; decimals++ {
		s := strconv.FormatFloat(x, 'f', decimals, 64)
		if strings.Contains(s, ".") {
			s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
		}
		if s != "1" || x-1 < 1e-9 {
			return s
		}
	}
}
