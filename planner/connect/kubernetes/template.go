package kubernetes

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// maxGPUs of one replica is far above any that there is.
const maxGPUs = 1 << 16

// template is what of a pod template tells about an engine.
type template struct {
	Spec struct {
		Containers []container `json:"containers"`
	} `json:"spec"`
}

type container struct {
	Command   []string  `json:"command"`
	Args      []string  `json:"args"`
	Resources resources `json:"resources"`
}

type resources struct {
	Limits   map[string]quantity `json:"limits"`
	Requests map[string]quantity `json:"requests"`
}

// quantity is a number of things; Kubernetes takes them as strings and as numbers.
type quantity int

// UnmarshalJSON reads "8", 8 or "500m", of which fractions count as one.
func (q *quantity) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) != nil {
		text = string(b)
	}
	if text == "" || text == "null" {
		return nil
	}
	n, err := resource.ParseQuantity(text)
	if err != nil {
		return fmt.Errorf("%.40q is no quantity", text)
	}
	*q = quantity(min(max(n.Value(), 0), maxGPUs))
	return nil
}

// gpus of a pod: what its containers ask for under a name that device plugins
// give to GPUs. What comes by resource claims is not known here: 0.
func (t template) gpus() int {
	n := 0
	for _, c := range t.Spec.Containers {
		n += c.Resources.gpus()
	}
	return n
}

func (r resources) gpus() int {
	return cmp.Or(countGPUs(r.Limits), countGPUs(r.Requests))
}

func countGPUs(amounts map[string]quantity) int {
	n := 0
	for name, amount := range amounts {
		// nvidia.com/gpu, amd.com/gpu, …; nvidia.com/mig-1g.10gb; gpu.intel.com/xe.
		if strings.HasSuffix(name, "/gpu") || strings.HasPrefix(name, "nvidia.com/mig-") ||
			name == "gpu.intel.com/xe" || name == "gpu.intel.com/i915" {
			n += int(amount)
		}
	}
	return min(n, maxGPUs)
}

func (t template) model() string { return model(t.Spec.Containers) }

// model is the name under which containers serve, as far as their command line
// tells: --served-model-name, else --model or SGLang's and TensorRT-LLM's
// --model-path, else what follows "vllm serve".
func model(cs []container) string {
	var words []string
	for _, c := range cs {
		for _, arg := range append(append([]string{}, c.Command...), c.Args...) {
			words = append(words, strings.Fields(arg)...) // a shell's script is one argument
		}
	}
	for _, flag := range []string{"--served-model-name", "--model", "--model-path"} {
		if v := flagValue(words, flag); v != "" {
			return v
		}
	}
	for i := 0; i+2 < len(words); i++ {
		if (words[i] == "vllm" || strings.HasSuffix(words[i], "/vllm")) && words[i+1] == "serve" {
			return literal(words[i+2])
		}
	}
	return ""
}

func flagValue(words []string, flag string) string {
	for i, w := range words {
		if v, ok := strings.CutPrefix(w, flag+"="); ok {
			return literal(v)
		}
		if w == flag && i+1 < len(words) {
			return literal(words[i+1])
		}
	}
	return ""
}

// literal is a word without its quotes; what a shell or the kubelet would put in
// for a variable is not known, nor is the value of a flag that another follows.
func literal(w string) string {
	w = strings.Trim(w, `"'`)
	if strings.Contains(w, "$") || strings.HasPrefix(w, "-") {
		return ""
	}
	return w
}
