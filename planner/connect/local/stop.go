package local

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"plimsoll/engine/process"
	"plimsoll/planner"
)

// stopEvery is how often a planner that ends looks at its workers.
const stopEvery = 200 * time.Millisecond

// RunAndStop is Run until ctx ends, and then stops all workers, which takes as long as
// their requests, and no longer than their grace. An error is noted, and tried again. process.KillAll kills the workers
// meanwhile.
func (t *Target) RunAndStop(ctx context.Context) error {
	defer process.OnKillAll(t.Kill)()
	tending, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- t.Run(tending) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	said := ""
	for ; ; time.Sleep(stopEvery) {
		left, err := t.stopped(tending)
		switch {
		case errors.Is(err, ErrOwned):
			return fmt.Errorf("stopping the workers: %w", err)
		case err == nil && left == 0:
			return nil
		case err != nil && err.Error() != said:
			said = err.Error()
			t.note("stopping the workers, again in a moment: %v", err)
		}
	}
}

// stopped asks for no worker, and counts those that are left.
func (t *Target) stopped(ctx context.Context) (left int, err error) {
	if err := t.Scale(ctx, planner.Replicas{}, "the planner ends"); err != nil {
		return 0, err
	}
	s, err := t.State(ctx)
	for _, p := range s.Pools {
		left += p.Ready + p.Starting + p.Draining
	}
	return left, err
}

// Kill ends all workers at once, and returns when none is left or ctx ends.
func (t *Target) Kill(ctx context.Context) {
	for said := false; ctx.Err() == nil; {
		living := t.living()
		if len(living) == 0 {
			return
		}
		if !said {
			said = true
			t.note("SIGKILL to all workers: the planner ends at once")
		}
		for _, h := range living {
			_ = h.Signal(syscall.SIGKILL) // one that has gone is what is wanted
		}
		time.Sleep(stopEvery / 10)
	}
}

// living are the processes of the workers in the state file, and of those that carry its
// mark.
func (t *Target) living() []process.Handle {
	var out []process.Handle
	if d, err := readDocument(t.opts.Path); err == nil {
		for _, e := range d.entries {
			if e.own.PID != 0 {
				out = append(out, e.own.handle().Members(e.own.Log)...)
			}
		}
	}
	for _, m := range t.marked() {
		out = append(out, m.of.Members(m.Log)...)
	}
	for _, m := range t.marks() {
		out = append(out, m.of)
	}
	return out
}
