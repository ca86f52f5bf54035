package dynamo

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"plimsoll/engine"
)

// variant is one configuration under change.
type variant struct {
	file *ast.File
	doc  yaml.MapSlice // what file held before any change
	err  error         // the first
}

// Variant is the configuration of the same graph with a single aggregated worker
// that runs cfg behind a frontend on port, as text. Of a disaggregated graph it is
// the prefill worker under the decode worker's name where cfg has no prefix
// caching, or prefills; else the decode worker. The graph itself stays as it is.
//
// It sets what upstream's profiler did (profile_sla.py, convert_config and
// set_config_tp_size): no prefix caching for prefill and prefix caching for
// decode, one worker with tensor parallelism alone and as many GPUs, no remote
// prefill, a round-robin router, a planner that does nothing. Beyond that the
// router of the worker itself is set, because kv there turns prefix caching back
// on, and what cfg limits.
func (g Graph) Variant(cfg engine.Config, port int) (string, error) {
	p := cfg.Parallelism.Normal()
	if p != engine.TP(p.TP) {
		return "", fmt.Errorf("layout %s: the workers of a graph take tensor parallelism alone", p.Label())
	}
	if port < 1 || port > 65535 {
		return "", fmt.Errorf("port %d: want 1 to 65535", port)
	}
	file, err := parser.ParseBytes([]byte(g.text), parser.ParseComments)
	if err != nil {
		return "", fmt.Errorf("reading the graph: %w", err)
	}
	v := &variant{file: file, doc: g.doc()}
	v.choose(g.workers, prefills(cfg))
	v.doc, err = decode([]byte(file.String()))
	if err != nil {
		return "", fmt.Errorf("leaving one worker in the graph: %w", err)
	}
	v.route(g.workers)
	v.worker(g.workers.decode, cfg)
	v.limit(g.workers.decode, cfg)
	v.set(frontend, "port", strconv.Itoa(port))
	if v.has(planner) {
		v.set(planner, "no-operation", "true")
	}
	if v.err != nil {
		return "", v.err
	}
	return v.whole(), nil
}

// prefills reports whether cfg is measured for its prefill.
func prefills(cfg engine.Config) bool {
	switch cfg.Role {
	case engine.RolePrefill:
		return true
	case engine.RoleDecode:
		return false
	default:
		return !cfg.PrefixCaching
	}
}

// choose leaves one worker, under the decode worker's name.
func (v *variant) choose(w workers, prefill bool) {
	if !v.has(w.prefill) {
		return
	}
	gone := w.prefill
	if prefill {
		gone = w.decode
	}
	root, err := v.root()
	if err != nil {
		v.err = err
		return
	}
	kept := root.Values[:0]
	for _, c := range root.Values {
		name := c.Key.GetToken().Value
		if name == gone {
			continue
		}
		if name == w.prefill {
			k := ast.String(c.Key.GetToken().Clone())
			k.Value, k.Token.Value, k.Token.Origin = w.decode, w.decode, w.decode
			c.Key = k
		}
		kept = append(kept, c)
	}
	root.Values = kept
}

// root is the mapping of components.
func (v *variant) root() (*ast.MappingNode, error) {
	if m, ok := v.file.Docs[0].Body.(*ast.MappingNode); ok {
		return m, nil
	}
	return nil, errors.New("the graph is no mapping of components")
}

// route makes the router send every request on to the one worker.
func (v *variant) route(w workers) {
	some := false
	for _, name := range []string{common, processor, w.decode} {
		c, _ := component(v.doc, name)
		if _, ok := item(c, "router"); ok {
			v.set(name, "router", "round-robin")
			some = true
		}
	}
	if !some && v.has(processor) {
		v.set(processor, "router", "round-robin")
	}
	for _, off := range w.off {
		if v.has(off.component) {
			v.set(off.component, off.key, "false")
		}
	}
}

// worker sets what makes it the one of cfg.
func (v *variant) worker(name string, cfg engine.Config) {
	tp := strconv.Itoa(cfg.Parallelism.Normal().TP)
	v.set(name, "enable-prefix-caching", strconv.FormatBool(!prefills(cfg)))
	v.set(name, "tensor-parallel-size", tp)
	if _, ok := effective(v.doc, name, "pipeline-parallel-size"); ok {
		v.set(name, "pipeline-parallel-size", "1")
	}
	c, _ := component(v.doc, name)
	args, _ := item(c, service)
	m, some := args.(yaml.MapSlice)
	if !some {
		v.set(name, service, "{workers: 1, resources: {gpu: "+tp+"}}")
		return
	}
	v.set(name+"."+service, "workers", "1")
	if _, ok := item(m, "resources"); ok {
		v.set(name+"."+service+".resources", "gpu", tp)
	} else {
		v.set(name+"."+service, "resources", "{gpu: "+tp+"}")
	}
}

// limit sets what cfg bounds; what is zero is left to the graph.
func (v *variant) limit(name string, cfg engine.Config) {
	number := func(key string, n int) {
		if n > 0 {
			v.set(name, key, strconv.Itoa(n))
		}
	}
	l := cfg.Limits
	number("max-num-seqs", l.MaxNumSeqs)
	number("max-num-batched-tokens", l.MaxNumBatchedTokens)
	number("max-model-len", l.MaxModelLen)
	number("block-size", l.BlockSize)
	if _, ok := effective(v.doc, processor, "max-model-len"); ok && l.MaxModelLen > 0 {
		v.set(processor, "max-model-len", strconv.Itoa(l.MaxModelLen)) // it refuses longer prompts itself
	}
	if cfg.KV == engine.FP8 {
		v.set(name, "kv-cache-dtype", "fp8")
	}
	if f := cfg.MemoryFraction; f > 0 {
		v.set(name, "gpu-memory-utilization", strconv.FormatFloat(f, 'g', -1, 64))
	}
}

func (v *variant) has(name string) bool {
	_, ok := component(v.doc, name)
	return ok
}

// set writes one key of a component, or of a mapping in it: under each spelling
// that is there, since the last of them would hold.
func (v *variant) set(path, key, value string) {
	if v.err != nil {
		return
	}
	spellings := v.spellings(path, key)
	if len(spellings) == 0 {
		spellings = []string{key}
	}
	at, err := yaml.PathString("$." + path)
	for _, k := range spellings {
		if err == nil {
			err = at.MergeFromReader(v.file, strings.NewReader(k+": "+value))
		}
	}
	if err != nil {
		v.err = fmt.Errorf("setting %s.%s to %s: %s", path, key, value, firstLine(err.Error()))
	}
}

// spellings are those of a key that stand in the mapping at path.
func (v *variant) spellings(path, key string) []string {
	m := v.doc
	for name := range strings.SplitSeq(path, ".") {
		next, _ := item(m, name)
		m, _ = next.(yaml.MapSlice)
	}
	var found []string
	for _, kv := range m {
		if s := fmt.Sprint(kv.Key); same(s, key) {
			found = append(found, s)
		}
	}
	return found
}

// whole is the text of the file, which ends with a newline and begins without one.
func (v *variant) whole() string {
	s := strings.TrimLeft(v.file.String(), "\n")
	if !strings.HasSuffix(s, "\n") {
		s += "\n"
	}
	return s
}
