// Package dynamo runs a graph of NVIDIA Dynamo's local server, dynamo serve, as
// one engine: it reads the graph's configuration, makes of it the configuration
// with one aggregated worker that is to be measured, and says how that is started.
//
// It takes the text of a configuration, an engine.Config and what is particular to
// one launch; it gives an engine.Spec whose only file is the changed configuration.
// It refuses what dynamo serve could not run, and manifests for Kubernetes.
// Everything here is pure. Facts about dynamo serve are from
// github.com/ai-dynamo/dynamo, v0.2.1 to v0.3.2, read in November 2026; v0.4.0
// (2025-08-13) no longer has it.
package dynamo

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// The components and keys that decide how a graph is measured.
const (
	common    = "Common"
	frontend  = "Frontend"
	processor = "Processor"
	planner   = "Planner"
	balancer  = "SimpleLoadBalancer"

	inherited = "common-configs" // what a component takes from Common
	service   = "ServiceArgs"
)

// workers are the names under which a generation of graphs has its two workers,
// and the switches that make it serve without the prefill worker.
type workers struct {
	prefill, decode string
	off             [2]place
}

// place is a key of a component; empty where there is none.
type place struct{ component, key string }

// generations are those of examples/llm and of examples/vllm_v1; an aggregated
// graph runs the decode worker.
func generations() []workers {
	return []workers{
		{"PrefillWorker", "VllmWorker", [2]place{{"VllmWorker", "remote-prefill"}, {"VllmWorker", "conditional-disagg"}}},
		{"VllmPrefillWorker", "VllmDecodeWorker", [2]place{{balancer, "enable_disagg"}}},
	}
}

// ErrNotGraph is what Read returns of a document that is no graph configuration.
var ErrNotGraph = errors.New("it is no graph configuration of Dynamo: want components, such as Frontend and VllmWorker, with a mapping each")

// ErrManifest is what Read returns of a manifest for Kubernetes.
var ErrManifest = errors.New("it is a manifest for Kubernetes, not the configuration that dynamo serve -f takes")

// Graph is the configuration of a graph. It is a value that nothing changes:
// each variant is made from its text anew.
type Graph struct {
	text    string
	workers workers
}

// Read reads the configuration of a graph, one YAML document. Components and keys
// that it does not know are kept.
func Read(text []byte) (Graph, error) {
	doc, err := decode(text)
	if err != nil {
		return Graph{}, err
	}
	if isManifest(doc) {
		return Graph{}, ErrManifest
	}
	if len(doc) == 0 {
		return Graph{}, ErrNotGraph
	}
	for _, c := range doc {
		if _, ok := c.Value.(yaml.MapSlice); !ok {
			return Graph{}, fmt.Errorf("component %v holds no mapping: %w", c.Key, ErrNotGraph)
		}
	}
	g := Graph{text: faithful(text, doc)}
	if _, ok := component(doc, frontend); !ok {
		return Graph{}, fmt.Errorf("it has no component %s, which serves the requests", frontend)
	}
	var names []string
	for _, w := range generations() {
		if _, ok := component(doc, w.decode); ok {
			g.workers = w
			return g, g.check(doc)
		}
		names = append(names, w.decode)
	}
	return Graph{}, fmt.Errorf("it has no worker: want a component %s", strings.Join(names, " or "))
}

// check finds values that could not be changed for a variant.
func (g Graph) check(doc yaml.MapSlice) error {
	for _, name := range []string{g.workers.prefill, g.workers.decode} {
		w, ok := component(doc, name)
		if !ok {
			continue
		}
		args, ok := item(w, service)
		if !ok {
			continue
		}
		m, ok := args.(yaml.MapSlice)
		if !ok {
			return fmt.Errorf("%s.%s: want a mapping", name, service)
		}
		if r, ok := item(m, "resources"); ok {
			if _, ok := r.(yaml.MapSlice); !ok {
				return fmt.Errorf("%s.%s.resources: want a mapping", name, service)
			}
		}
	}
	return nil
}

// decode is the one document as an ordered mapping; empty where it is empty.
func decode(text []byte) (yaml.MapSlice, error) {
	d := yaml.NewDecoder(strings.NewReader(string(text)), yaml.UseOrderedMap())
	var doc any
	if err := d.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.New(firstLine(yaml.FormatError(err, false, false)))
	}
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, errors.New("it holds more than one document: want one")
	}
	m, ok := doc.(yaml.MapSlice)
	if !ok && doc != nil {
		return nil, ErrNotGraph
	}
	return m, nil
}

