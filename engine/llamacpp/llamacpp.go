// Package llamacpp starts llama.cpp's server, llama-server, and reads what its log
// tells. It takes an engine.Config and what is particular to one launch; it gives
// an engine.Spec. On GPUs TP is how many share each layer's rows and PP how many
// share the layers; without GPUs TP is CPU threads. It refuses what llama.cpp does
// not have: data and expert parallelism, an fp8 KV cache, a share of a GPU's
// memory. Everything here is pure.
package llamacpp

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/argv"
	"plimsoll/engine/field"
	"plimsoll/engine/kvlog"
)

// Server is llama-server, by the flags of its builds since late 2025
// (llama-server --help of b11669, and tools/server/README.md).
type Server struct {
	Program      string        // empty: llama-server, on PATH
	CPU          bool          // there are no GPUs: TP is threads
	Extra        []string      // arguments after all others
	ReadyTimeout time.Duration // zero: as engine/process decides
}

// Spec is the process that runs cfg. It is ready when /health, which answers 503
// while the model loads, says so.
func (s Server) Spec(cfg engine.Config, l engine.Launch) (engine.Spec, error) {
	if err := s.check(cfg); err != nil {
		return engine.Spec{}, fmt.Errorf("llamacpp: %w", err)
	}
	line := argv.Line{cmp.Or(s.Program, "llama-server")}
	line.Words(model(cfg.Model)...)
	line.Address(l)
	line.Words("--metrics", "--no-webui") // of the latter's two names, the one that older builds have too
	s.devices(&line, cfg.Parallelism.Normal())
	flags(&line, cfg)
	line.Words(s.Extra...)
	return line.Spec(cfg, l, "/health", s.ReadyTimeout), nil
}

func (s Server) check(cfg engine.Config) error {
	p := cfg.Parallelism.Normal()
	switch {
	case cfg.Model == "":
		return errors.New("no model is given: name a GGUF file, or a Hugging Face repository of them")
	case p.DP > 1 || p.EP > 1:
		return errors.New("it has no data or expert parallelism")
	case s.CPU && p.PP > 1:
		return errors.New("threads have no pipeline stages")
	case p.TP > 1 && p.PP > 1:
		return errors.New("it splits a model by rows or by layers, not both")
	case cfg.KV != "" && cfg.KV != engine.BF16:
		return fmt.Errorf("it has no %s KV cache: give -ctk q8_0 -ctv q8_0 as arguments of its own", cfg.KV)
	case cfg.MemoryFraction > 0:
		return errors.New("it takes no share of a GPU's memory: it needs what weights and -c take")
	}
	return nil
}

// model is a file, or a repository on Hugging Face ("user/name" or
// "user/name:quantization"), which alone may use the network.
func model(name string) []string {
	file := strings.HasSuffix(strings.ToLower(name), ".gguf") || strings.HasPrefix(name, "/") || strings.HasPrefix(name, ".")
	if file || !strings.Contains(name, "/") {
		return []string{"-m", name, "--offline"}
	}
	return []string{"-hf", name}
}

// Arguments are what llama-server's mean.
func (s Server) Arguments() argv.Table {
	layout := argv.Row{Names: "-sm --split-mode", Of: field.Parallelism}
	if s.CPU {
		layout = argv.Row{Names: "-t --threads -tb --threads-batch", Of: field.TP}
	}
	return argv.Table{
		layout,
		{Names: "-m --model -hf -hfr --hf-repo", Of: field.Model},
		{Names: "--host --port --cache-prompt --no-cache-prompt -cram --cache-ram", Of: argv.Profile},
		{Names: "-np --parallel", Of: field.MaxNumSeqs},
		{Names: "-c --ctx-size", Of: argv.AllSlots},
		{Names: "-b --batch-size", Of: field.MaxNumBatchedTokens},
		{Names: argv.Common + "-s -a --alias --jinja --no-jinja --metrics --no-webui --offline --props --slots --no-slots --warmup --no-warmup -v --verbose -lv --mlock --mmap --no-mmap", Of: argv.Harmless},
	}
}

// devices is where the layers go. The split by rows is the one in which GPUs work
// on the same layer at the same time; that by layers is a pipeline.
func (s Server) devices(line *argv.Line, p engine.Parallelism) {
	if s.CPU {
		line.Number("-t", p.TP)
		line.Number("-tb", p.TP)
		return
	}
	split := "none"
	switch {
	case p.TP > 1:
		split = "row"
	case p.PP > 1:
		split = "layer"
	}
	line.Words("-ngl", "999", "--split-mode", split) // 999: all layers, as older builds say it
}

// flags of the configuration; what is zero is left to llama.cpp, which then has
// four slots that share one context. Slots that are asked for have a context
// each, and -c is their sum.
func flags(line *argv.Line, cfg engine.Config) {
	line.Number("-np", cfg.Limits.MaxNumSeqs)
	line.Number("-c", cfg.Limits.MaxModelLen*max(cfg.Limits.MaxNumSeqs, 1))
	line.Number("-b", cfg.Limits.MaxNumBatchedTokens)
	if !cfg.PrefixCaching {
		line.Words("--no-cache-prompt", "-cram", "0") // neither in a slot nor in the store of old prompts
	}
}

// KVLines are the lines in which llama.cpp's server states its KV capacity: slots
// with a context each or one that they share (b11669), and the whole context,
// which builds of 2025 print.
func KVLines() []kvlog.Line {
	return []kvlog.Line{
		{Pattern: apart, Whole: true},
		{Pattern: shared, Whole: true},
		{Pattern: context, Whole: true},
	}
}

var (
	apart   = regexp.MustCompile(`n_slots = ([0-9]+), n_ctx_slot = ([0-9]+), kv_unified = 'false'`)
	shared  = regexp.MustCompile(`n_ctx_slot = ([0-9]+), kv_unified = 'true'`)
	context = regexp.MustCompile(`llama_(?:context|new_context_with_model): n_ctx +[=:] *([0-9]+)`)
)

// KVTokens reads llama-server's log for its KV capacity in tokens.
func (Server) KVTokens(_ engine.Config, log io.Reader) (int, error) {
	return kvlog.Tokens(log, KVLines(), 1)
}
