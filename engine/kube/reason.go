package kube

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll/engine/field"
	"plimsoll/engine/kube/cluster"
)

// PodError says why an engine's pod does not serve, or serves no more.
type PodError struct {
	Engine  string // as in messages: "decode tp2"
	Pod     string
	Reason  string // in Kubernetes' words: Unschedulable, ImagePullBackOff, OOMKilled, Error, Evicted
	Message string
	Exited  bool     // the program ended, with Code
	Code    int      // exit status; 128 and a signal's number where one ended it
	Tail    []string // last lines of its log
	Hint    string
}

func (e *PodError) Error() string {
	s := e.Engine
	if e.Pod != "" {
		s += " (pod " + e.Pod + ")"
	}
	s += ": " + e.Reason
	if e.Exited {
		s += fmt.Sprintf(", exit code %d", e.Code)
	}
	if e.Message != "" {
		s += ": " + e.Message
	}
	if e.Hint != "" {
		s += " (hint: " + e.Hint + ")"
	}
	if len(e.Tail) > 0 {
		s += "; its last log lines:\n  | " + strings.Join(e.Tail, "\n  | ")
	}
	return s
}

// seen is what a pod's status comes to.
type seen struct {
	ready bool
	// end is why it will never serve, or has ended; nil while it may.
	end *PodError
	// trouble lasts by itself, or passes: it ends an engine that has it too long.
	trouble *PodError
	// unplaced has no node yet.
	unplaced bool
	// waiting is what it waits for, in a word; empty where it just starts.
	waiting string
}

// judge reads a pod's status.
func judge(p *corev1.Pod) seen {
	if end := ended(p); end != nil {
		end.Pod = p.Name
		return seen{end: end, waiting: end.Reason}
	}
	if message, ok := cluster.Unplaced(p); ok {
		return seen{unplaced: true, waiting: message, trouble: &PodError{
			Pod: p.Name, Reason: unschedulable, Message: message, Hint: unplacedHint(message),
		}}
	}
	s := seen{ready: cluster.Ready(p), unplaced: p.Spec.NodeName == "", waiting: cluster.Why(p)}
	for _, c := range cluster.Containers(p) {
		w := c.State.Waiting
		if w == nil {
			continue
		}
		e := &PodError{Pod: p.Name, Reason: w.Reason, Message: strings.TrimSpace(w.Message)}
		switch w.Reason {
		case "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError":
			s.end, e.Hint = e, waitingHint(w.Reason, w.Message)
		case "ErrImagePull", "ImagePullBackOff":
			e.Hint = waitingHint(w.Reason, w.Message)
			if hopeless(w.Message) {
				s.end = e
			} else {
				s.trouble = e
			}
		case "CreateContainerError", "RunContainerError", "RegistryUnavailable", "ImageInspectError":
			s.trouble = e
		}
	}
	return s
}

// ended is a pod, or a container of it, that was ended or ended by itself. The
// controllers would start it again, and the numbers would be of two engines.
func ended(p *corev1.Pod) *PodError {
	over := p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
	if over && p.Status.Reason != "" { // its containers were killed for it
		return &PodError{Reason: p.Status.Reason, Message: p.Status.Message}
	}
	for _, c := range p.Status.InitContainerStatuses {
		t := cmp.Or(c.LastTerminationState.Terminated, c.State.Terminated)
		if t != nil && t.ExitCode != 0 && !c.Ready {
			return exited("container "+c.Name+" that prepares it", c, t)
		}
	}
	for _, c := range p.Status.ContainerStatuses {
		if c.Name != container && len(p.Status.ContainerStatuses) > 1 {
			continue // a sidecar's own business
		}
		if t := cmp.Or(c.LastTerminationState.Terminated, c.State.Terminated); t != nil {
			return exited("", c, t)
		}
	}
	if over {
		return &PodError{Reason: string(p.Status.Phase), Message: p.Status.Message}
	}
	return nil
}

