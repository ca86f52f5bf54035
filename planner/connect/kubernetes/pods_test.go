package kubernetes

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"plimsoll/engine/enginetest"
	"plimsoll/planner"
)

// podOf makes a pod from words: a name, "group/index", and what befell it.
func podOf(words string) corev1.Pod {
	var p corev1.Pod
	p.Status.Phase = "Running"
	for i, w := range strings.Fields(words) {
		set, index, grouped := strings.Cut(w, "/")
		switch {
		case i == 0:
			p.Name = w
		case grouped:
			p.Labels = map[string]string{"leaderworkerset.sigs.k8s.io/name": set, "leaderworkerset.sigs.k8s.io/group-index": index}
		case w == "ready":
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: "Ready", Status: "True"})
		case w == "unplaced":
			p.Status.Phase = "Pending"
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: "PodScheduled", Status: "False", Reason: "Unschedulable", Message: "no GPU"})
		case w == "stops":
			p.DeletionTimestamp = &metav1.Time{Time: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)}
		case w == "crashes":
			p.Status.ContainerStatuses = make([]corev1.ContainerStatus, 1)
			p.Status.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}
		default:
			p.Status.Phase = corev1.PodPhase(w)
		}
	}
	return p
}

func TestCount(t *testing.T) {
	for name, c := range map[string]struct {
		pods string
		size int
		want census
	}{
		"none":                {"", 1, census{}},
		"one of each":         {"a ready; b; c unplaced; d stops; e ready stops", 1, census{live: 3, ready: 1, pending: 1, draining: 2, why: []string{"no GPU"}}},
		"ended ones are none": {"a Succeeded; b Failed; c ready", 1, census{live: 1, ready: 1}},
		"one that fails as it is stopped still holds its GPUs": {"a Failed stops", 1, census{draining: 1}},
		"a crash is a reason":      {"a crashes; b crashes; c ready", 1, census{live: 3, ready: 1, why: []string{"CrashLoopBackOff"}}},
		"groups":                   {"a s/0 ready; b s/0 ready; c s/1 ready; d s/1; e s/2 ready; f s/2 unplaced", 2, census{live: 3, ready: 1, pending: 1, why: []string{"no GPU"}}},
		"a group with a pod less":  {"a s/0 ready", 2, census{live: 1}},
		"a group that stops":       {"a s/0 ready; b s/0 ready stops", 2, census{draining: 1}},
		"groups of two sets":       {"a s/0 ready; b z/0 ready", 1, census{live: 2, ready: 2}},
		"a pod's name is no group": {"a ready; a/0 ready", 1, census{live: 2, ready: 2}},
	} {
		var pods []corev1.Pod
		for _, words := range strings.Split(c.pods, ";") {
			if strings.TrimSpace(words) != "" {
				pods = append(pods, podOf(words))
			}
		}
		if got := count(pods, c.size); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

func TestStateOfAPool(t *testing.T) {
	for name, c := range map[string]struct {
		p    pool
		c    census
		want planner.PoolState
		text string
	}{
		"settled":               {pool{want: 2}, census{live: 2, ready: 2}, planner.PoolState{Want: 2, Ready: 2}, ""},
		"pods are not made yet": {pool{want: 3}, census{live: 1, ready: 1}, planner.PoolState{Want: 3, Ready: 1, Starting: 2}, "decode: 2 starting"},
		// Upstream waited for such pods for ever and scaled nothing down (dynamo#14251).
		"pending":       {pool{want: 3}, census{live: 3, ready: 1, pending: 2, why: []string{"no GPU"}}, planner.PoolState{Want: 3, Ready: 1, Starting: 2, Pending: 2}, "decode: 2 without a place (no GPU)"},
		"quota":         {pool{want: 3, refused: "exceeded quota"}, census{live: 1, ready: 1}, planner.PoolState{Want: 3, Ready: 1, Starting: 2, Pending: 2}, "decode: 2 without a place (exceeded quota)"},
		"not told yet":  {pool{want: 1}, census{live: 3, ready: 3}, planner.PoolState{Want: 1, Ready: 3, Draining: 2}, "decode: 2 draining"},
		"rolled":        {pool{want: 2}, census{live: 3, ready: 2, draining: 1}, planner.PoolState{Want: 2, Ready: 2, Draining: 2}, "decode: 2 draining"},
		"shrunk, stuck": {pool{want: 1}, census{live: 3, ready: 1, pending: 2, why: []string{"no GPU"}}, planner.PoolState{Want: 1, Ready: 1, Draining: 2}, "decode: 2 draining"},
		"off":           {pool{want: 0}, census{draining: 1}, planner.PoolState{Draining: 1}, "decode: 1 draining"},
	} {
		c.p.role, c.want.Role = "decode", "decode"
		got, text := c.p.state(c.c)
		if got != c.want || text != c.text {
			t.Errorf("%s: got %+v %q, want %+v %q", name, got, text, c.want, c.text)
		}
	}
}

// What holds for whatever pods there are.
func TestLawsOfAPool(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		words := []string{"ready", "unplaced", "stops", "crashes", "Succeeded", "Failed"}
		var pods []corev1.Pod
		for i := range rapid.IntRange(0, 12).Draw(t, "pods") {
			text := fmt.Sprintf("p%d", i)
			for range rapid.IntRange(0, 3).Draw(t, "words") {
				text += " " + rapid.SampledFrom(words).Draw(t, "word")
			}
			pods = append(pods, podOf(text))
		}
		p := pool{role: "decode", want: rapid.IntRange(0, 8).Draw(t, "want")}
		if rapid.Bool().Draw(t, "quota") {
			p.refused = "quota"
		}
		s, text := p.state(count(pods, 1))
		stopping := 0
		for _, q := range pods {
			if q.DeletionTimestamp != nil {
				stopping++
			}
		}
		switch {
		case s.Want != p.want, s.Ready < 0, s.Starting < 0, s.Pending < 0, s.Draining < stopping:
			t.Fatalf("%+v of %+v", s, pods)
		case s.Pending > s.Starting, s.Ready+s.Starting < s.Want, s.Starting > s.Want:
			t.Fatalf("%+v of %+v", s, pods)
		case (text == "") != (s.Starting == 0 && s.Draining == 0):
			t.Fatalf("%q for %+v", text, s)
		}
	})
}

func FuzzPods(f *testing.F) {
	f.Add([]byte(twoDeployments()["/api/v1/namespaces/ns/pods?app=x"]), 1)
	f.Fuzz(func(t *testing.T, raw []byte, size int) {
		var list struct {
			Items []corev1.Pod `json:"items"`
		}
		if json.Unmarshal(raw, &list) != nil {
			return
		}
		if c := count(list.Items, size); c.ready+c.pending > c.live || c.live+c.draining > len(list.Items) {
			t.Errorf("%+v", c)
		}
	})
}
