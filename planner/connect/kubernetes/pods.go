package kubernetes

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"plimsoll/engine/kube/cluster"
)

// pod is what runs one engine, or a part of one.
type pod struct{ corev1.Pod }

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
		if index, ok := p.Labels[by[1]]; ok {
			return p.Labels[by[0]] + "/" + index
		}
	}
	return p.Name
}

func (p pod) stops() bool { return cluster.Stops(&p.Pod) }
func (p pod) ready() bool { return cluster.Ready(&p.Pod) }
func (p pod) why() string { return cluster.Why(&p.Pod) }

func (p pod) unplaced() bool {
	_, unplaced := cluster.Unplaced(&p.Pod)
	return unplaced
}
