// Package profile tests the Job that profile-sla manifest prints.
package profile

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"plimsoll/testdata/integration/cluster"
	"plimsoll/testdata/integration/program"
)

const namespace = "profiles"

// A real API server takes what profile-sla manifest prints, whatever it is asked for.
// The containers' commands, run as they stand with the rights of the account and with
// its volumes as folders, leave a profile in the ConfigMap and in the claim.
func TestJob(t *testing.T) {
	on := cluster.Start(t, cluster.Options{})
	on.Create("", &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace}}})
	taken(t, on, printed(t, "profile-sla", "manifest", "--kube-namespace", namespace, "--image", "vllm/vllm-openai:v1", "--plimsoll-image", "plimsoll:v1", "--results-pvc", "profiles",
		"--engine", "vllm", "--model", "Qwen/Qwen3-8B", "--gpu", "h100-sxm", "--gpu-count", "8", "--secret-env", "HF_TOKEN=hf/token", "--", "--quantization", "fp8"))
	taken(t, on, printed(t, "planner", "manifest", "--image", "plimsoll:v1", "--kube-namespace", namespace, "--deployment", "llama", "--profile-pvc", "profiles"))

	list := printed(t, "profile-sla", "manifest", "--kube-namespace", namespace, "--name", "llama", "--image", "engine:v1", "--plimsoll-image", "plimsoll:v1",
		"--results-pvc", "profiles", "--results-configmap", "llama-profile", "--engine", "sim", "--gpu", "l40s", "--gpu-count", "2", "--tp", "1", "--isl", "500", "--osl", "30",
		"--ttft", "1000", "--itl", "100", "--max-num-seqs", "16", "--prefill-interpolation-granularity", "3", "--decode-interpolation-granularity", "2", "--max-context-length", "700", "--verify", "never")
	taken(t, on, list)
	on.Create(namespace, list...)
	pod := podOf(t, list)
	dirs := volumes(t, pod)
	run(t, dirs, os.Getenv(program.Path), pod.InitContainers[0], "")
	run(t, dirs, "", pod.Containers[0], "KUBECONFIG="+on.KubeconfigOfAccount(namespace, pod.ServiceAccountName))

	results, err := on.Client.CoreV1().ConfigMaps(namespace).Get(t.Context(), "llama-profile", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"prefill_raw_data.json", "decode_raw_data.json", "recommendation.json", "run.json"} {
		if !json.Valid([]byte(results.Data[name])) {
			t.Errorf("%s of the ConfigMap is %q", name, results.Data[name])
		}
		if text, err := os.ReadFile(filepath.Join(dirs["/results"], "profiling_results", name)); err != nil || string(text) != results.Data[name] {
			t.Errorf("%s of the claim is %q, %v", name, text, err)
		}
	}
}

// printed is what the program prints as objects.
func printed(t *testing.T, args ...string) []*unstructured.Unstructured {
	t.Helper()
	r := program.Run(t.Context(), t, nil, args...)
	if r.Code != 0 {
		t.Fatalf("plimsoll %v: %d\n%s", args, r.Code, r.Stderr)
	}
	list, err := cluster.Objects([]byte(r.Stdout))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// taken wants a strict API server to take the objects, in a dry run.
func taken(t *testing.T, on *cluster.Cluster, list []*unstructured.Unstructured) {
	t.Helper()
	for _, o := range list {
		resource := on.Dynamic().Resource(cluster.ResourceOf(o)).Namespace(namespace)
		if _, err := resource.Create(t.Context(), o, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict, DryRun: []string{metav1.DryRunAll}}); err != nil {
			t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
}

func podOf(t *testing.T, list []*unstructured.Unstructured) corev1.PodSpec {
	t.Helper()
	var job batchv1.Job
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list[len(list)-1].Object, &job); err != nil {
		t.Fatal(err)
	}
	return job.Spec.Template.Spec
}

// volumes are folders for what the profile's container mounts, by its path there.
func volumes(t *testing.T, pod corev1.PodSpec) map[string]string {
	t.Helper()
	dirs := map[string]string{}
	for _, m := range pod.Containers[0].VolumeMounts {
		dirs[m.MountPath] = t.TempDir()
	}
	return dirs
}

// run runs a container's command as it stands; entry is its image's, where it gives none.
func run(t *testing.T, dirs map[string]string, entry string, c corev1.Container, env string) {
	t.Helper()
	argv := append(append([]string{}, c.Command...), c.Args...)
	if len(c.Command) == 0 {
		argv = append([]string{entry}, argv...)
	}
	for i, word := range argv {
		for path, dir := range dirs {
			if strings.HasPrefix(word, path+"/") {
				argv[i] = dir + strings.TrimPrefix(word, path)
			}
		}
	}
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dirs[c.WorkingDir], append(os.Environ(), env)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", argv, err, out)
	}
}
