package kube

import (
	"cmp"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// undisturbed are annotations by which autoscalers leave a pod where it is: one
// that is moved to a fuller node is measured no more
// (https://karpenter.sh/preview/reference/annotations/ and the FAQ of Kubernetes'
// cluster autoscaler, read 2026-11-22).
func undisturbed() map[string]string {
	return map[string]string{"karpenter.sh/do-not-disrupt": "true", "cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
}

// What a pod asks for with each GPU, besides it: less than every machine with GPUs
// has, and enough for it to be no pod without requests.
const (
	cpuPerGPU    = 1
	memoryPerGPU = 4 // GiB
)

// requests are what a pod with so many GPUs asks for besides them; one without
// GPUs asks for what was given alone.
func (o Options) requests(gpus int) map[string]string {
	all := map[string]string{}
	put := func(resource, given, usual string) {
		if gpus == 0 {
			usual = ""
		}
		if q := cmp.Or(given, usual); q != "" {
			all[resource] = q
		}
	}
	put("cpu", o.CPU, strconv.Itoa(cpuPerGPU*gpus))
	put("memory", o.Memory, strconv.Itoa(memoryPerGPU*gpus)+"Gi")
	return all
}

// tolerations are those that were given and, for a pod with GPUs, the one for the
// taint by which clouds keep other pods off such nodes: its key is the resource's
// name, as Kubernetes' ExtendedResourceToleration has it.
func (o Options) tolerations(gpus int) []corev1.Toleration {
	ours := corev1.Toleration{Key: o.GPUResource, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
	if gpus == 0 || slices.Contains(o.Tolerations, ours) {
		return o.Tolerations
	}
	return append(slices.Clip(o.Tolerations), ours)
}
