package kubernetes

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"plimsoll/engine"
)

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func readGraph(t testing.TB, name string) graph {
	t.Helper()
	g, err := parseGraph(readFile(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Of both versions, GPUs too: upstream's budget was silently off for v1beta1
// (dynamo#11220).
func TestParseGraph(t *testing.T) {
	for file, index := range map[string][2]int{"v1alpha1.json": {-1, -1}, "v1beta1.json": {1, 2}} {
		g := readGraph(t, file)
		got, err := g.roles(nil)
		if err != nil {
			t.Fatal(err)
		}
		workers := [2]string{"prefill", "decode"}
		want := map[engine.Role]service{
			engine.RolePrefill: {name: "First", index: index[0], kind: workers[0], replicas: 3, size: 1, gpus: 2, model: "qwen3"},
			engine.RoleDecode:  {name: "Second", index: index[1], kind: workers[1], replicas: 1, size: 2, gpus: 8, model: "Qwen/Qwen3-8B"},
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", file, got, want)
		}
		if g.Name != "llama" || g.Kind != "DynamoGraphDeployment" || g.UID == "" {
			t.Errorf("%s: subject is %+v", file, g.subject)
		}
	}
}

// Each version has its own patch: a map is merged; an element of a list is
// tested by its name before it is changed.
func TestPatchOfAVersion(t *testing.T) {
	for file, want := range map[string]string{
		"v1alpha1.json": `application/merge-patch+json {"spec":{"services":{"Second":{"replicas":5}}}}`,
		"v1beta1.json":  `application/json-patch+json [{"op":"test","path":"/spec/components/2/name","value":"Second"},{"op":"add","path":"/spec/components/2/replicas","value":5}]`,
	} {
		services, err := readGraph(t, file).roles(nil)
		if err != nil {
			t.Fatal(err)
		}
		c := services[engine.RoleDecode].patch(5)
		if got := fmt.Sprintf("%s %s", c.kind, c.body); got != want {
			t.Errorf("%s: got %s, want %s", file, got, want)
		}
	}
}

func TestRoles(t *testing.T) {
	const worker = `{"componentType":"worker"}`
	for name, c := range map[string]struct {
		services string
		named    map[engine.Role]string
		want     string // role=service, or what the error says
	}{
		"legacy vLLM":           {`{"Frontend":{"componentType":"frontend"},"VllmPrefillWorker":` + worker + `,"VllmDecodeWorker":` + worker + `}`, nil, "decode=VllmDecodeWorker prefill=VllmPrefillWorker"},
		"legacy SGLang":         {`{"prefill":{},"decode":{}}`, nil, "decode=decode prefill=prefill"},
		"legacy TensorRT-LLM":   {`{"TRTLLMPrefillWorker":` + worker + `,"TRTLLMDecodeWorker":` + worker + `}`, nil, "decode=TRTLLMDecodeWorker prefill=TRTLLMPrefillWorker"},
		"what it says is first": {`{"VllmPrefillWorker":{"componentType":"worker","subComponentType":"decode"},"X":{"componentType":"worker","subComponentType":"prefill"}}`, nil, "decode=VllmPrefillWorker prefill=X"},
		"aggregated, legacy":    {`{"Frontend":{},"VllmDecodeWorker":` + worker + `}`, nil, "aggregated=VllmDecodeWorker"},
		"aggregated, any name":  {`{"Frontend":{},"MyWorker":` + worker + `}`, nil, "aggregated=MyWorker"},
		"aggregated as decode":  {`{"W":{"componentType":"worker","subComponentType":"decode"}}`, nil, "aggregated=W"},
		"named":                 {`{"A":` + worker + `,"B":` + worker + `}`, map[engine.Role]string{engine.RolePrefill: "B", engine.RoleDecode: "A"}, "decode=A prefill=B"},
		"two decode":            {`{"A":{"subComponentType":"decode"},"B":{"subComponentType":"decode"},"C":{"subComponentType":"prefill"}}`, nil, "the services A and B are both decode"},
		"two workers":           {`{"A":` + worker + `,"B":` + worker + `}`, nil, "the services A and B are both workers of no phase"},
		"prefill alone":         {`{"A":{"subComponentType":"prefill"}}`, nil, "workers are A"},
		"no worker":             {`{"Frontend":{"componentType":"frontend"}}`, nil, "workers are none, services Frontend"},
		"named and absent":      {`{"A":` + worker + `}`, map[engine.Role]string{engine.RoleAggregated: "Z"}, "has no service Z for aggregated: it has A"},
		"nothing":               {`null`, nil, "services none"},
	} {
		g, err := parseGraph([]byte(`{"metadata":{"name":"g"},"spec":{"services":` + c.services + `}}`))
		if err != nil {
			t.Fatal(err)
		}
		services, err := g.roles(c.named)
		if err != nil {
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: error is %v, want %q", name, err, c.want)
			}
			continue
		}
		var got []string
		for _, role := range slices.Sorted(maps.Keys(services)) {
			got = append(got, fmt.Sprintf("%s=%s", role, services[role].name))
		}
		if g := strings.Join(got, " "); g != c.want {
			t.Errorf("%s: got %s, want %s", name, g, c.want)
		}
	}
}

func FuzzParseGraph(f *testing.F) {
	for _, name := range []string{"v1alpha1.json", "v1beta1.json"} {
		f.Add(readFile(f, name))
	}
	f.Add([]byte(`{"spec":{"services":{"a":{"replicas":-1,"multinode":{"nodeCount":-3},"resources":{"limits":{"gpu":"1e30"}}}}}}`))
	f.Add([]byte(`{"spec":{"components":[{"podTemplate":{"spec":{"containers":[{"args":["--model"],"resources":{"limits":{"nvidia.com/gpu":"-5"}}}]}}}]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		g, err := parseGraph(raw)
		if err != nil {
			return
		}
		for _, s := range g.services {
			if s.replicas < 0 || s.size < 1 || s.gpus < 0 || s.gpus > maxGPUs || s.index >= len(g.services) {
				t.Errorf("%+v", s)
			}
		}
		services, err := g.roles(nil)
		if err != nil {
			return
		}
		_, aggregated := services[engine.RoleAggregated]
		if len(services) != 1 && aggregated || len(services) == 1 && !aggregated || len(services) > 2 || len(services) == 0 {
			t.Errorf("roles are %+v", services)
		}
	})
}
