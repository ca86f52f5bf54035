package main

import (
	"context"

	"plimsoll/engine"
	"plimsoll/profile"
	"plimsoll/sweep"
)

// sweep runs the sweep with the job as its recorder.
func (j *job) sweep(ctx context.Context, so sweep.Options, l sweep.Launcher, progress func(sweep.Progress)) (sweep.Result, error) {
	if j.dep.kind != engine.KindEstimate {
		return sweep.Run(ctx, so, l, j, j.known, progress)
	}
	r := newBesideRecorder(j)
	res, err := sweep.Run(ctx, so, l, r, j.known, progress)
	if late := r.close(); err == nil {
		err = late
	}
	return res, err
}

// besideRecorder hands everything to another recorder, in order, while the
// sweep goes on: estimating a point takes no longer than writing its records.
// It is for what a crash may take, because it can be computed again.
type besideRecorder struct {
	to     sweep.Recorder
	work   chan func() error
	failed chan error // holds the first error; closed when all is written
}

// waiting bounds the points whose records are held in memory.
const waiting = 8

func newBesideRecorder(to sweep.Recorder) *besideRecorder {
	r := &besideRecorder{to: to, work: make(chan func() error, waiting), failed: make(chan error, 1)}
	go r.write()
	return r
}

// write does the work; after an error the rest is dropped.
func (r *besideRecorder) write() {
	defer close(r.failed)
	failed := false
	for do := range r.work {
		if failed {
			continue
		}
		if err := do(); err != nil {
			failed = true
			r.failed <- err
		}
	}
}

// later queues work, or returns the error of what was queued before.
func (r *besideRecorder) later(do func() error) error {
	select {
	case err := <-r.failed:
		return err
	case r.work <- do:
		return nil
	}
}

// close waits until all is written.
func (r *besideRecorder) close() error {
	close(r.work)
	return <-r.failed
}

// Point implements sweep.Recorder.
func (r *besideRecorder) Point(p profile.Point, rs []profile.Request, spent sweep.Cost) error {
	return r.later(func() error { return r.to.Point(p, rs, spent) })
}

// Engine implements sweep.Recorder.
func (r *besideRecorder) Engine(key string, f profile.EngineFacts) error {
	return r.later(func() error { return r.to.Engine(key, f) })
}
