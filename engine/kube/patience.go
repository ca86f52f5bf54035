package kube

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"plimsoll/engine/field"
)

// defaultReadyTimeout is for an image and weights of hundreds of gigabytes.
const defaultReadyTimeout = 30 * time.Minute

// waiter decides how long an engine is waited for: for a node as long as an
// autoscaler may take, in a trouble that may pass for a moment, otherwise as long
// as weights take to load.
type waiter struct {
	schedule, ready time.Duration
	note            func(format string, args ...any)
	what            string

	placed   time.Time // when the pod got its node; zero before
	unplaced time.Time // since when it has none
	troubled time.Time // since when it has the trouble; zero without one
	trouble  *PodError
	waiting  string // what was last said
	pod      string
}

func newPatience(e *Engine, now time.Time) *waiter {
	return &waiter{
		schedule: e.run.o.ScheduleTimeout, ready: cmp.Or(e.spec.ReadyTimeout, defaultReadyTimeout),
		note: e.run.o.Note, what: e.spec.Name, unplaced: now,
	}
}

// noPod is that no pod is there, or not any more.
func (w *waiter) noPod(now time.Time) {
	if !w.placed.IsZero() {
		w.placed, w.unplaced = time.Time{}, now
	}
}

// look takes in what a pod's status comes to; an error ends the engine.
func (w *waiter) look(s seen, now time.Time) *PodError {
	if s.end != nil {
		return s.end
	}
	if s.waiting != "" && s.waiting != w.waiting {
		w.note("%s waits: %s", w.what, s.waiting)
	}
	w.waiting = s.waiting
	switch {
	case s.unplaced && !w.placed.IsZero():
		w.placed, w.unplaced = time.Time{}, now
	case !s.unplaced && w.placed.IsZero():
		w.placed = now
	}
	if s.trouble == nil {
		w.trouble, w.troubled = nil, time.Time{}
		return nil
	}
	if w.trouble == nil || w.trouble.Reason == unschedulable && s.trouble.Reason != unschedulable {
		w.troubled = now
	}
	w.trouble, w.pod = s.trouble, s.trouble.Pod
	if s.trouble.Reason != unschedulable && now.Sub(w.troubled) >= s.trouble.lasts() {
		return s.trouble
	}
	return nil
}

// over is an engine that was waited for long enough.
func (w *waiter) over(now time.Time) *PodError {
	switch {
	case w.placed.IsZero() && now.Sub(w.unplaced) >= w.schedule:
		if w.trouble != nil {
			e := *w.trouble
			return &e
		}
		return &PodError{Reason: "no pod got a node in " + w.schedule.String(), Hint: field.ScheduleTimeout + " allows more"}
	case !w.placed.IsZero() && now.Sub(w.placed) >= w.ready:
		return &PodError{Pod: w.pod, Reason: "not ready " + w.ready.String() + " after it got a node", Message: w.waiting, Hint: field.ReadyTimeout + " allows more"}
	}
	return nil
}

func deployments() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
}

// eventsOf are those about objects whose names begin with name, the last one last.
func eventsOf(list *corev1.EventList, name string) []event {
	items := slices.Clone(list.Items)
	slices.SortStableFunc(items, func(a, b corev1.Event) int { return when(a).Compare(when(b)) })
	var found []event
	for _, i := range items {
		if i.Type == corev1.EventTypeWarning && strings.HasPrefix(i.InvolvedObject.Name, name) {
			found = append(found, event{i.Reason, strings.TrimSpace(i.Message)})
		}
	}
	return found
}

func when(e corev1.Event) time.Time {
	if !e.LastTimestamp.IsZero() {
		return e.LastTimestamp.Time
	}
	return e.EventTime.Time
}
