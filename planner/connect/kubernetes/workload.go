package kubernetes

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	autoscaling "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// object names one object of the API.
type object struct {
	resource schema.GroupVersionResource
	name     string
}

// parseObject reads group/version/Kind/name, or version/Kind/name for the core
// group. Where Kind is written as a plural (apps/v1/deployments/name) it is
// taken as it is: an irregular one cannot be guessed.
func parseObject(s string) (object, error) {
	parts := strings.Split(s, "/")
	if len(parts) == 3 {
		parts = append([]string{""}, parts...)
	}
	if len(parts) != 4 {
		return object{}, fmt.Errorf("%q: want group/version/Kind/name, as apps/v1/Deployment/decode", s)
	}
	if parts[1] == "" || parts[2] == "" {
		return object{}, fmt.Errorf("%q: version or kind is empty: want group/version/Kind/name, as apps/v1/Deployment/decode", s)
	}
	if wrong := append(validation.IsDNS1123Subdomain(parts[3]), wordProblems(parts[:3])...); len(wrong) > 0 {
		return object{}, fmt.Errorf("%q: %s", s, strings.Join(wrong, "; "))
	}
	version := schema.GroupVersion{Group: parts[0], Version: parts[1]}
	resource := version.WithResource(parts[2])
	if strings.ToLower(parts[2]) != parts[2] {
		resource, _ = meta.UnsafeGuessKindToResource(version.WithKind(parts[2]))
	}
	return object{resource, parts[3]}, nil
}

// wordProblems are those of words that become part of a URL.
func wordProblems(words []string) []string {
	for _, w := range words {
		if w != "" && len(validation.IsDNS1123Subdomain(strings.ToLower(w))) > 0 {
			return []string{fmt.Sprintf("%q is no group, version or kind", w)}
		}
	}
	return nil
}

// workload is what of an object with a scale subresource tells about its engines.
type workload struct {
	subject
	Spec struct {
		Template             template `json:"template"` // Deployment, StatefulSet
		LeaderWorkerTemplate *struct {
			Size   *int      `json:"size"`
			Leader *template `json:"leaderTemplate"`
			Worker template  `json:"workerTemplate"`
		} `json:"leaderWorkerTemplate"` // LeaderWorkerSet
	} `json:"spec"`
	Status struct {
		Conditions []struct {
			Type    string `json:"type"`
			Status  string `json:"status"`
			Message string `json:"message"`
		} `json:"conditions"`
	} `json:"status"`
}

func parseWorkload(raw []byte) (workload, error) {
	var w workload
	if err := json.Unmarshal(raw, &w); err != nil {
		return workload{}, fmt.Errorf("not read as a workload: %w", err)
	}
	return w, nil
}

// size is how many pods a replica has.
func (w workload) size() int {
	if g := w.Spec.LeaderWorkerTemplate; g != nil && g.Size != nil {
		return min(max(1, *g.Size), maxGPUs)
	}
	return 1
}

// templates are those of a replica's first pod and of its other ones.
func (w workload) templates() (leader, worker template) {
	g := w.Spec.LeaderWorkerTemplate
	switch {
	case g == nil:
		return w.Spec.Template, template{}
	case g.Leader == nil:
		return g.Worker, g.Worker
	}
	return *g.Leader, g.Worker
}

// gpus of one replica: of the pod, or of a leader and its workers; 0 where the
// object tells nothing.
func (w workload) gpus() int {
	leader, worker := w.templates()
	return min(leader.gpus()+(w.size()-1)*worker.gpus(), maxGPUs)
}

func (w workload) model() string {
	leader, worker := w.templates()
	return cmp.Or(leader.model(), worker.model())
}

// refused is why pods are not even made, as by a quota; empty: they are.
func (w workload) refused() string {
	for _, c := range w.Status.Conditions {
		if c.Type == "ReplicaFailure" && c.Status == "True" {
			return fmt.Sprintf("%.200s", c.Message)
		}
	}
	return ""
}

// parseScale reads what the scale subresource says.
func parseScale(raw []byte) (s autoscaling.Scale, err error) {
	if err := json.Unmarshal(raw, &s); err != nil {
		return s, fmt.Errorf("not read as a scale: %w", err)
	}
	if s.Spec.Replicas < 0 {
		return s, errors.New("the scale says fewer than 0 replicas")
	}
	return s, nil
}
