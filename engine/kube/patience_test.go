package kube

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll/engine"
)

// look is a status that an engine's pod has from some instant on.
type look struct {
	after time.Duration
	seen  seen
}

// How long an engine is waited for, by what its pod tells, looked at each second.
func TestPatience(t *testing.T) {
	const hour = time.Hour
	unplaced := seen{unplaced: true, waiting: "0/3", trouble: &PodError{Reason: unschedulable, Message: "0/3 nodes"}}
	registry := seen{waiting: "ErrImagePull", trouble: &PodError{Reason: "ErrImagePull", Message: "timeout"}}
	back := seen{waiting: "ImagePullBackOff", trouble: &PodError{Reason: "ImagePullBackOff", Message: "timeout"}}
	quota := seen{unplaced: true, waiting: "quota", trouble: &PodError{Reason: failedCreate, Message: "exceeded quota"}}
	starts := seen{}
	for name, c := range map[string]struct {
		looks []look
		want  string // in the error
		after time.Duration
	}{
		"no node":                                 {[]look{{0, unplaced}}, "Unschedulable: 0/3 nodes", 10 * time.Minute},
		"a node that an autoscaler adds":          {[]look{{0, unplaced}, {9 * time.Minute, starts}}, "not ready 20m0s after it got a node", 29 * time.Minute},
		"weights that take long":                  {[]look{{0, starts}}, "not ready 20m0s", 20 * time.Minute},
		"a registry that is away":                 {[]look{{0, starts}, {60 * time.Second, registry}}, "ErrImagePull: timeout", 90 * time.Second},
		"one that is tried again in between":      {[]look{{0, registry}, {20 * time.Second, back}, {25 * time.Second, registry}}, "ErrImagePull: timeout", 30 * time.Second},
		"one that comes back":                     {[]look{{0, registry}, {20 * time.Second, starts}, {25 * time.Second, registry}}, "ErrImagePull: timeout", 55 * time.Second},
		"a quota":                                 {[]look{{0, quota}}, "exceeded quota", 10 * time.Second},
		"a quota that learns of the free GPUs":    {[]look{{0, quota}, {5 * time.Second, starts}}, "not ready", 20*time.Minute + 5*time.Second},
		"a node, and then a registry that is not": {[]look{{0, unplaced}, {5 * time.Minute, registry}}, "ErrImagePull", 5*time.Minute + 30*time.Second},
		"a crash": {[]look{{0, starts}, {hour / 6, seen{end: &PodError{Reason: "Error", Exited: true, Code: 3}}}}, "Error, exit code 3", hour / 6},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				e := &Engine{run: &Run{o: Options{ScheduleTimeout: 10 * time.Minute}.Filled()}, spec: engine.Spec{Name: "e", ReadyTimeout: 20 * time.Minute}}
				w := newPatience(e, began)
				for ; time.Since(began) < 2*hour; time.Sleep(time.Second) {
					now := time.Now()
					s := c.looks[0].seen
					for _, l := range c.looks {
						if now.Sub(began) >= l.after {
							s = l.seen
						}
					}
					err := w.look(s, now)
					if err == nil {
						err = w.over(now)
					}
					if err != nil {
						if after := now.Sub(began); after != c.after || !strings.Contains(err.Error(), c.want) {
							t.Errorf("%v after %v, want %q after %v", err, after, c.want, c.after)
						}
						return
					}
				}
				t.Error("it is waited for without end")
			})
		})
	}
}

// A pod that lost its place waits for the next one as long as the first did.
func TestPatienceAfterAPodIsGone(t *testing.T) {
	began := time.Unix(0, 0)
	w := &waiter{schedule: time.Minute, ready: time.Hour, note: func(string, ...any) {}, unplaced: began}
	if err := w.look(seen{}, began); err != nil {
		t.Fatal(err)
	}
	w.noPod(began.Add(50 * time.Minute))
	if err := w.over(began.Add(50*time.Minute + 59*time.Second)); err != nil {
		t.Error(err)
	}
	if err := w.over(began.Add(51 * time.Minute)); err == nil || !strings.Contains(err.Error(), "no pod got a node in 1m0s") {
		t.Error(err)
	}
}

func TestServing(t *testing.T) {
	pod := func(name, index string, age int, stops bool) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}, CreationTimestamp: metav1.Unix(int64(1000-age), 0)}}
		if index != "" {
			p.Labels[indexLabel] = index
		}
		if stops {
			p.DeletionTimestamp = &metav1.Time{}
		}
		return p
	}
	for want, pods := range map[string][]*corev1.Pod{
		"":       {pod("a", "", 1, true), pod("b", "1", 1, false)},
		"newest": {pod("a", "", 9, false), pod("newest", "", 1, false), pod("c", "", 5, false)},
		"leader": {pod("a", "1", 1, false), pod("leader", "0", 9, false), pod("c", "2", 1, false)},
		"stays":  {pod("stays", "", 9, false), pod("b", "", 1, true)},
	} {
		got := serving(pods)
		if (got == nil) != (want == "") || got != nil && got.Name != want {
			t.Errorf("got %v, want %q", got, want)
		}
	}
}

func TestEvents(t *testing.T) {
	at := func(s int64) metav1.Time { return metav1.Unix(s, 0) }
	list := &corev1.EventList{Items: []corev1.Event{
		{Type: "Warning", Reason: "Late", Message: "late ", InvolvedObject: corev1.ObjectReference{Name: "e-1-x"}, LastTimestamp: at(9)},
		{Type: "Warning", Reason: "Early", Message: "early", InvolvedObject: corev1.ObjectReference{Name: "e-1"}, EventTime: metav1.MicroTime{Time: at(3).Time}},
		{Type: "Warning", Reason: "Other", InvolvedObject: corev1.ObjectReference{Name: "f"}, LastTimestamp: at(5)},
		{Type: "Normal", Reason: "Pulled", InvolvedObject: corev1.ObjectReference{Name: "e-1"}, LastTimestamp: at(6)},
	}}
	got := eventsOf(list, "e-1")
	if len(got) != 2 || got[0] != (event{"Early", "early"}) || got[1] != (event{"Late", "late"}) {
		t.Errorf("%+v", got)
	}
}
