// Package dynamo reads the files in which NVIDIA Dynamo says what an engine is
// started with: the configuration of a graph, as dynamo serve took it (v0.2 and v0.3),
// and a DynamoGraphDeployment, v1alpha1 or v1beta1. It takes the text; it gives the
// Worker: engine, model and the engine's own arguments. The other way round it
// takes an engine.Config and gives the arguments of the worker that runs it. Everything
// here is pure.
//
// Facts about the formats are from github.com/ai-dynamo/dynamo (examples/llm/configs at
// v0.2.1 to v0.3.0, examples/vllm_v1 at v0.3.2, examples/backends in 2026), read in
// November 2026.
package dynamo

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/goccy/go-yaml"

	"plimsoll/engine"
)

// Worker is the engine that a deployment of Dynamo decodes on, or does all on.
type Worker struct {
	Kind  engine.Kind // vllm, sglang or trtllm
	Model string      // as the engine is asked for it
	Args  []string    // arguments of the engine's own program
	// LeftOut are the arguments that are Dynamo's own, that a profile decides (layout,
	// address, prefix caching), or that TensorRT-LLM's server takes in a file alone.
	LeftOut []string
	// Prefill are the arguments for the engine of the prefill worker, where there is one
	// and they are others.
	Prefill []string
}

// ErrOther is what Read returns of a document that is none of Dynamo's.
var ErrOther = errors.New("it is neither a graph of Dynamo, with components such as Frontend and VllmWorker, nor a DynamoGraphDeployment")

// Read reads one YAML document.
func Read(text []byte) (Worker, error) {
	doc, err := decode(text)
	if err != nil {
		return Worker{}, err
	}
	if kind, ok := doc.get("kind"); ok {
		if kind != "DynamoGraphDeployment" {
			return Worker{}, fmt.Errorf("it is a manifest of kind %v: want a DynamoGraphDeployment", kind)
		}
		return readDeployment(doc)
	}
	return readGraph(doc)
}

// mapping is a mapping in the file's order.
type mapping yaml.MapSlice

// get is the value of a key; keys become flags, and those take an underscore for a
// hyphen.
func (m mapping) get(key string) (any, bool) {
	for _, kv := range m {
		if same(fmt.Sprint(kv.Key), key) {
			return kv.Value, true
		}
	}
	return nil, false
}

// at is the mapping under a path of keys; nil where there is none.
func (m mapping) at(path ...string) mapping {
	for _, key := range path {
		v, _ := m.get(key)
		next, _ := v.(yaml.MapSlice)
		m = mapping(next)
	}
	return m
}

func (m mapping) text(key string) string {
	v, _ := m.get(key)
	s, _ := v.(string)
	return s
}

// words are the items of a list.
func (m mapping) words(key string) (out []string) {
	v, _ := m.get(key)
	list, _ := v.([]any)
	for _, w := range list {
		out = append(out, fmt.Sprint(w))
	}
	return out
}

// mappings are those of a list.
func (m mapping) mappings(key string) (out []mapping) {
	v, _ := m.get(key)
	list, _ := v.([]any)
	for _, w := range list {
		if o, ok := w.(yaml.MapSlice); ok {
			out = append(out, mapping(o))
		}
	}
	return out
}

func same(a, b string) bool { return hyphens(a) == hyphens(b) }

func hyphens(s string) string { return strings.ReplaceAll(s, "_", "-") }

func decode(text []byte) (mapping, error) {
	d := yaml.NewDecoder(strings.NewReader(string(text)), yaml.UseOrderedMap())
	var doc any
	if err := d.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		line, _, _ := strings.Cut(strings.TrimSpace(yaml.FormatError(err, false, false)), "\n")
		return nil, errors.New(line)
	}
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, errors.New("it holds more than one document: want one")
	}
	m, _ := doc.(yaml.MapSlice)
	return mapping(m), nil
}

// readGraph reads the configuration of a graph, whose workers are vLLM's.
func readGraph(doc mapping) (Worker, error) {
	for _, names := range [][2]string{{"VllmWorker", "PrefillWorker"}, {"VllmDecodeWorker", "VllmPrefillWorker"}} {
		if doc.at(names[0]) == nil {
			continue
		}
		w := newWorker(engine.KindVLLM, doc.component(names[0]))
		if w.Model == "" {
			return Worker{}, fmt.Errorf("component %s names no model", names[0])
		}
		return w.beside(doc.component(names[1])), nil
	}
	return Worker{}, ErrOther
}

// component are the arguments that a component of a graph is started with: what it takes
// from Common, then its own.
func (m mapping) component(name string) (all []string) {
	own := m.at(name)
	add := func(key string, value any) {
		if _, nested := value.(yaml.MapSlice); nested || key == "common-configs" { // no flags: ServiceArgs and what to take from Common
			return
		}
		switch text := fmt.Sprint(value); text {
		case "false", "no", "off", "<nil>": // as PyYAML, which Dynamo has, reads them
		case "true", "yes", "on":
			all = append(all, "--"+hyphens(key))
		default:
			all = append(all, "--"+hyphens(key), text)
		}
	}
	for _, key := range own.words("common-configs") {
		if v, ok := m.at("Common").get(key); ok {
			if _, said := own.get(key); !said {
				add(key, v)
			}
		}
	}
	for _, kv := range own {
		add(fmt.Sprint(kv.Key), kv.Value)
	}
	return all
}
