package kubernetes

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll/engine"
)

// The group of NVIDIA Dynamo's objects, and their plurals.
const (
	nvidia   = "nvidia.com"
	graphs   = "dynamographdeployments"
	adapters = "dynamographdeploymentscalingadapters"
)

// graph is what of a DynamoGraphDeployment tells about its engines.
type graph struct {
	subject
	services []service
}

// subject is what an Event needs of the object that it is on.
type subject = metav1.PartialObjectMetadata

// service is a service of v1alpha1, or a component of v1beta1.
type service struct {
	name     string
	index    int    // in the list of components; -1: services are a map
	kind     string // "prefill", "decode", "worker", "frontend", …
	replicas int
	size     int // pods of a replica
	gpus     int // of a replica
	model    string
}

// shared is what both versions have in common.
type shared struct {
	Replicas  *int `json:"replicas"`
	Multinode struct {
		NodeCount int `json:"nodeCount"`
	} `json:"multinode"`
}

func (s shared) fill(to *service) {
	to.replicas = 1 // as Dynamo's operator takes it where nothing is said
	if s.Replicas != nil {
		to.replicas = max(0, *s.Replicas)
	}
	to.size = min(max(1, s.Multinode.NodeCount), maxGPUs)
	to.gpus = min(to.gpus*to.size, maxGPUs)
}

// alpha is a service of v1alpha1.
type alpha struct {
	shared
	ComponentType    string `json:"componentType"`
	SubComponentType string `json:"subComponentType"`
	Resources        struct {
		Limits   alphaResources `json:"limits"`
		Requests alphaResources `json:"requests"`
	} `json:"resources"`
	ExtraPodSpec struct {
		MainContainer container `json:"mainContainer"`
	} `json:"extraPodSpec"`
}

type alphaResources struct {
	GPU quantity `json:"gpu"`
}

func (a alpha) service(name string) service {
	main := a.ExtraPodSpec.MainContainer
	s := service{
		name: name, index: -1, kind: cmp.Or(a.SubComponentType, a.ComponentType), model: model([]container{main}),
		gpus: cmp.Or(int(a.Resources.Limits.GPU), int(a.Resources.Requests.GPU), main.Resources.gpus()),
	}
	a.fill(&s)
	return s
}

// beta is a component of v1beta1.
type beta struct {
	shared
	Name        string   `json:"name"`
	Type        string   `json:"type"`
	PodTemplate template `json:"podTemplate"`
}

func (b beta) service(index int) service {
	s := service{name: b.Name, index: index, kind: b.Type, gpus: b.PodTemplate.gpus(), model: b.PodTemplate.model()}
	b.fill(&s)
	return s
}

// parseGraph reads a DynamoGraphDeployment of either version.
func parseGraph(raw []byte) (graph, error) {
	var doc struct {
		subject
		Spec struct {
			Services   map[string]alpha `json:"services"`
			Components []beta           `json:"components"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return graph{}, fmt.Errorf("not a DynamoGraphDeployment as v1alpha1 or v1beta1 have it: %w", err)
	}
	g := graph{subject: doc.subject}
	for _, name := range slices.Sorted(maps.Keys(doc.Spec.Services)) {
		g.services = append(g.services, doc.Spec.Services[name].service(name))
	}
	for i, b := range doc.Spec.Components {
		g.services = append(g.services, b.service(i))
	}
	return g, nil
}

// The names that services had before they said what they are, by Dynamo's
// recipes for vLLM, SGLang and TensorRT-LLM.
func legacy() map[string]engine.Role {
	return map[string]engine.Role{
		"VllmPrefillWorker": engine.RolePrefill, "VllmDecodeWorker": engine.RoleDecode,
		"prefill": engine.RolePrefill, "decode": engine.RoleDecode,
		"TRTLLMPrefillWorker": engine.RolePrefill, "TRTLLMDecodeWorker": engine.RoleDecode,
	}
}

// roles finds the services that hold engines: as named by the caller, else by
// what they say they are, else by their names. One worker alone is aggregated
// (Dynamo calls it decode, or just worker).
func (g graph) roles(named map[engine.Role]string) (map[engine.Role]service, error) {
	if len(named) > 0 {
		return g.byName(named)
	}
	found := map[engine.Role]service{}
	var workers []string
	for _, s := range g.services {
		role := engine.Role(s.kind)
		if role != engine.RolePrefill && role != engine.RoleDecode {
			legacyRole, ok := legacy()[s.name]
			if !ok && s.kind != "worker" {
				continue
			}
			role = legacyRole
		}
		workers = append(workers, s.name)
		if other, twice := found[role]; twice {
			return nil, fmt.Errorf("%s: the services %s and %s are both %s (hint: name one service for each role)", g.Name, other.name, s.name, cmp.Or(string(role), "workers of no phase"))
		}
		found[role] = s
	}
	switch {
	case len(found) == 1:
		for role, s := range found {
			if role != engine.RolePrefill {
				return map[engine.Role]service{engine.RoleAggregated: s}, nil
			}
		}
	case len(found) == 2 && found[engine.RolePrefill].name != "" && found[engine.RoleDecode].name != "":
		return found, nil
	}
	return nil, fmt.Errorf("%s: cannot tell which services prefill and decode: workers are %s, services %s (hint: subComponentType: prefill and decode, or name one service for each role)",
		g.Name, list(workers), list(g.names()))
}

func (g graph) byName(named map[engine.Role]string) (map[engine.Role]service, error) {
	found := map[engine.Role]service{}
	for role, name := range named {
		for _, s := range g.services {
			if s.name == name {
				found[role] = s
			}
		}
		if found[role].name == "" {
			return nil, fmt.Errorf("%s has no service %s for %s: it has %s", g.Name, name, role, list(g.names()))
		}
	}
	return found, nil
}

func (g graph) names() []string {
	var names []string
	for _, s := range g.services {
		names = append(names, s.name)
	}
	return names
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
