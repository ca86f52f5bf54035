package kube

import (
	"bytes"
	_ "embed" // the template
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/template"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"

	"plimsoll/engine"
)

//go:embed templates/engine.yaml
var engineTemplate string

// DefaultTemplate is the YAML of an engine, with text/template actions over
// Fields and the functions json, indent and include.
func DefaultTemplate() string { return engineTemplate }

// mostObjects is how many objects an engine may be made of.
const mostObjects = 32

// render are the objects of one engine.
func (o Options) render(f Fields) ([]*unstructured.Unstructured, error) {
	text, err := execute(o.Template, f)
	if err != nil {
		return nil, fmt.Errorf("template of the engine: %w", err)
	}
	list, err := decode(text)
	if err != nil {
		return nil, fmt.Errorf("template of the engine: %w", err)
	}
	if err := fits(list, f); err != nil {
		return nil, fmt.Errorf("template of the engine: %w", err)
	}
	return list, nil
}

// mostText is how long an engine's objects may be, in bytes: what etcd takes of
// one.
const mostText = 3 << 20

// mostDepth is how deep templates may include each other.
const mostDepth = 20

func execute(text string, f Fields) ([]byte, error) {
	t := template.New("engine").Option("missingkey=error")
	depth := 0
	t.Funcs(template.FuncMap{
		"json": jsonOf, "indent": indent,
		"include": func(name string, data any) (string, error) {
			depth++
			defer func() { depth-- }()
			if depth > mostDepth { // the package's own limit does not see through a function
				return "", fmt.Errorf("include %q: it includes itself without end", name)
			}
			b := &bounded{}
			err := t.ExecuteTemplate(b, name, data)
			return b.String(), err
		},
	})
	if _, err := t.Parse(text); err != nil {
		return nil, err
	}
	b := &bounded{}
	if err := t.Execute(b, f); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// bounded is a buffer that refuses what a template that repeats itself would put
// into it.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > mostText {
		return 0, fmt.Errorf("it comes to more than %d bytes", mostText)
	}
	return b.Buffer.Write(p)
}

// jsonOf writes any value so that YAML reads the same.
func jsonOf(v any) (string, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return strings.TrimSpace(b.String()), err
}

// indent puts n spaces before each line.
func indent(n int, s string) (string, error) {
	if n < 0 || n > 100 {
		return "", fmt.Errorf("indent %d: want 0 to 100", n)
	}
	pad := strings.Repeat(" ", n)
	return pad + strings.ReplaceAll(strings.Trim(s, "\n"), "\n", "\n"+pad), nil
}

func decode(text []byte) ([]*unstructured.Unstructured, error) {
	var list []*unstructured.Unstructured
	for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		var raw map[string]any
		err := d.Decode(&raw)
		switch {
		case errors.Is(err, io.EOF):
			return list, nil
		case err != nil:
			return nil, fmt.Errorf("what it comes to is no YAML: %w", err)
		case len(raw) == 0:
			continue
		case len(list) == mostObjects:
			return nil, fmt.Errorf("it makes more than %d objects", mostObjects)
		}
		o := &unstructured.Unstructured{}
		body, err := json.Marshal(raw)
		if err == nil {
			err = o.UnmarshalJSON(body)
		}
		if err != nil {
			return nil, fmt.Errorf("object %d: %w", len(list)+1, err)
		}
		list = append(list, o)
	}
}

