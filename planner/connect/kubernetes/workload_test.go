package kubernetes

import (
	"strings"
	"testing"
)

func TestParseObject(t *testing.T) {
	for s, want := range map[string]string{
		"apps/v1/Deployment/decode":                     "apps/v1 deployments decode",
		"apps/v1/StatefulSet/d":                         "apps/v1 statefulsets d",
		"leaderworkerset.x-k8s.io/v1/LeaderWorkerSet/d": "leaderworkerset.x-k8s.io/v1 leaderworkersets d",
		"v1/ReplicationController/d":                    "/v1 replicationcontrollers d",
		"example.com/v1/oxen/d":                         "example.com/v1 oxen d",
		"serving.kserve.io/v1beta1/InferenceService/d":  "serving.kserve.io/v1beta1 inferenceservices d",
		"apps/v1/Deployment/":                           "",
		"apps//Deployment/d":                            "",
		"apps/v1//d":                                    "",
		"a/b/c/d/e":                                     "",
		"Deployment/d":                                  "",
		"apps/v1/Deployment/Upper":                      "",
		"apps/v 1/Deployment/d":                         "",
	} {
		o, err := parseObject(s)
		if err != nil {
			if want != "" || !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %v", s, err)
			}
			continue
		}
		if got := o.resource.Group + "/" + o.resource.Version + " " + o.resource.Resource + " " + o.name; got != want {
			t.Errorf("%s: got %s, want %q", s, got, want)
		}
	}
}

func TestWorkloadTellsGPUsAndModel(t *testing.T) {
	const gpus = `"resources":{"limits":{"nvidia.com/gpu":`
	for name, c := range map[string]struct {
		spec       string
		gpus, size int
		model      string
	}{
		"two containers":      {`"template":{"spec":{"containers":[{"args":["--model=a"],` + gpus + `"4"}}},{` + gpus + `1}}}]}}`, 5, 1, "a"},
		"MIG and AMD":         {`"template":{"spec":{"containers":[{"resources":{"limits":{"nvidia.com/mig-1g.10gb":"1","amd.com/gpu":"2","cpu":"9","gpu.intel.com/monitoring":"7"}}}]}}`, 3, 1, ""},
		"resource claims":     {`"template":{"spec":{"resourceClaims":[{"name":"gpu"}],"containers":[{"resources":{"claims":[{"name":"gpu"}]}}]}}`, 0, 1, ""},
		"requests only":       {`"template":{"spec":{"containers":[{"resources":{"requests":{"nvidia.com/gpu":"2"}}}]}}`, 2, 1, ""},
		"leader and workers":  {`"leaderWorkerTemplate":{"size":3,"leaderTemplate":{"spec":{"containers":[{"args":["vllm","serve","m/x"],` + gpus + `"1"}}}]}},"workerTemplate":{"spec":{"containers":[{` + gpus + `"8"}}}]}}}`, 17, 3, "m/x"},
		"workers only":        {`"leaderWorkerTemplate":{"size":2,"workerTemplate":{"spec":{"containers":[{"args":["--model-path","m"],` + gpus + `"8"}}}]}}}`, 16, 2, "m"},
		"no template":         {`"x":1`, 0, 1, ""},
		"absurd":              {`"leaderWorkerTemplate":{"size":2000000000,"workerTemplate":{"spec":{"containers":[{` + gpus + `"9E"}}}]}}}`, maxGPUs, maxGPUs, ""},
		"a model from a file": {`"template":{"spec":{"containers":[{"command":["sh","-c","exec vllm serve $MODEL --port 1"]}]}}`, 0, 1, ""},
		"a model in a script": {`"template":{"spec":{"containers":[{"command":["sh","-c","exec /opt/vllm serve \"m\" --port 1"]}]}}`, 0, 1, "m"},
		"a flag without one":  {`"template":{"spec":{"containers":[{"args":["--served-model-name","--port","1","--model","m"]}]}}`, 0, 1, "m"},
	} {
		w, err := parseWorkload([]byte(`{"spec":{` + c.spec + `}}`))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if w.gpus() != c.gpus || w.size() != c.size || w.model() != c.model {
			t.Errorf("%s: %d GPUs, %d pods, model %q; want %d, %d, %q", name, w.gpus(), w.size(), w.model(), c.gpus, c.size, c.model)
		}
	}
}

func FuzzParseWorkload(f *testing.F) {
	f.Add([]byte(`{"spec":{"template":{"spec":{"containers":[{"args":["--model=a"],"resources":{"limits":{"nvidia.com/gpu":"4"}}}]}}}}`))
	f.Add([]byte(`{"spec":{"leaderWorkerTemplate":{"size":-2,"workerTemplate":{"spec":{"containers":[{"command":["vllm","serve"]}]}}}}}`))
	f.Add([]byte(`{"spec":{"replicas":3},"status":{"selector":"a=b","conditions":[{"type":"ReplicaFailure","status":"True","message":"quota"}]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if w, err := parseWorkload(raw); err == nil && (w.gpus() < 0 || w.gpus() > maxGPUs || w.size() < 1 || strings.HasPrefix(w.model(), "-")) {
			t.Errorf("%d GPUs, %d pods, model %q", w.gpus(), w.size(), w.model())
		}
		if s, err := parseScale(raw); err == nil && s.Spec.Replicas < 0 {
			t.Errorf("%+v", s)
		}
	})
}
