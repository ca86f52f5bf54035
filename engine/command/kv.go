package command

import (
	"fmt"
	"io"
	"regexp"
	"slices"

	"plimsoll/engine"
	"plimsoll/engine/kvlog"
	"plimsoll/engine/llamacpp"
	"plimsoll/engine/sglang"
	"plimsoll/engine/trtllm"
	"plimsoll/engine/vllm"
)

// ParseKVPattern compiles a user's pattern for the line with the KV capacity. It
// must have one group, the number of tokens, or two, whose product it is (vLLM's
// "for T tokens per request: Cx"). Numbers may have commas.
func ParseKVPattern(s string) (*regexp.Regexp, error) {
	re, err := regexp.Compile(s)
	if err != nil {
		return nil, fmt.Errorf("KV tokens pattern %q: %w", s, err)
	}
	switch re.NumSubexp() {
	case 1, 2:
		return re, nil
	case 0:
		return nil, fmt.Errorf("KV tokens pattern %q: put the number in parentheses, as in \"KV cache size: ([0-9,]+) tokens\"", s)
	default:
		return nil, fmt.Errorf("KV tokens pattern %q: it has %d groups; want one (tokens) or two (their product): write (?:…) for those that only group", s, re.NumSubexp())
	}
}

// KVTokens reads the engine's log for its KV capacity in tokens: with KVPattern
// the number in the last line that matches, taken for the whole engine; without,
// what the engines that are known by name would print.
func (t Template) KVTokens(cfg engine.Config, log io.Reader) (int, error) {
	lines := slices.Concat(vllm.KVLines(), sglang.KVLines(), trtllm.KVLines(), llamacpp.KVLines())
	if t.KVPattern != nil {
		lines = []kvlog.Line{{Pattern: t.KVPattern, Whole: true}}
	}
	return kvlog.Tokens(log, lines, cfg.Parallelism.Normal().DP)
}
