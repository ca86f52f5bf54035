package kubelet_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	batch "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"plimsoll/testdata/integration/cluster"
)

const namespace = "default"

// What becomes of a pod's process is in its status, in a kubelet's words.
func TestPodsAreProcesses(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Workloads: true, Images: map[string][]string{"shell": {"/bin/sh", "-c"}}})
	c.AddNode("first", 8)
	tests := map[string]struct {
		spec  string
		looks func(*corev1.Pod) error
	}{
		"crashes": {
			`containers: [{name: engine, image: shell, args: ["echo no such model; exit 3"]}]`,
			state("CrashLoopBackOff", 3, "Error", corev1.PodRunning, 1),
		},
		"crashed": {
			`{restartPolicy: Never, containers: [{name: engine, image: shell, args: ["echo no such model; exit 3"], terminationMessagePolicy: FallbackToLogsOnError}]}`,
			state("no such model\n", 3, "Error", corev1.PodFailed, 0),
		},
		"done":    {`{restartPolicy: Never, containers: [{name: engine, image: shell, args: ["true"]}]}`, state("", 0, "Completed", corev1.PodSucceeded, 0)},
		"missing": {`containers: [{name: engine, image: "registry/none:1"}]`, state("ImagePullBackOff", 0, "", corev1.PodPending, 0)},
		"no-program": {
			`{restartPolicy: Never, containers: [{name: engine, image: shell, command: [no-such-engine]}]}`,
			state("executable file not found", 128, "StartError", corev1.PodFailed, 0),
		},
		"memory": {
			`{restartPolicy: Never, containers: [{name: engine, image: shell, args: ["exec tail /dev/zero"], resources: {limits: {memory: 64Mi}}}]}`,
			state("", 137, "OOMKilled", corev1.PodFailed, 0),
		},
		"secret": {
			`containers: [{name: engine, image: shell, args: ["true"], env: [{name: HF_TOKEN, valueFrom: {secretKeyRef: {name: none, key: token}}}]}]`,
			state("CreateContainerConfigError", 0, "", corev1.PodPending, 0),
		},
		"environment": {
			`{restartPolicy: Never, containers: [{name: engine, image: shell, env: [{name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}, {name: AT, value: "$(POD_IP):80"}, {name: ESCAPED, value: "$$(POD_IP)"}],
				args: ["case $AT$ESCAPED in 127.*:80'$$(POD_IP)') test -z $PLIMSOLL_SERVERS && echo $0 >/data/said && cat /data/said;; *) exit 1;; esac", "0.0.0.0"],
				volumeMounts: [{name: data, mountPath: /data}]}], volumes: [{name: data, emptyDir: {}}]}`,
			state("", 0, "Completed", corev1.PodSucceeded, 0),
		},
		"deadline": {
			`{activeDeadlineSeconds: 1, containers: [{name: engine, image: shell, args: ["exec sleep 60"]}]}`,
			reason("DeadlineExceeded"),
		},
		"never-ready": {
			`{restartPolicy: Never, containers: [{name: engine, image: shell, args: ["exec sleep 60"], startupProbe: {httpGet: {port: 80}, periodSeconds: 1, failureThreshold: 1}}]}`,
			state("", 143, "Error", corev1.PodFailed, 0),
		},
		"too-large": {
			`containers: [{name: engine, image: shell, resources: {limits: {nvidia.com/gpu: 9}}}]`,
			func(p *corev1.Pod) error {
				if s := p.Status.Conditions; len(s) == 0 || s[0].Reason != corev1.PodReasonUnschedulable {
					return fmt.Errorf("%+v", p.Status)
				}
				return nil
			},
		},
	}
	for name, test := range tests {
		create(t, c, name, test.spec)
	}
	for name, test := range tests {
		awaits(t, c, name, test.looks)
	}
}

// state is how the only container waits, or ended, after so many restarts; what
// it waits for is its last end's.
func state(says string, code int32, ended string, phase corev1.PodPhase, restarts int32) func(*corev1.Pod) error {
	return func(p *corev1.Pod) error {
		wrong := fmt.Errorf("want %q, exit code %d by %q, %s after %d restarts, not %+v", says, code, ended, phase, restarts, p.Status)
		if len(p.Status.ContainerStatuses) != 1 {
			return wrong
		}
		s := p.Status.ContainerStatuses[0]
		last, waits := s.State.Terminated, says
		if s.State.Waiting != nil {
			last, waits = s.LastTerminationState.Terminated, s.State.Waiting.Reason
		} else if last != nil && strings.Contains(last.Message, says) {
			waits = says
		}
		if waits != says || p.Status.Phase != phase || s.RestartCount != restarts || (last == nil) != (ended == "") ||
			last != nil && (last.ExitCode != code || last.Reason != ended) {
			return wrong
		}
		return nil
	}
}

