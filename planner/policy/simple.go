package policy

import (
	"errors"
	"fmt"
	"time"
)

// Simple is the rule that others are compared with: up where any signal is
// high, down where all are low, and nothing for a while after a change.
type Simple struct {
	GroupGPUs int           // GPUs of an engine; only whole engines come and go
	MinGPUs   int           // rounded up to whole groups
	MaxGPUs   int           // rounded down to whole groups
	Cooldown  time.Duration // after a change in either direction

	UpUtilization float64 // above this, up
	UpMisses      float64 // share of requests that missed their SLO: above this, up
	ManyMisses    float64 // above this, up by MuchGPUs
	UpQueue       int     // requests waiting: above this, up
	StepGPUs      int     // up, in whole groups rounded up; down, rounded down but at least one
	MuchGPUs      int     // up where there are many misses

	DownUtilization float64 // below this, and no misses, and the queue below DownQueue: down
	DownQueue       int
}

// DefaultSimple is the rule with its usual figures.
// Source: an article on capacity planning for disaggregated serving, as read in
// 2026, which claims 30–45 % fewer GPU-hours for it.
func DefaultSimple(groupGPUs, minGPUs, maxGPUs int) Simple {
	return Simple{
		GroupGPUs: groupGPUs, MinGPUs: minGPUs, MaxGPUs: maxGPUs, Cooldown: 120 * time.Second,
		UpUtilization: 0.85, UpMisses: 0.01, ManyMisses: 0.05, UpQueue: 100, StepGPUs: 4, MuchGPUs: 8,
		DownUtilization: 0.40, DownQueue: 10,
	}
}

// Check says all that is wrong with the rule, each by field and range.
func (r Simple) Check() error {
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(r.GroupGPUs < 1 || r.GroupGPUs > 1024, "group GPUs are %d: want 1 to 1024", r.GroupGPUs)
	bad(r.MinGPUs < 0 || r.MinGPUs > maxGPUs, "min_gpus is %d: want 0 to %d", r.MinGPUs, maxGPUs)
	bad(r.MaxGPUs < 1 || r.MaxGPUs > maxGPUs, "max_gpus is %d: want 1 to %d", r.MaxGPUs, maxGPUs)
	bad(r.Cooldown < 0, "cooldown is %v: want 0 or more", r.Cooldown)
	bad(!(r.UpUtilization > 0 && r.UpUtilization <= 1), "up utilization is %v: want above 0 to 1", r.UpUtilization)
	bad(!(r.DownUtilization >= 0 && r.DownUtilization < r.UpUtilization), "down utilization is %v: want 0 to below the %v of going up", r.DownUtilization, r.UpUtilization)
	bad(!(r.UpMisses >= 0 && r.UpMisses <= r.ManyMisses && r.ManyMisses <= 1), "up and many misses are %v and %v: want 0 to 1, in this order", r.UpMisses, r.ManyMisses)
	bad(r.DownQueue < 0 || r.DownQueue > r.UpQueue, "down queue is %d: want 0 to the %d of going up", r.DownQueue, r.UpQueue)
	bad(r.StepGPUs < 1 || r.StepGPUs > r.MuchGPUs || r.MuchGPUs > maxGPUs, "steps are %d and %d GPUs: want 1 to %d, in this order", r.StepGPUs, r.MuchGPUs, maxGPUs)
	if len(errs) == 0 {
		low, high := r.bounds()
		bad(low > high, "no whole number of groups of %d GPUs is in min_gpus %d to max_gpus %d", r.GroupGPUs, r.MinGPUs, r.MaxGPUs)
	}
	return errors.Join(errs...)
}

// maxGPUs bounds a fleet; more is a mistake in units.
const maxGPUs = 1_000_000_000

// bounds are MinGPUs and MaxGPUs in whole groups, in GPUs.
func (r Simple) bounds() (low, high int) {
	return upTo(r.MinGPUs, r.GroupGPUs), r.MaxGPUs / r.GroupGPUs * r.GroupGPUs
}

// upTo is gpus rounded up to whole groups.
func upTo(gpus, group int) int { return (gpus + group - 1) / group * group }
