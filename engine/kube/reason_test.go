package kube

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// What each status comes to; the statuses are files, as the API server gives them.
func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		ready, unplaced bool
		end, trouble    string // words in the message; empty: none
		waiting         string
	}{
		"ready":                 {ready: true},
		"pulling":               {},
		"loading":               {},
		"unschedulable":         {unplaced: true, trouble: "Unschedulable: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu.", waiting: "0/3 nodes"},
		"taint":                 {unplaced: true, trouble: "--toleration KEY=VALUE:EFFECT", waiting: "untolerated taint"},
		"no_claim":              {unplaced: true, trouble: "kubectl get pvc", waiting: "not found"},
		"image_not_found":       {end: "ImagePullBackOff: Back-off pulling image", waiting: "ImagePullBackOff"},
		"registry_away":         {trouble: "ErrImagePull: rpc error", waiting: "ErrImagePull"},
		"invalid_image":         {end: "InvalidImageName: Failed to apply default image tag", waiting: "InvalidImageName"},
		"no_secret":             {end: `CreateContainerConfigError: secret "hf" not found (hint: does the Secret`, waiting: "CreateContainerConfigError"},
		"crash":                 {end: "Error, exit code 1", waiting: "Error"},
		"crash_loop":            {end: "CrashLoopBackOff (Error), exit code 1", waiting: "CrashLoopBackOff (Error)"},
		"oom":                   {end: "OOMKilled, exit code 137 (hint: the container used more than its memory limit", waiting: "OOMKilled"},
		"oom_restarted":         {end: "CrashLoopBackOff (OOMKilled), exit code 137", waiting: "CrashLoopBackOff (OOMKilled)"},
		"evicted":               {end: "Evicted: The node was low on resource: memory.", waiting: "Evicted"},
		"evicted_and_ended":     {end: "Evicted: The node was low on resource: memory.", waiting: "Evicted"},
		"exited_by_itself":      {end: "Completed, exit code 0", waiting: "Completed"},
		"init_failed":           {end: "container fetch that prepares it failed", waiting: "Error"},
		"sidecar_crashed":       {ready: true},
		"gated":                 {unplaced: true, trouble: "Scheduling is blocked", waiting: "Scheduling is blocked"},
		"just_made":             {unplaced: true},
		"run_container_error":   {trouble: "RunContainerError: failed to create containerd task", waiting: "RunContainerError"},
		"not_ready_for_a_while": {},
	} {
		raw, err := os.ReadFile(filepath.Join("testdata", "pods", name+".json"))
		if err != nil {
			t.Error(err)
			continue
		}
		var p corev1.Pod
		if err := json.Unmarshal(raw, &p); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		s := judge(&p)
		if s.ready != c.ready || s.unplaced != c.unplaced || !strings.Contains(s.waiting, c.waiting) || (s.waiting == "") != (c.waiting == "") {
			t.Errorf("%s: %+v, want %+v", name, s, c)
		}
		says(t, name, s.end, c.end)
		says(t, name, s.trouble, c.trouble)
	}
}

func says(t *testing.T, name string, got *PodError, want string) {
	t.Helper()
	if (got == nil) != (want == "") || got != nil && !strings.Contains(got.Error(), want) {
		t.Errorf("%s: %v, want %q in it", name, got, want)
	}
}

// What was against any of the nodes is hinted at, not only the first of it; and a
// pod that is refused by what people set up often is, by name.
func TestHints(t *testing.T) {
	for name, c := range map[string]struct {
		hint string
		want []string
	}{
		"a taint beside nodes without GPUs": {
			unplacedHint("0/4 nodes are available: 1 node(s) had untolerated taint {nvidia.com/gpu: present}, 3 Insufficient nvidia.com/gpu."),
			[]string{"--toleration", "--tp", "; "},
		},
		"a selector": {unplacedHint("0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."), []string{"--node-selector"}},
		"a restricted namespace": {
			refusedHint(`pods "p" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container "engine" must set securityContext.allowPrivilegeEscalation=false)`),
			[]string{"--kube-template", "securityContext", "enforce=baseline"},
		},
		"a quota of what was not asked for": {
			refusedHint(`pods "p" is forbidden: failed quota: q: must specify limits.memory for: engine`), []string{"under resources"},
		},
		"a root image": {
			waitingHint("CreateContainerConfigError", "container has runAsNonRoot and image will run as root"), []string{"runAsUser"},
		},
	} {
		for _, w := range c.want {
			if !strings.Contains(c.hint, w) {
				t.Errorf("%s: %q, want %q in it", name, c.hint, w)
			}
		}
	}
}

func FuzzJudge(f *testing.F) {
	files, _ := filepath.Glob(filepath.Join("testdata", "pods", "*.json"))
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var p corev1.Pod
		if json.Unmarshal(raw, &p) != nil {
			return
		}
		s := judge(&p)
		if s.end != nil && (s.ready || s.end.Error() == "" || s.end.Pod != p.Name) {
			t.Errorf("%+v", s)
		}
		if s.trouble != nil && s.trouble.Error() == "" {
			t.Errorf("%+v", s)
		}
		if got := serving([]*corev1.Pod{&p}); got != nil && got.DeletionTimestamp != nil {
			t.Error("a pod that stops serves")
		}
	})
}
