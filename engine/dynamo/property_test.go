package dynamo_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"pgregory.net/rapid"

	"plimsoll/engine/dynamo"
	"plimsoll/engine/enginetest"
)

type object = map[string]any

// oracle makes a variant of a decoded graph the dumb way: every mapping is copied
// before it is written to.
func oracle(doc object, phase string, tp, port int) object {
	out := maps.Clone(doc)
	prefill, decode := "PrefillWorker", "VllmWorker"
	if _, v0 := out[decode]; !v0 {
		prefill, decode = "VllmPrefillWorker", "VllmDecodeWorker"
		if _, ok := out["SimpleLoadBalancer"]; ok {
			write(out, "SimpleLoadBalancer", "enable_disagg", false)
		}
	}
	if w, ok := out[prefill]; ok && phase == "prefill" {
		out[decode] = w
	}
	delete(out, prefill)
	routers := 0
	for _, name := range []string{"Common", "Processor", decode} {
		if c, ok := out[name].(object); ok && c["router"] != nil {
			write(out, name, "router", "round-robin")
			routers++
		}
	}
	if _, ok := out["Processor"]; ok && routers == 0 {
		write(out, "Processor", "router", "round-robin")
	}
	if _, ok := out["Planner"]; ok {
		write(out, "Planner", "no-operation", true)
	}
	if decode == "VllmWorker" {
		write(out, decode, "remote-prefill", false)
		write(out, decode, "conditional-disagg", false)
	}
	write(out, decode, "enable-prefix-caching", phase == "decode")
	write(out, decode, "tensor-parallel-size", uint64(tp))
	w := out[decode].(object)
	common, _ := out["Common"].(object)
	_, own := w["pipeline-parallel-size"]
	_, shared := common["pipeline-parallel-size"]
	if own || shared && strings.Contains(fmt.Sprint(w["common-configs"]), "pipeline-parallel-size") {
		write(out, decode, "pipeline-parallel-size", uint64(1))
	}
	w = out[decode].(object) // the copy that was written last
	write(w, "ServiceArgs", "workers", uint64(1))
	args := w["ServiceArgs"].(object)
	write(args, "resources", "gpu", uint64(tp))
	write(out, "Frontend", "port", uint64(port))
	return out
}

// write sets a key of a copy of a mapping in m.
func write(m object, name, key string, value any) {
	old, _ := m[name].(object)
	fresh := maps.Clone(old)
	if fresh == nil {
		fresh = object{}
	}
	fresh[key] = value
	m[name] = fresh
}

func parse(text string) (object, error) {
	var doc object
	err := yaml.Unmarshal([]byte(text), &doc)
	return doc, err
}

// graphs draws the text of a graph: any component on one line or over several, any
// indentation, comments anywhere.
func graphs(t *rapid.T) string {
	names := []string{"Common", "Processor", "Router", "Planner", "SimpleLoadBalancer", "Mystery"}
	if rapid.Bool().Draw(t, "v0") {
		names = append(names, "VllmWorker", "PrefillWorker")
	} else {
		names = append(names, "VllmDecodeWorker", "VllmPrefillWorker")
	}
	needed := names[len(names)-2]
	var b strings.Builder
	for _, name := range append(rapid.Permutation(names).Draw(t, "order"), "Frontend") {
		if name != "Frontend" && name != needed && !rapid.Bool().Draw(t, "has "+name) {
			continue
		}
		if rapid.Bool().Draw(t, "comment") {
			b.WriteString("# about the next\n")
		}
		component(t, &b, name)
	}
	return b.String()
}

