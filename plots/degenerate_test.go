package plots

import (
	"fmt"
	"strings"
	"time"

	"plimsoll/profile"
)

// degenerate are inputs that plots of real runs have to survive.
func degenerate() []pictureCase {
	with := func(change func(*Caption)) Caption { c := caption(); change(&c); return c }
	measured := with(func(c *Caption) { c.Provenance = profile.Measured })
	none := with(func(c *Caption) {
		c.Feasible, c.Note = false, "TP:4 failed to start (exit status 1: CUDA out of memory); TP:2 was skipped: 32 heads cannot be spread over 3 GPUs"
	})
	infeasible := with(func(c *Caption) {
		c.Feasible = false
		c.SLA = profile.SLA{TTFT: 20 * time.Millisecond, ITL: 3 * time.Millisecond, Stat: profile.P99}
		c.Provenance = profile.Estimated
	})
	return []pictureCase{
		{"one_point", func() (*Picture, error) { return PrefillPerformance(measured, prefillCandidates()[:1]) }},
		{"zero_points", func() (*Picture, error) { return PrefillPerformance(none, nil) }},
		{"zero_points_decode", func() (*Picture, error) { return DecodePerformance(none, nil) }},
		{"zero_samples_prefill", func() (*Picture, error) {
			return PrefillTTFTInterpolation(none, profile.PrefillSurface{}, ttftCurve(), Beside{})
		}},
		{"zero_samples_decode", func() (*Picture, error) {
			return DecodeITLInterpolation(none, profile.DecodeSurface{}, itlSurface(), nil)
		}},
		{"nothing_meets", func() (*Picture, error) {
			cs := prefillCandidates()
			for i := range cs {
				cs[i].Feasible, cs[i].Picked = false, i == 2
			}
			return PrefillPerformance(infeasible, cs)
		}},
		{"nothing_meets_decode", func() (*Picture, error) {
			cs := decodeCandidates()
			for i := range cs {
				cs[i].Feasible, cs[i].Picked = false, cs[i].Label == "TP:4" && cs[i].InFlight == 1
			}
			return DecodePerformance(infeasible, cs)
		}},
		{"nothing_meets_map", func() (*Picture, error) {
			return DecodeITLInterpolation(infeasible, decodeSurface(), itlSurface(), &Mark{KVUsage: 0.01, Context: 3075, Label: "TP:4 n=1"})
		}},
		{"equal_values", func() (*Picture, error) {
			var cs []Candidate
			for i := range 6 {
				cs = append(cs, Candidate{Label: fmt.Sprintf("TP:%d", 1<<i), Latency: msec(50), ThroughputPerGPU: 1000, Feasible: true, Picked: i == 0})
			}
			return PrefillPerformance(caption(), cs)
		}},
		{"huge_ranges", func() (*Picture, error) {
			var cs []Candidate
			for i := range 8 {
				cs = append(cs, Candidate{Label: fmt.Sprintf("TP:%d PP:2", 1<<i), Latency: time.Duration(1<<(4*i)) * time.Microsecond, ThroughputPerGPU: float64(int(1) << (3 * i)), Feasible: i < 5, Picked: i == 4})
			}
			return PrefillPerformance(caption(), cs)
		}},
		{"far_limit", func() (*Picture, error) {
			return PrefillPerformance(with(func(c *Caption) { c.SLA.TTFT = 5 * time.Second }), prefillCandidates())
		}},
		{"many_groups", func() (*Picture, error) {
			var cs []Candidate
			for g := range 40 {
				for n := 1; n <= 64; n *= 4 {
					l := fmt.Sprintf("TP:%d PP:%d", g%8+1, g/8+1)
					itl := 4 + float64(g)/3 + float64(n)/(6+float64(g))
					cs = append(cs, Candidate{Label: l, Group: l, Latency: msec(itl), InFlight: float64(n), ThroughputPerGPU: float64(n) * 1000 / itl / float64(g+1), Feasible: itl < 20})
				}
			}
			return DecodePerformance(caption(), cs)
		}},
		{"long_names", func() (*Picture, error) {
			long := strings.Repeat("a-very-long-organisation/", 6) + "And-A-Model-70B-Instruct-AWQ-INT4"
			c := with(func(c *Caption) {
				c.Model, c.GPU, c.Engine = long, strings.Repeat("GPU ", 40), strings.Repeat("engine ", 40)
				c.Note = strings.Repeat("This note goes on and on. ", 60)
				c.Provenance = profile.Published
			})
			cs := prefillCandidates()
			cs[1].Label = long
			return PrefillPerformance(c, cs)
		}},
		{"one_sample", func() (*Picture, error) {
			s := prefillSurface()
			s.Samples = s.Samples[3:4]
			return PrefillTTFTInterpolation(caption(), s, nil, Beside{})
		}},
		{"target_outside", func() (*Picture, error) {
			return PrefillTTFTInterpolation(with(func(c *Caption) { c.ISL = 24000; c.Provenance = profile.Measured }), prefillSurface(), ttftCurve(), Beside{})
		}},
		{"one_context_row", func() (*Picture, error) {
			s := decodeSurface()
			s.Samples = s.Samples[6:12]
			return DecodeITLInterpolation(caption(), s, itlSurface(), &Mark{KVUsage: 0.3, Context: 2925, Label: "TP:1 n=40"})
		}},
		{"one_usage_column", func() (*Picture, error) {
			s := decodeSurface()
			var col []profile.DecodeSample
			for i := 0; i < len(s.Samples); i += 6 {
				d := s.Samples[i]
				d.KVUsage = 0.5
				col = append(col, d)
			}
			s.Samples = col
			return DecodeThroughputInterpolation(caption(), s, throughputSurface(), itlSurface(), nil)
		}},
		{"no_fit", func() (*Picture, error) {
			return DecodeThroughputInterpolation(caption(), decodeSurface(), nil, nil, nil)
		}},
		{"flat_surface", func() (*Picture, error) {
			flat := measuredRange(func(_, _ float64) float64 { return 12 })
			return DecodeITLInterpolation(caption(), decodeSurface(), flat, nil)
		}},
		{"no_sla", func() (*Picture, error) {
			c := with(func(c *Caption) { c.SLA, c.ISL, c.OSL = profile.SLA{}, 0, 0 })
			return DecodeITLInterpolation(c, decodeSurface(), itlSurface(), nil)
		}},
	}
}