func exited(what string, c corev1.ContainerStatus, t *corev1.ContainerStateTerminated) *PodError {
	e := &PodError{Reason: cmp.Or(t.Reason, "Error"), Message: strings.TrimSpace(t.Message), Exited: true, Code: int(t.ExitCode)}
	if what != "" {
		e.Message = strings.TrimSpace(what + " failed " + e.Message)
	}
	if w := c.State.Waiting; w != nil && w.Reason == "CrashLoopBackOff" {
		e.Reason = "CrashLoopBackOff (" + e.Reason + ")"
	}
	switch {
	case t.Reason == "OOMKilled":
		e.Hint = "the container used more than its memory limit, or the node has no more: a " + field.KubeTemplate + " without a limit, or a larger node"
	case t.ExitCode == 137:
		e.Hint = "it was killed: often the kernel, out of memory"
	}
	return e
}

// unplacedHint is about all that a scheduler's message says: it counts the nodes of
// a cluster by what was against each of them.
func unplacedHint(message string) string {
	var hints []string
	for _, h := range []struct{ word, hint string }{
		{"untolerated taint", field.Toleration + " KEY=VALUE:EFFECT lets it run on tainted nodes"},
		{"Insufficient", "fewer GPUs with " + field.TP + ", another " + field.NodeSelector + ", a smaller " + field.CPURequest + " or " + field.MemoryRequest + ", or a longer " + field.ScheduleTimeout + " where an autoscaler adds nodes"},
		{"node affinity", "kubectl get nodes --show-labels shows what " + field.NodeSelector + " may ask for"},
		{"persistentvolumeclaim", "kubectl get pvc shows what " + field.ModelPVC + " may name"},
	} {
		if strings.Contains(message, h.word) {
			hints = append(hints, h.hint)
		}
	}
	return strings.Join(hints, "; ")
}

func refusedHint(message string) string {
	switch {
	case strings.Contains(message, "exceeded quota"):
		return "kubectl describe resourcequota shows what is left of the namespace's quota"
	case strings.Contains(message, "must specify"): // a quota's, of a resource that the pod does not ask for
		return "the namespace's quota counts a resource that the pods do not ask for: a " + field.KubeTemplate + " with it under resources"
	case strings.Contains(message, "violates PodSecurity"):
		return "a " + field.KubeTemplate + " with the securityContext that it names, for an image that runs so; or a namespace for the profile with the label pod-security.kubernetes.io/enforce=baseline"
	}
	return ""
}

func waitingHint(reason, message string) string {
	switch {
	case reason == "ErrImagePull" || reason == "ImagePullBackOff" || reason == "InvalidImageName":
		return "is " + field.Image + " right, and does the registry want an " + field.ImagePullSecret + "?"
	case reason == "CreateContainerConfigError" && strings.Contains(message, "runAsNonRoot"):
		return "the image's user is root: a " + field.KubeTemplate + " with a runAsUser that the image can run as"
	case reason == "CreateContainerConfigError":
		return "does the Secret or ConfigMap that it names exist, with that key?"
	}
	return ""
}

// hopeless are answers of a registry that the next try gets again.
func hopeless(message string) bool {
	m := strings.ToLower(message)
	return slices.ContainsFunc([]string{
		"not found", "manifest unknown", "unauthorized", "authentication required", "denied", "no basic auth", "invalid reference", "forbidden",
	}, func(s string) bool { return strings.Contains(m, s) })
}

// serving is the pod of an engine that serves, or will: the newest that is not
// told to end; of a group its leader. nil where there is none.
func serving(pods []*corev1.Pod) *corev1.Pod {
	var best *corev1.Pod
	for _, p := range pods {
		if index := p.Labels[indexLabel]; cluster.Stops(p) || index != "" && index != "0" {
			continue
		}
		if best == nil || best.CreationTimestamp.Before(&p.CreationTimestamp) {
			best = p
		}
	}
	return best
}

// How long a trouble that may pass is looked at: a registry may be away for a
// moment, and a quota learns late that the pods before are gone.
const (
	troubleGrace = 30 * time.Second
	quotaGrace   = 10 * time.Second
)

// lasts is how long e is looked at before it ends an engine that has a node.
func (e *PodError) lasts() time.Duration {
	if e.Reason == failedCreate {
		return quotaGrace
	}
	return troubleGrace
}

// unschedulable is the reason of a pod that no node has room for.
const unschedulable = corev1.PodReasonUnschedulable

// failedCreate is the reason of a pod that the API server refused.
const failedCreate = "FailedCreate"