func reason(want string) func(*corev1.Pod) error {
	return func(p *corev1.Pod) error {
		if p.Status.Phase != corev1.PodFailed || p.Status.Reason != want {
			return fmt.Errorf("want %s, not %+v", want, p.Status)
		}
		return nil
	}
}

// Engines with one port each, on one machine: ready by their probe, reached
// through the API server, gone with their pods.
func TestEnginesServe(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Workloads: true, Images: map[string][]string{
		"plimsoll": {os.Getenv("PLIMSOLL")}, "stubborn": {"/bin/sh", "-c", `trap "" TERM; while :; do sleep 0.1; done`},
	}})
	c.AddNode("first", 8)
	const engine = `{terminationGracePeriodSeconds: 1, containers: [{name: engine, image: plimsoll, args: [engine, serve, --model, llama-3.1-8b, --gpu, h100-sxm, --host, 0.0.0.0],
		ports: [{containerPort: 8000, name: http}], readinessProbe: {httpGet: {path: /health, port: http}, periodSeconds: 1}, resources: {limits: {nvidia.com/gpu: 4}}}]}`
	create(t, c, "one", engine)
	create(t, c, "two", engine)
	create(t, c, "stubborn", `{terminationGracePeriodSeconds: 1, containers: [{name: engine, image: stubborn}]}`)
	for _, name := range []string{"one", "two", "stubborn"} {
		awaits(t, c, name, ready)
	}
	for _, name := range []string{"one", "two"} {
		url := forward(t, c, name, 8000)
		if status, provenance := get(t, url+"/health"); status != http.StatusOK || provenance != "simulated" {
			t.Errorf("/health of %s: %d, %q", name, status, provenance)
		}
		log, err := c.Client.CoreV1().Pods(namespace).GetLogs(name, &corev1.PodLogOptions{TailLines: new(int64(1))}).DoRaw(t.Context())
		if err != nil || strings.Count(string(log), "\n") != 1 {
			t.Errorf("the last line of %s: %q, %v", name, log, err)
		}
	}
	follows(t, c, "two")

	if err := c.Kubelet.Evict(namespace, "one"); err != nil {
		t.Fatal(err)
	}
	awaits(t, c, "one", reason("Evicted"))
	for _, name := range []string{"one", "two", "stubborn"} {
		if err := c.Client.CoreV1().Pods(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		awaits(t, c, name, nil)
	}
}

// follows reads a pod's log to its end, which comes with the pod's.
func follows(t *testing.T, c *cluster.Cluster, name string) {
	t.Helper()
	stream, err := c.Client.CoreV1().Pods(namespace).GetLogs(name, &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer func() { _ = stream.Close() }()
		if text, err := io.ReadAll(stream); err != nil || len(text) == 0 {
			t.Errorf("following the log: %q, %v", text, err)
		}
	})
}

// A Job's pod has the rights of its account, and is not started twice.
func TestJobHasItsAccount(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Workloads: true, Images: map[string][]string{"shell": {"/bin/sh", "-c"}}})
	c.AddNode("first", 0)
	if _, err := c.Client.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "profiler"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	job := &batch.Job{ObjectMeta: metav1.ObjectMeta{Name: "profile"}}
	if err := yaml.UnmarshalStrict([]byte(`{restartPolicy: Never, serviceAccountName: profiler, containers: [{name: p, image: shell, args: ["cat $KUBECONFIG"]}]}`), &job.Spec.Template.Spec); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client.BatchV1().Jobs(namespace).Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	poll(t, "the Job is complete", func(ctx context.Context) error {
		j, err := c.Client.BatchV1().Jobs(namespace).Get(ctx, "profile", metav1.GetOptions{})
		if err == nil && j.Status.Succeeded != 1 {
			err = fmt.Errorf("%+v", j.Status)
		}
		return err
	})
	pods, err := c.Client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) != 1 {
		t.Fatalf("%d pods: %v", len(pods.Items), err)
	}
	log, err := c.Client.CoreV1().Pods(namespace).GetLogs(pods.Items[0].Name, &corev1.PodLogOptions{}).DoRaw(t.Context())
	if err != nil || !strings.Contains(string(log), "namespace: "+namespace) {
		t.Errorf("its kubeconfig: %s, %v", log, err)
	}
}

func ready(p *corev1.Pod) error {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("not ready: %+v", p.Status)
}

func create(t *testing.T, c *cluster.Cluster, name, spec string) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := yaml.UnmarshalStrict([]byte(strings.ReplaceAll(spec, "\t", " ")), &pod.Spec); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// awaits waits until a pod looks so, or is gone where nothing is said of its looks.
func awaits(t *testing.T, c *cluster.Cluster, name string, looks func(*corev1.Pod) error) {
	t.Helper()
	poll(t, name, func(ctx context.Context) error {
		p, err := c.Client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case looks == nil && apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		case looks == nil:
			return fmt.Errorf("it is there: %+v", p.Status)
		}
		return looks(p)
	})
}

func poll(t *testing.T, what string, done func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
	defer cancel()
	if err := cluster.Poll(ctx, done); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}