// faithful is the text itself where the library writes what it reads of it, and
// where no anchor makes two places one; else the same values written out.
func faithful(text []byte, doc yaml.MapSlice) string {
	f, err := parser.ParseBytes(text, parser.ParseComments)
	if err == nil && len(f.Docs) == 1 && !anchored(f) {
		if again, err := decode([]byte(f.String())); err == nil && reflect.DeepEqual(again, doc) {
			return string(text)
		}
	}
	out, err := yaml.Marshal(doc)
	if err != nil {
		return string(text) // a decoded document is written; if not, the variant says so
	}
	return string(out)
}

// anchored reports whether a file has anchors, aliases, tags or merge keys.
func anchored(f *ast.File) bool {
	found := false
	for _, d := range f.Docs {
		ast.Walk(visitor(func(n ast.Node) {
			switch n.Type() {
			case ast.AnchorType, ast.AliasType, ast.MergeKeyType, ast.TagType, ast.MappingKeyType:
				found = true
			default:
			}
		}), d)
	}
	return found
}

type visitor func(ast.Node)

// Visit implements ast.Visitor.
func (v visitor) Visit(n ast.Node) ast.Visitor {
	v(n)
	return v
}

// isManifest reports whether a document is an object of Kubernetes.
func isManifest(doc yaml.MapSlice) bool {
	_, version := item(doc, "apiVersion")
	_, kind := item(doc, "kind")
	return version && kind
}

// Model is the name under which the graph serves its model; empty where none is given.
func (g Graph) Model() string {
	doc := g.doc()
	for _, name := range []string{common, frontend} {
		c, _ := component(doc, name)
		if v, ok := item(c, "served_model_name"); ok {
			return fmt.Sprint(v)
		}
	}
	return ""
}

// Text is the configuration as it is read; it differs from what was given only
// where anchors had to be written out.
func (g Graph) Text() string { return g.text }

// Components are the names of the graph's components, in order.
func (g Graph) Components() []string {
	var names []string
	for _, c := range g.doc() {
		names = append(names, fmt.Sprint(c.Key))
	}
	return names
}

// MaxModelLen is the longest context that both workers are configured for, in
// tokens; 0 where the engine decides.
func (g Graph) MaxModelLen() int {
	least := 0
	for _, n := range g.numbers("max-model-len") {
		if least == 0 || n < least {
			least = n
		}
	}
	return least
}

// Stages is the most pipeline stages that a worker of the graph is configured
// for; a variant has one.
func (g Graph) Stages() int {
	return slices.Max(append(g.numbers("pipeline-parallel-size"), 1))
}

// numbers are the workers' values of a key that are whole numbers above 0.
func (g Graph) numbers(key string) []int {
	doc := g.doc()
	var out []int
	for _, name := range []string{g.workers.prefill, g.workers.decode} {
		v, _ := effective(doc, name, key)
		if n, ok := v.(uint64); ok && 0 < n && n < 1<<40 {
			out = append(out, int(n))
		}
	}
	return out
}

func (g Graph) doc() yaml.MapSlice {
	doc, _ := decode([]byte(g.text)) // Read has decoded it
	return doc
}

// effective is the value that a component runs with: its own, or Common's where it
// takes that key from there.
func effective(doc yaml.MapSlice, name, key string) (any, bool) {
	c, ok := component(doc, name)
	if !ok {
		return nil, false
	}
	if v, ok := item(c, key); ok {
		return v, true
	}
	keys, _ := item(c, inherited)
	list, _ := keys.([]any)
	if !slices.ContainsFunc(list, func(k any) bool { return same(fmt.Sprint(k), key) }) {
		return nil, false
	}
	shared, _ := component(doc, common)
	return item(shared, key)
}

func component(doc yaml.MapSlice, name string) (yaml.MapSlice, bool) {
	for _, c := range doc {
		if c.Key == name {
			m, ok := c.Value.(yaml.MapSlice)
			return m, ok
		}
	}
	return nil, false
}

// item is the value of a key of a component.
func item(m yaml.MapSlice, key string) (any, bool) {
	for _, kv := range m {
		if same(fmt.Sprint(kv.Key), key) {
			return kv.Value, true
		}
	}
	return nil, false
}

// same reports whether two spellings are one key: each becomes a flag of the
// worker, and those take an underscore for a hyphen.
func same(a, b string) bool {
	return strings.ReplaceAll(a, "_", "-") == strings.ReplaceAll(b, "_", "-")
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
