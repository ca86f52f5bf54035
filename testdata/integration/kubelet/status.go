package kubelet

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// write puts the pod's status where the API server's is; that of a pod that is
// gone goes nowhere.
func (p *pod) write(ctx context.Context) error {
	pods := p.k.options.Client.CoreV1().Pods(p.object.Namespace)
	current, err := pods.Get(ctx, p.object.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && current.UID != p.object.UID {
		return nil
	}
	if err != nil {
		return err
	}
	p.fill(&current.Status)
	_, err = pods.UpdateStatus(ctx, current, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// fill changes what a kubelet owns in a status.
func (p *pod) fill(s *corev1.PodStatus) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.HostIP, s.PodIP = "127.0.0.1", p.ip
	s.HostIPs, s.PodIPs = []corev1.HostIP{{IP: s.HostIP}}, []corev1.PodIP{{IP: p.ip}}
	s.StartTime = &p.began
	s.ContainerStatuses = nil
	ready := true
	for _, c := range p.containers {
		s.ContainerStatuses = append(s.ContainerStatuses, *c.status.DeepCopy())
		ready = ready && c.status.Ready
	}
	s.Phase = p.phase()
	s.Reason, s.Message = p.reason, p.message
	ready = ready && s.Phase == corev1.PodRunning
	condition(s, corev1.PodInitialized, true, "")
	condition(s, corev1.ContainersReady, ready, "ContainersNotReady")
	condition(s, corev1.PodReady, ready, "ContainersNotReady")
	if p.reason == "Evicted" {
		condition(s, corev1.DisruptionTarget, true, corev1.PodReasonTerminationByKubelet)
	}
}

// phase is what the containers' states come to.
func (p *pod) phase() corev1.PodPhase {
	if p.reason != "" {
		return corev1.PodFailed
	}
	ran, ended, failed := 0, 0, 0
	for _, c := range p.containers {
		if c.status.State.Waiting == nil || c.status.RestartCount > 0 || c.status.LastTerminationState.Terminated != nil {
			ran++
		}
		if t := c.status.State.Terminated; t != nil && c.forGood(t) {
			ended++
			if t.ExitCode != 0 {
				failed++
			}
		}
	}
	switch {
	case ended == len(p.containers) && failed > 0:
		return corev1.PodFailed
	case ended == len(p.containers):
		return corev1.PodSucceeded
	case ran == len(p.containers):
		return corev1.PodRunning
	default:
		return corev1.PodPending
	}
}

// forGood reports whether a container that ended so is not started again.
func (c *container) forGood(t *corev1.ContainerStateTerminated) bool {
	switch c.pod.object.Spec.RestartPolicy {
	case corev1.RestartPolicyNever:
		return true
	case corev1.RestartPolicyOnFailure:
		return t.ExitCode == 0 || c.pod.stopping.Err() != nil
	default:
		return c.pod.stopping.Err() != nil
	}
}

func condition(s *corev1.PodStatus, kind corev1.PodConditionType, holds bool, whyNot string) {
	status := corev1.ConditionFalse
	if holds {
		status = corev1.ConditionTrue
		if kind != corev1.DisruptionTarget {
			whyNot = ""
		}
	}
	next := corev1.PodCondition{Type: kind, Status: status, Reason: whyNot, LastTransitionTime: metav1.Now()}
	i := slices.IndexFunc(s.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
	switch {
	case i < 0:
		s.Conditions = append(s.Conditions, next)
	case s.Conditions[i].Status != status:
		s.Conditions[i] = next
	}
}
