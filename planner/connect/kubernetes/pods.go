package kubernetes

import (
	"fmt"
	"slices"
	"strings"
)

// pod is what of a pod tells whether its engine serves.
type pod struct {
	Metadata struct {
		Name              string            `json:"name"`
		Labels            map[string]string `json:"labels"`
		DeletionTimestamp string            `json:"deletionTimestamp"`
	} `json:"metadata"`
	Status struct {
		Phase             string          `json:"phase"`
		Conditions        []condition     `json:"conditions"`
		ContainerStatuses []containerSeen `json:"containerStatuses"`
	} `json:"status"`
}

type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

type containerSeen struct {
	State struct {
		Waiting struct {
			Reason string `json:"reason"`
		} `json:"waiting"`
	} `json:"state"`
}

// census is what a pool's pods come to, in replicas.
type census struct {
	live     int // that are to stay, ready or not
	ready    int
	pending  int
	draining int
	why      []string // of those not ready: the reasons that there are, each once
}

// count sorts pods into replicas of size pods each. A replica of several pods (an
// engine over several nodes) is ready when all of them are, has no place when one
// of them has none, and stops when one of them does. Pods that ended or failed
// are none.
func count(pods []pod, size int) census {
	replicas := map[string][]pod{}
	for _, p := range pods {
		if p.Status.Phase != "Succeeded" && p.Status.Phase != "Failed" || p.stops() {
			replicas[p.replica()] = append(replicas[p.replica()], p)
		}
	}
	var c census
	for _, group := range replicas {
		switch {
		case slices.ContainsFunc(group, pod.stops):
			c.draining++
			continue
		case slices.ContainsFunc(group, pod.unplaced):
			c.pending++
		case len(group) >= size && !slices.ContainsFunc(group, func(p pod) bool { return !p.ready() }):
			c.ready++
		}
		c.live++
		for _, p := range group {
			if why := p.why(); why != "" && !slices.Contains(c.why, why) {
				c.why = append(c.why, why)
			}
		}
	}
	slices.Sort(c.why)
	return c
}

// replica is the name of the engine that a pod is a part of: the group of a
// LeaderWorkerSet, of a Grove scaling group, or the pod itself.
func (p pod) replica() string {
	for _, by := range [][2]string{
		{"leaderworkerset.sigs.k8s.io/name", "leaderworkerset.sigs.k8s.io/group-index"},
		{"grove.io/podcliquescalinggroup", "grove.io/podcliquescalinggroup-replica-index"},
	} {
		if index, ok := p.Metadata.Labels[by[1]]; ok {
			return p.Metadata.Labels[by[0]] + "/" + index
		}
	}
	return p.Metadata.Name
}

func (p pod) stops() bool { return p.Metadata.DeletionTimestamp != "" }

func (p pod) ready() bool {
	c, ok := p.condition("Ready")
	return ok && c.Status == "True"
}

// unplaced is a pod that the scheduler looked at and found no node for.
func (p pod) unplaced() bool {
	c, ok := p.condition("PodScheduled")
	return ok && c.Status == "False" && (c.Reason == "Unschedulable" || c.Reason == "SchedulingGated")
}

func (p pod) condition(kind string) (condition, bool) {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c, true
		}
	}
	return condition{}, false
}

// why a pod is not ready, where that is more than that it starts.
func (p pod) why() string {
	if p.unplaced() {
		c, _ := p.condition("PodScheduled")
		return strings.TrimSpace(fmt.Sprintf("%.200s", c.Message))
	}
	for _, c := range p.Status.ContainerStatuses {
		if r := c.State.Waiting.Reason; r != "" && r != "ContainerCreating" && r != "PodInitializing" {
			return r
		}
	}
	return ""
}
