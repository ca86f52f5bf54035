package observe

import (
	"math"

	"plimsoll/planner"
)

// Bounds are the bounds of the histograms of an engine, or of Dynamo's frontend, as they are
// shipped; none for another preset. Behind Dynamo's frontend TPOT is an engine's.
func Bounds(preset string) planner.Bounds {
	switch preset {
	case "vllm": // vllm/v1/metrics/loggers.py, the same from 0.10 to 0.32
		return planner.Bounds{TTFT: vllmTTFT(), ITL: vllmITL(), TPOT: vllmITL(), E2E: vllmE2E(), ISL: oneTwoFive(), OSL: oneTwoFive()}
	case "trtllm": // tensorrt_llm/metrics/collector.py of its main branch, November 2026
		return planner.Bounds{TTFT: vllmTTFT(), TPOT: vllmITL(), E2E: vllmE2E()}
	case "sglang": // sglang/srt/observability/metrics_collector.py, 0.5.23
		seconds := []float64{0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400}
		gaps := []float64{0.002, 0.004, 0.006, 0.008, 0.010, 0.015, 0.020, 0.025, 0.030, 0.035, 0.040, 0.060, 0.080, 0.100, 0.2, 0.4, 0.6, 0.8, 1, 2, 4, 6, 8}
		tokens := []float64{100, 300, 500, 700, 1000, 1500, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000, 10_000, 12_500, 15_000, 17_500, 20_000, 22_500, 25_000, 27_500, 30_000, 35_000, 40_000, 60_000, 80_000, 100_000, 200_000, 300_000, 400_000, 600_000, 800_000, 1_000_000, 1_100_000}
		return planner.Bounds{TTFT: seconds, ITL: gaps, TPOT: gaps, E2E: append(seconds[:len(seconds):len(seconds)], 600, 1200, 1800, 2400), ISL: tokens, OSL: tokens}
	case "dynamo": // read from its frontend, 1.6.1
		return planner.Bounds{
			TTFT: []float64{0, 0.0022, 0.0047, 0.01, 0.022, 0.047, 0.1, 0.22, 0.47, 1, 2.2, 4.7, 10, 22, 48, 100, 220, 480},
			ITL:  []float64{0, 0.0018, 0.0033, 0.0059, 0.011, 0.02, 0.035, 0.064, 0.12, 0.21, 0.38, 0.69, 1.2, 2.3, 4.1, 7.4, 13, 24, 44, 80},
			TPOT: vllmITL(),
			E2E:  []float64{0, 2, 4, 8, 16, 32, 64, 130, 260, 510},
			ISL:  []float64{0, 100, 210, 430, 870, 1800, 3600, 7400, 15_000, 31_000, 63_000, 130_000},
			OSL:  []float64{0, 100, 210, 430, 880, 1800, 3700, 7600, 16_000, 32_000},
		}
	}
	return planner.Bounds{}
}

func vllmTTFT() []float64 {
	return []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
}

func vllmITL() []float64 {
	return []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
}

func vllmE2E() []float64 {
	return []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
}

// oneTwoFive are 1, 2 and 5 times the powers of ten, up to the longest context (vLLM's
// build_1_2_5_buckets): a million tokens here.
func oneTwoFive() (out []float64) {
	for ten := range 6 {
		for _, times := range []float64{1, 2, 5} {
			out = append(out, times*math.Pow10(ten))
		}
	}
	return append(out, 1e6)
}