// fits refuses objects that could not be found or told apart later.
func fits(list []*unstructured.Unstructured, f Fields) error {
	served := false
	for _, o := range list {
		what := o.GetKind() + " " + o.GetName()
		if !strings.Contains(o.GetName(), f.Name) {
			return fmt.Errorf("%s: its name has no {{.Name}}, so that two engines would share it", what)
		}
		if n := o.GetNamespace(); n != "" && n != f.Namespace {
			return fmt.Errorf("%s: it is in namespace %s, and the run in %s", what, n, f.Namespace)
		}
		if o.IsList() {
			return fmt.Errorf("%s: write its items as documents of their own", what)
		}
		if o.GetKind() == "Service" && !selects(o, f) {
			return fmt.Errorf("%s: its selector could match another's pods, which would be measured: write {{json .Selector}}", what)
		}
		pods := podTemplates(o)
		if len(pods) > 0 && hasEngine(pods[0]) {
			served = true
		}
		if f.Nodes > 1 && o.GetKind() == "Deployment" {
			return fmt.Errorf("%s: the engine spans %d nodes, and a Deployment's pod has one: write a LeaderWorkerSet for {{if gt .Nodes 1}}", what, f.Nodes)
		}
	}
	for _, file := range f.Files {
		if !slices.ContainsFunc(list, func(o *unstructured.Unstructured) bool { return holds(o, file.Text) }) {
			return fmt.Errorf("the engine reads %s, and no object has its text: {{range .Files}} in a ConfigMap", file.Path)
		}
	}
	if !served {
		return errors.New(`no object has a pod template with a container that is called "engine"`)
	}
	return nil
}

// selects reports whether a Service leads to this engine alone, or, without a
// selector, to what its author says.
func selects(o *unstructured.Unstructured, f Fields) bool {
	selector, ok, err := unstructured.NestedStringMap(o.Object, "spec", "selector")
	return !ok && err == nil || selector[labelEngine] == f.Name
}

// holds reports whether an object, as a ConfigMap, has a text.
func holds(o *unstructured.Unstructured, text string) bool {
	data, _, err := unstructured.NestedStringMap(o.Object, "data")
	return err == nil && slices.Contains(slices.Collect(maps.Values(data)), text)
}

// podTemplates are where an object has them, the one that serves first.
func podTemplates(o *unstructured.Unstructured) []map[string]any {
	var all []map[string]any
	for _, at := range [][]string{
		{"spec", "template"}, {"spec", "leaderWorkerTemplate", "leaderTemplate"}, {"spec", "leaderWorkerTemplate", "workerTemplate"},
	} {
		if t, ok, err := unstructured.NestedFieldNoCopy(o.Object, at...); ok && err == nil {
			if m, ok := t.(map[string]any); ok {
				all = append(all, m)
			}
		}
	}
	return all
}

func hasEngine(pod map[string]any) bool {
	list, _, err := unstructured.NestedSlice(pod, "spec", "containers")
	return err == nil && slices.ContainsFunc(list, func(c any) bool {
		m, ok := c.(map[string]any)
		return ok && m["name"] == container
	})
}

// container is the name of the engine's, of which the log is read.
const container = "engine"

// kinds are where the objects of an engine on one node and, where one can span
// nodes, on several are; in the order in which they are made.
func (o Options) kinds() ([]schema.GroupVersionResource, error) {
	var all []schema.GroupVersionResource
	layouts := []Launch{{Kind: engine.KindVLLM, GPUs: 1}}
	if o.GPUsPerNode > 0 {
		layouts = append(layouts, Launch{Kind: engine.KindVLLM, GPUs: 2 * o.GPUsPerNode})
	}
	for _, l := range layouts {
		l.Spec = engine.Spec{Argv: []string{"engine"}, Port: 8000}
		if o.Files {
			l.Spec.Files = []engine.File{{Path: "/file"}}
		}
		f, err := o.fields("namespace", "run", "engine-name", l)
		if err != nil {
			return nil, err
		}
		list, err := o.render(f)
		if err != nil && f.Nodes > 1 {
			continue // a template for one node is one
		}
		if err != nil {
			return nil, err
		}
		for _, object := range list {
			if at := resourceOf(object); !slices.Contains(all, at) {
				all = append(all, at)
			}
		}
	}
	return all, nil
}

// resourceOf is where objects of a kind are; right for kinds with a regular plural.
func resourceOf(o *unstructured.Unstructured) schema.GroupVersionResource {
	plural, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
	return plural
}
