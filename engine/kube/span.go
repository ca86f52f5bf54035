package kube

import (
	"fmt"
	"strings"

	"plimsoll/engine"
	"plimsoll/engine/field"
)

// spanning are the commands of an engine over several nodes, of the pod that
// serves and of the others. The kubelet puts in the variables that LeaderWorkerSet
// gives to its pods.
//
// vLLM: Ray, started by the script in its image
// (https://docs.vllm.ai/en/stable/deployment/frameworks/lws/, read 2026-11-21).
// SGLang: each node is told its rank
// (https://docs.sglang.ai/references/multi_node_deployment/, read 2026-11-21).
func spanning(kind engine.Kind, argv []string) (leader, worker []string, err error) {
	switch kind {
	case engine.KindVLLM:
		const script = "bash /vllm-workspace/examples/online_serving/multi-node-serving.sh "
		serve := append(append([]string{}, argv...), "--distributed-executor-backend", "ray")
		return []string{"sh", "-c", script + "leader --ray_cluster_size=$(LWS_GROUP_SIZE) && exec " + quoted(serve)},
			[]string{"sh", "-c", script + "worker --ray_address=$(LWS_LEADER_ADDRESS)"}, nil
	case engine.KindSGLang:
		all := append(escaped(argv), "--dist-init-addr", "$(LWS_LEADER_ADDRESS):20000", "--nnodes", "$(LWS_GROUP_SIZE)", "--node-rank", "$(LWS_WORKER_INDEX)")
		return all, all, nil
	default:
		return nil, nil, fmt.Errorf("%s spans nodes in no way that the program knows (hint: "+field.TP+" with at most as many GPUs as "+field.GPUsPerNode+", or a "+field.KubeTemplate+" that does it for one node)", kind)
	}
}

// quoted is argv as a shell reads it back, and as the kubelet leaves it alone.
func quoted(argv []string) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = "'" + strings.ReplaceAll(escape(a), "'", `'\''`) + "'"
	}
	return strings.Join(words, " ")
}