func component(t *rapid.T, b *strings.Builder, name string) {
	keys := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
		"router: kv", "enable-prefix-caching: true", "tensor-parallel-size: 2", "pipeline-parallel-size: 2", "remote-prefill: true",
		"no-operation: false", "port: 8000", "model: 'a b'", "rate: 1.50", "enforce-eager: yes", "big: 1_000", "empty: []",
		"common-configs: [model, pipeline-parallel-size]", "enable_disagg: true", `json: '{"a": [1, "#b"]}'`, "odd key: x",
	}), 1, 6, func(s string) string { return s }).Draw(t, name)
	services := []string{"", "{workers: 2}", "{resources: {gpu: '3'}}", "{workers: 2, resources: {gpu: 1, cpu: \"10\"}, envs: {A: b}}"}
	service := ""
	if strings.HasSuffix(name, "Worker") {
		service = rapid.SampledFrom(services).Draw(t, "service")
	}
	if rapid.Bool().Draw(t, "one line") {
		if service != "" {
			keys = append(keys, "ServiceArgs: "+service)
		}
		fmt.Fprintf(b, "%s: {%s}\n", name, strings.Join(keys, ", "))
		return
	}
	indent := strings.Repeat(" ", rapid.IntRange(1, 6).Draw(t, "indent"))
	fmt.Fprintf(b, "%s:\n", name)
	for _, k := range keys {
		end := rapid.SampledFrom([]string{"\n", " # why\n", "\n\n", "\n" + indent + "# below\n"}).Draw(t, "end")
		fmt.Fprintf(b, "%s%s%s", indent, k, end)
	}
	switch {
	case service == "":
	case rapid.Bool().Draw(t, "service in line"):
		fmt.Fprintf(b, "%sServiceArgs: %s\n", indent, service)
	default:
		fmt.Fprintf(b, "%[1]sServiceArgs: # args\n%[1]s%[1]sworkers: 3\n%[1]s%[1]sresources:\n%[1]s%[1]s  # each\n%[1]s%[1]s  gpu: 1\n", indent)
	}
}

func checkVariants(t rapid.TB, text string) {
	t.Helper()
	g, err := dynamo.Read([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	doc, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, phase := range []string{"prefill", "decode", "prefill"} {
		for _, tp := range []int{4, 1} {
			got, err := g.Variant(configOf(phase, tp), 8123)
			if err != nil {
				t.Fatalf("%s: %v\n%s", phase, err, text)
			}
			variant, err := parse(got)
			if err != nil {
				t.Fatalf("%s: %v\n%s\nof\n%s", phase, err, got, text)
			}
			if want := oracle(doc, phase, tp, 8123); !reflect.DeepEqual(variant, want) {
				t.Fatalf("%s:\n%s\nis %v\nwant %v\nof\n%s", phase, got, variant, want, text)
			}
			again, err := dynamo.Read([]byte(got))
			if err != nil {
				t.Fatalf("reading a variant: %v\n%s", err, got)
			}
			if twice, err := again.Variant(configOf(phase, tp), 8123); err != nil || twice != got {
				t.Fatalf("%s: a variant of it is another one: %v\n%s\nof\n%s", phase, err, twice, got)
			}
		}
	}
	if after, err := dynamo.Read([]byte(text)); err != nil || after != g {
		t.Fatalf("the graph changed: %v", err)
	}
}

func TestVariantsAgainstOracle(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		checkVariants(t, graphs(t))
	})
}

func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4096 || strings.Count(text, "[")+strings.Count(text, "{") > 64 || strings.Count(text, "*") > 10 {
			return // who reads the file bounds these
		}
		g, err := dynamo.Read([]byte(text))
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("an error of several lines: %q", err)
			}
			return
		}
		variant, err := g.Variant(configOf("prefill", 2), 8123)
		if err != nil {
			return
		}
		again, err := dynamo.Read([]byte(variant))
		if err != nil {
			t.Fatalf("its variant is no graph: %v\n%q\nof\n%q", err, variant, text)
		}
		twice, err := again.Variant(configOf("prefill", 2), 8123)
		if err != nil {
			t.Fatalf("its variant has none: %v\n%q\nof\n%q", err, variant, text)
		}
		one, err1 := parse(variant)
		two, err2 := parse(twice)
		if err1 != nil || err2 != nil || !reflect.DeepEqual(one, two) {
			t.Fatalf("a variant of it is another one: %v, %v\n%q\nand\n%q\nof %q", err1, err2, variant, twice, text)
		}
	})
}
