package kubernetes

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	"plimsoll/planner"
)

func graphServer(t *testing.T, objects map[string]string) (*apiServer, *Target) {
	t.Helper()
	for _, service := range []string{"First", "Second"} {
		objects["/api/v1/namespaces/serving/pods?nvidia.com/dynamo-graph-deployment-name=llama,nvidia.com/dynamo-component="+service] = `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}`
	}
	s := newAPIServer(t, objects)
	target, err := New(s.config(), Options{Namespace: "serving", Deployment: "llama"})
	if err != nil {
		t.Fatal(err)
	}
	return s, target
}

func graphPath(version string) string {
	return "/apis/nvidia.com/" + version + "/namespaces/serving/dynamographdeployments/llama"
}

func adapterPath(version, service string) string {
	return "/apis/nvidia.com/" + version + "/namespaces/serving/dynamographdeploymentscalingadapters/llama-" + service + "/scale"
}

// A service with a scaling adapter is read from it and written to it; one
// without is in the deployment itself, which is no error (dynamo#13538).
func TestScalingAdapterComesFirst(t *testing.T) {
	for version, file := range map[string]string{"v1alpha1": "v1alpha1.json", "v1beta1": "v1beta1.json"} {
		s, target := graphServer(t, map[string]string{
			graphPath(version):             string(readFile(t, file)),
			adapterPath(version, "second"): scaleJSON(7, ""),
		})
		if version == "v1alpha1" {
			s.fault = notServedIn("v1beta1")
		}
		got, err := target.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Pools) != 2 || got.Pools[0].Want != 3 || got.Pools[1].Want != 7 || got.Model != "qwen3" {
			t.Errorf("%s: %+v", version, got)
		}
		if err := target.Scale(t.Context(), planner.Replicas{Prefill: 4, Decode: 6}, "r"); err != nil {
			t.Fatal(err)
		}
		patches := s.patches()
		if len(patches) != 2 || !strings.HasPrefix(patches[0], "PATCH "+adapterPath(version, "second")) || !strings.HasPrefix(patches[1], "PATCH "+graphPath(version)+"?") {
			t.Errorf("%s: %q", version, patches)
		}
		if events := s.requests(http.MethodPost); len(events) != 2 || !strings.Contains(events[0], `"kind":"DynamoGraphDeployment","name":"llama"`) {
			t.Errorf("%s: events %q", version, events)
		}
	}
}

// An operator may serve its adapters in the older version alone.
func TestAnOlderAdapter(t *testing.T) {
	s, target := graphServer(t, map[string]string{
		graphPath("v1beta1"):              string(readFile(t, "v1beta1.json")),
		adapterPath("v1alpha1", "first"):  scaleJSON(1, ""),
		adapterPath("v1alpha1", "second"): scaleJSON(1, ""),
	})
	if err := target.Scale(t.Context(), planner.Replicas{Prefill: 2, Decode: 1}, "r"); err != nil {
		t.Fatal(err)
	}
	want := []string{"PATCH " + adapterPath("v1alpha1", "first") + `?fieldManager=plimsoll {"spec":{"replicas":2}}`}
	if got := s.patches(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The list of components changed after it was read: the API server refuses the
// test of the name, and the component is looked up once more.
func TestAComponentThatMoved(t *testing.T) {
	s, target := graphServer(t, map[string]string{graphPath("v1beta1"): string(readFile(t, "v1beta1.json"))})
	moved := strings.Replace(string(readFile(t, "v1beta1.json")), `{"name": "Frontend", "type": "frontend", "replicas": 1},`, "", 1)
	s.fault = func(w http.ResponseWriter, r *http.Request, _ int) bool {
		if r.Method != http.MethodPatch || s.objects[graphPath("v1beta1")] == moved {
			return false
		}
		s.objects[graphPath("v1beta1")] = moved
		status(w, 422, "Invalid", "the server rejected our request due to an error in our request")
		return true
	}
	if err := target.Scale(t.Context(), planner.Replicas{Prefill: 3, Decode: 2}, "r"); err != nil {
		t.Fatal(err)
	}
	patches := s.patches()
	if len(patches) != 2 || !strings.Contains(patches[0], "/spec/components/2/replicas") || !strings.Contains(patches[1], "/spec/components/1/replicas") {
		t.Errorf("%q", patches)
	}
}

func TestAGraphThatIsNotThere(t *testing.T) {
	s, target := graphServer(t, map[string]string{})
	if _, err := target.State(t.Context()); err == nil || !strings.Contains(err.Error(), "kubectl get dynamographdeployments.nvidia.com --namespace serving") {
		t.Errorf("error is %v", err)
	}
	s.fault = notServedIn("v1")
	if _, err := target.State(t.Context()); err == nil || !strings.Contains(err.Error(), "does not serve dynamographdeployments in nvidia.com/v1alpha1") {
		t.Errorf("error is %v", err)
	}
}

// notServedIn is a server that does not know nvidia.com's versions that begin so.
func notServedIn(version string) func(http.ResponseWriter, *http.Request, int) bool {
	return func(w http.ResponseWriter, r *http.Request, _ int) bool {
		unknown := strings.HasPrefix(r.URL.Path, "/apis/nvidia.com/"+version)
		if unknown {
			http.Error(w, "404 page not found", http.StatusNotFound)
		}
		return unknown
	}
}
