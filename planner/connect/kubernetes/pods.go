package kubernetes

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"plimsoll/engine/kube/cluster"
)

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
func count(pods []corev1.Pod, size int) census {
	replicas := map[string][]*corev1.Pod{}
	for i := range pods {
		p := &pods[i]
		if p.Status.Phase != "Succeeded" && p.Status.Phase != "Failed" || cluster.Stops(p) {
			replicas[replica(p)] = append(replicas[replica(p)], p)
		}
	}
	var c census
	for _, group := range replicas {
		switch {
		case slices.ContainsFunc(group, cluster.Stops):
			c.draining++
			continue
		case slices.ContainsFunc(group, unplaced):
			c.pending++
		case len(group) >= size && !slices.ContainsFunc(group, func(p *corev1.Pod) bool { return !cluster.Ready(p) }):
			c.ready++
		}
		c.live++
		for _, p := range group {
			if why := cluster.Why(p); why != "" && !slices.Contains(c.why, why) {
				c.why = append(c.why, why)
			}
		}
	}
	slices.Sort(c.why)
	return c
}

// replica is the name of the engine that a pod is a part of: the group of a
// LeaderWorkerSet, of a Grove scaling group, or the pod itself.
func replica(p *corev1.Pod) string {
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

func unplaced(p *corev1.Pod) bool {
	_, unplaced := cluster.Unplaced(p)
	return unplaced
}
