package dynamo

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"plimsoll/engine"
	"plimsoll/engine/argv"
	"plimsoll/engine/field"
	"plimsoll/engine/sglang"
	"plimsoll/engine/trtllm"
	"plimsoll/engine/vllm"
)

// arguments are what those of a worker of Dynamo mean: its own, then its engine's.
func arguments(kind engine.Kind) argv.Table {
	own := argv.Table{{Names: dynamosOwn, Of: argv.Profile}}
	switch kind { //nolint:exhaustive // those of Dynamo's backends
	case engine.KindSGLang:
		return append(own, sglang.Arguments()...)
	case engine.KindTRTLLM:
		return append(own, trtllm.Arguments()...)
	}
	return append(own, vllm.Arguments()...)
}

// dynamosOwn are the arguments of Dynamo's workers that their engines do not have, or
// that say how workers of a deployment find each other.
const dynamosOwn = "--dyn-* --skip-tokenizer-init --is-prefill-worker --is-decode-worker --disaggregation-* --kv-transfer-config --kv-events-config " +
	"--connector --endpoint --namespace --component --migration-limit --publish-events-and-metrics --publish-kv-events --modality " +
	"--request-plane --event-plane --store-kv --discovery-backend --custom-jinja-template --encode-endpoint --next-endpoint " +
	"--multimodal-* --enable-multimodal --route-to-encoder --frontend-decoding --use-sglang-tokenizer --use-vllm-tokenizer --prefill-round-robin-balance " +
	"--conversation-affinity* --cache-transceiver-config* --extra-engine-args --override-engine-args " +
	// of graphs
	"--remote-prefill --conditional-disagg --max-local-prefill-length --max-prefill-queue-size --router --router-num-threads --enable-disagg "

// newWorker sorts the arguments of a worker.
func newWorker(kind engine.Kind, words []string) Worker {
	w, ranks := Worker{Kind: kind}, 1
	words, keys := inFile(words)
	all := arguments(kind).Arguments(words)
	for _, a := range all {
		if n, err := strconv.Atoi(a.Value()); err == nil && slices.Contains([]string{"--dp-size", "--data-parallel-size", "--dp"}, hyphens(a.Name)) &&
			slices.ContainsFunc(all, func(o argv.Argument) bool { return same(o.Name, "--enable-dp-attention") }) {
			ranks = max(n, 1)
		}
	}
	own := len(all)
	for i, a := range append(all, arguments(kind).Arguments(keys)...) {
		switch {
		case a.Of == field.Model:
			w.Model = a.Value()
		case a.Owned(), i >= own && !a.Taken():
			w.LeftOut = append(w.LeftOut, a.Words()...)
		default:
			if n, err := strconv.Atoi(a.Value()); err == nil && n >= ranks && (a.Of == field.MaxNumSeqs || a.Of == field.MaxNumBatchedTokens) {
				a.Values = []string{strconv.Itoa(n / ranks)} // that attention replicas share
			}
			if name, long := strings.CutPrefix(a.Name, "--"); long && kind == engine.KindTRTLLM { // whose server spells them so
				a.Name = "--" + strings.ReplaceAll(name, "-", "_")
			}
			w.Args = append(w.Args, a.Words()...)
		}
	}
	return w
}

// inFile are the words of TensorRT-LLM's worker without those that say keys of its
// server's file, and these as arguments: --override-engine-args holds a mapping,
// --trtllm.KEY.KEY a value.
func inFile(words []string) (others, keys []string) {
	var add func(name string, value any)
	add = func(name string, value any) {
		m, nested := value.(yaml.MapSlice)
		for _, kv := range m {
			add(name+"."+fmt.Sprint(kv.Key), kv.Value)
		}
		if !nested {
			keys = append(keys, "--"+strings.TrimPrefix(name, "."), fmt.Sprint(value))
		}
	}
	for _, a := range (argv.Table{}).Arguments(words) {
		if key, dotted := strings.CutPrefix(a.Name, "--trtllm"); dotted {
			add(key, a.Value())
			continue
		}
		if same(a.Name, "--override-engine-args") {
			if m, err := decode([]byte(a.Value())); err == nil && m != nil {
				add("", yaml.MapSlice(m))
				continue
			}
		}
		others = append(others, a.Words()...)
	}
	return others, keys
}

// beside is w, knowing what its prefill worker says to the engine.
func (w Worker) beside(prefill []string) Worker {
	if p := newWorker(w.Kind, prefill); len(prefill) > 0 && !slices.Equal(p.Args, w.Args) {
		w.Prefill = p.Args
	}
	return w
}
