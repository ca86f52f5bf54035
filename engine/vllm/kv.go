package vllm

import (
	"io"
	"math"
	"regexp"

	"plimsoll/engine"
	"plimsoll/engine/kvlog"
)

// KVLines are the lines in which vLLM states its KV capacity. Since 0.7.4 it
// states tokens (pull request 13596, February 2025), in 2026 both on one line
// (#54662), of other devices too; before, and in its v0 engine, only the second.
// Where workers have different room (pipeline stages), each gets lines of its own,
// and the engine takes the smallest (#25164, vllm/v1/core/kv_cache_utils.py).
func KVLines() []kvlog.Line {
	return []kvlog.Line{
		{Pattern: size, Least: true},
		{Pattern: concurrency, Least: true},
	}
}

var (
	size        = regexp.MustCompile(`[A-Z]PU(?: \+ host)? KV cache size: ([0-9][0-9,]*) tokens`)
	concurrency = regexp.MustCompile(`Maximum concurrency for ([0-9][0-9,]*) tokens per request: ([0-9][0-9,.]*)x`)
)

// agree is how far the two may be apart by rounding: C has two decimals and is at
// least 1, or vLLM would not have started.
const agree = 0.01

// kvTokens prefers the first, which is exact. Where the two contradict each other
// it takes the second: for models whose layers differ (attention and Mamba, say)
// 0.19 and before divide the first by groups that share their blocks
// (#40691); since then the first is computed from the second.
func kvTokens(cfg engine.Config, log io.Reader) (int, error) {
	kinds, err := kvlog.Kinds(log, KVLines(), cfg.Parallelism.Normal().DP)
	if err != nil {
		return 0, err
	}
	stated, product := kinds[0], kinds[1]
	switch {
	case stated == 0 || product > 0 && math.Abs(float64(stated-product)) > agree*float64(product):
		return product, nil
	default:
		return stated, nil
	}
}
