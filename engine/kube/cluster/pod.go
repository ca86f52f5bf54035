package cluster

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Stops reports whether a pod was told to end.
func Stops(p *corev1.Pod) bool { return p.DeletionTimestamp != nil }

// Ready reports whether a pod serves.
func Ready(p *corev1.Pod) bool {
	c, ok := condition(p, corev1.PodReady)
	return ok && c.Status == corev1.ConditionTrue
}

// Unplaced is a pod that the scheduler looked at and found no node for, and what
// it says of the nodes.
func Unplaced(p *corev1.Pod) (message string, unplaced bool) {
	c, ok := condition(p, corev1.PodScheduled)
	if !ok || c.Status != corev1.ConditionFalse {
		return "", false
	}
	if c.Reason != corev1.PodReasonUnschedulable && c.Reason != corev1.PodReasonSchedulingGated {
		return "", false
	}
	return strings.TrimSpace(fmt.Sprintf("%.*s", longestMessage, c.Message)), true
}

// longestMessage is how much of a scheduler's or kubelet's message is kept, in
// characters.
const longestMessage = 300

// Why a pod is not ready, where that is more than that it starts: the
// scheduler's message, or the reason that its first container waits for.
func Why(p *corev1.Pod) string {
	if message, unplaced := Unplaced(p); unplaced {
		return message
	}
	for _, c := range containers(p) {
		if w := c.State.Waiting; w != nil && w.Reason != "" && !starts(w.Reason) {
			return w.Reason
		}
	}
	return ""
}

// starts is a reason to wait that every container has at first.
func starts(reason string) bool { return reason == "ContainerCreating" || reason == "PodInitializing" }

// containers are the states of a pod's containers, in the order in which they
// run: those that initialise it come first.
func containers(p *corev1.Pod) []corev1.ContainerStatus {
	return append(append([]corev1.ContainerStatus{}, p.Status.InitContainerStatuses...), p.Status.ContainerStatuses...)
}

func condition(p *corev1.Pod, kind corev1.PodConditionType) (corev1.PodCondition, bool) {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c, true
		}
	}
	return corev1.PodCondition{}, false
}
