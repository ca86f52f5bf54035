package dynamo

import (
	"slices"
	"strconv"
	"strings"

	"plimsoll/engine"
	"plimsoll/engine/sglang"
	"plimsoll/engine/trtllm"
	"plimsoll/engine/vllm"
)

// option is one flag with its values.
type option struct {
	name   string // with its dashes
	values []string
}

func (o option) words() []string { return append([]string{o.name}, o.values...) }

func (o option) value() string { return strings.Join(o.values, " ") }

// options are the flags of a command line; what stands before the first is left out.
func options(words []string) (all []option) {
	for _, w := range words {
		switch name, value, has := strings.Cut(w, "="); {
		case strings.HasPrefix(w, "--") && has:
			all = append(all, option{name, []string{value}})
		case len(w) > 1 && w[0] == '-' && (w[1] < '0' || w[1] > '9'):
			all = append(all, option{name: w})
		case len(all) > 0:
			all[len(all)-1].values = append(all[len(all)-1].values, w)
		}
	}
	return all
}

// owned are the flags that a profile says to an engine itself.
func owned(kind engine.Kind) []string {
	switch kind { //nolint:exhaustive // those of Dynamo's backends
	case engine.KindSGLang:
		return sglang.Owned()
	case engine.KindTRTLLM:
		return trtllm.Owned()
	}
	return vllm.Owned()
}

// dynamosOwn are the flags of Dynamo's workers that their engines do not have, or that
// say how workers of a deployment find each other.
func dynamosOwn() []string {
	return []string{
		"--served-model-name", "--skip-tokenizer-init", "--is-prefill-worker", "--is-decode-worker", "--disaggregation-mode",
		"--disaggregation-transfer-backend", "--disaggregation-bootstrap-port", "--disaggregation-strategy", "--kv-transfer-config", "--kv-events-config",
		"--connector", "--endpoint", "--namespace", "--component", "--migration-limit", "--publish-events-and-metrics", "--publish-kv-events", "--modality",
		"--request-plane", "--event-plane", "--store-kv", "--discovery-backend", "--custom-jinja-template", "--encode-endpoint", "--next-endpoint",
		"--multimodal-processor", "--multimodal-encode-worker", "--multimodal-worker", "--use-sglang-tokenizer", "--use-vllm-tokenizer",
		// of graphs
		"--remote-prefill", "--conditional-disagg", "--max-local-prefill-length", "--max-prefill-queue-size", "--router", "--router-num-threads",
		"--enable-disagg",
	}
}

// newWorker sorts the options of a worker.
func newWorker(kind engine.Kind, all []option) Worker {
	w := Worker{Kind: kind}
	for _, o := range all {
		name := hyphens(o.name)
		switch {
		case name == "--model" || name == "--model-path":
			w.Model = o.value()
			continue
		case strings.HasPrefix(name, "--dyn-"), slices.Contains(dynamosOwn(), name),
			slices.ContainsFunc(owned(kind), func(f string) bool { return same(f, name) }), name == "--extra-engine-args", name == "--override-engine-args":
			w.LeftOut = append(w.LeftOut, o.words()...)
			continue
		}
		w.Decode = append(w.Decode, o.words()...)
		if w.limit(name, o.value()) {
			continue
		}
		if kind == engine.KindTRTLLM { // whose server spells them so
			o.name = "--" + strings.ReplaceAll(name[2:], "-", "_")
		}
		w.Args = append(w.Args, o.words()...)
	}
	return w
}

// limit takes an option that is a limit of an engine, by each engine's name for it.
func (w *Worker) limit(name, value string) bool {
	number := func(to *int) bool {
		n, err := strconv.Atoi(value)
		if err == nil && n > 0 {
			*to = n
		}
		return err == nil && n > 0
	}
	switch name {
	case "--max-num-seqs", "--max-running-requests", "--max-batch-size":
		return number(&w.Limits.MaxNumSeqs)
	case "--max-num-batched-tokens", "--chunked-prefill-size", "--max-num-tokens":
		return number(&w.Limits.MaxNumBatchedTokens)
	case "--max-model-len", "--context-length", "--max-seq-len":
		return number(&w.Limits.MaxModelLen)
	case "--gpu-memory-utilization", "--mem-fraction-static", "--free-gpu-memory-fraction":
		w.MemoryFraction = value
		return true
	}
	return false
}

// beside is w, knowing what its prefill worker says to the engine.
func (w Worker) beside(kind engine.Kind, prefill []option) Worker {
	if p := newWorker(kind, prefill); len(prefill) > 0 && !slices.Equal(p.Decode, w.Decode) {
		w.Prefill = p.Decode
		return w
	}
	w.Decode = nil
	return w
}
