package kube

import (
	"maps"
	"plimsoll/engine/enginetest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"
)

func TestRequests(t *testing.T) {
	for name, c := range map[string]struct {
		o    Options
		gpus int
		want map[string]string
	}{
		"for each GPU":    {Options{}, 4, map[string]string{"cpu": "4", "memory": "16Gi"}},
		"without GPUs":    {Options{}, 0, map[string]string{}},
		"given":           {Options{CPU: "500m", Memory: "2Gi"}, 4, map[string]string{"cpu": "500m", "memory": "2Gi"}},
		"given, no GPUs":  {Options{CPU: "3"}, 0, map[string]string{"cpu": "3"}},
		"given in halves": {Options{Memory: "1Ti"}, 2, map[string]string{"cpu": "2", "memory": "1Ti"}},
	} {
		got := c.o.requests(c.gpus)
		if !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		for _, q := range got {
			if _, err := resource.ParseQuantity(q); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for _, wrong := range []Options{{Image: "i", CPU: "many"}, {Image: "i", Memory: "-1Gi"}, {Image: "i", SharedMemory: "0"}} {
		if err := wrong.Filled().Check(); err == nil || !strings.Contains(err.Error(), "want a quantity above 0") {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}

// Nodes whose GPUs are tainted by their resource's name take pods that ask for them.
func TestTolerations(t *testing.T) {
	given := corev1.Toleration{Key: "team", Operator: corev1.TolerationOpEqual, Value: "a"}
	o := Options{GPUResource: "amd.com/gpu", Tolerations: []corev1.Toleration{given}}
	got := o.tolerations(1)
	if len(got) != 2 || got[0] != given || got[1].Key != "amd.com/gpu" || got[1].Operator != corev1.TolerationOpExists || got[1].Effect != corev1.TaintEffectNoSchedule {
		t.Errorf("%+v", got)
	}
	if o.Tolerations = got; len(o.tolerations(1)) != 2 {
		t.Errorf("twice: %+v", o.tolerations(1))
	}
	if got := (Options{GPUResource: "amd.com/gpu"}).tolerations(0); len(got) != 0 {
		t.Errorf("without GPUs: %+v", got)
	}
}

// kubelet is what a container gets of an argument where the variable X is "seen":
// $$ is a dollar, $(X) its value, $(OTHER) itself
// (https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#Container, read 2026-11-22).
func kubelet(text string) string {
	for i := range text {
		rest := text[i:]
		switch {
		case strings.HasPrefix(rest, "$$"):
			return text[:i] + "$" + kubelet(rest[2:])
		case strings.HasPrefix(rest, "$(X)"):
			return text[:i] + "seen" + kubelet(rest[4:])
		case strings.HasPrefix(rest, "$"):
			return text[:i] + "$" + kubelet(rest[1:])
		}
	}
	return text
}

// An engine gets its arguments as they were given, whatever dollars they have.
func TestLawOfEscapes(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("$()Xa'"))).Draw(t, "text")
		if got := kubelet(escape(text)); got != text {
			t.Fatalf("%q arrives as %q", text, got)
		}
	})
}
