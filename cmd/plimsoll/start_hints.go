package main

import (
	"fmt"
	"regexp"
	"slices"

	"plimsoll/engine"
	"plimsoll/profile"
)

// startHints are hints for engines that did not start: a remedy if the log names a known cause,
// otherwise how to pass arguments. An engine of --command has all of its arguments there.
func startHints(k engine.Kind, skips []profile.Skip) []string {
	e, real := realEngineOf(k)
	if !real {
		return nil
	}
	var hints []string
	for _, s := range skips {
		for _, r := range remedies {
			if m := r.cause.FindStringSubmatchIndex(s.Reason); m != nil {
				hints = append(hints, string(r.cause.ExpandString(nil, r.hint, s.Reason, m)))
			}
		}
	}
	if len(hints) == 0 {
		return []string{fmt.Sprintf("arguments after -- go to %s, for example -- %s; with others than before, start over with --force", e.program, e.example)}
	}
	slices.Sort(hints)
	return slices.Compact(hints) // of several layouts
}

// remedies map causes, in the engines' own words, to what certainly helps.
//
//nolint:gochecknoglobals // a table
var remedies = []struct {
	cause *regexp.Regexp
	hint  string
}{
	// vLLM 0.32, kv_cache_utils.py
	{regexp.MustCompile(`estimated maximum model length is (\d+)`), "--force … -- --max-model-len $1 starts over with the longest context that has room in the KV cache"},
	// vLLM 0.32, default_loader.py
	{regexp.MustCompile(`Cannot find any model weights`), "download the model whole; --force … -- --load-format dummy starts over with random weights"},
	// vLLM 0.32
	{regexp.MustCompile(`vllm: error: unrecognized arguments`), "vllm serve --help=all lists the arguments that may follow --; with others than before, start over with --force"},
	// llama.cpp, common/arg.cpp
	{regexp.MustCompile(`error: invalid argument: `), "llama-server --help lists the arguments that may follow --; with others than before, start over with --force"},
	// Transformers, dynamic_module_utils.py; vLLM and SGLang name the flag alike
	{regexp.MustCompile("pass the argument `?trust_remote_code=True"), "--force … -- --trust-remote-code starts over, and runs the code that comes with the model"},
	// Linux, EADDRINUSE
	{regexp.MustCompile(`(?i)address already in use`), "another process took the engine's port first; --resume takes another port"},
}
