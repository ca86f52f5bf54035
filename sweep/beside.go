package sweep

import (
	"context"
	"errors"
	"fmt"
)

// beside runs trials, at most Options.Parallel at once and on no more than
// Options.MaxGPUs GPUs, which each has from before its engine is launched until
// it is stopped. They begin in their order: one that has to wait for GPUs is not
// overtaken. The first error stops all, but for time that is up: then nothing
// more begins, and those under way find out by themselves.
func (r *runner) beside(ctx context.Context, trials []*trial, do func(context.Context, *trial) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	type ending struct {
		gpus int
		err  error
	}
	ended := make(chan ending)
	running, used := 0, 0
	var first, others error
	for len(trials) > 0 || running > 0 {
		if first != nil {
			trials = nil
		}
		if len(trials) > 0 && r.room(running, used, trials[0].cfg.GPUs()) {
			s := trials[0]
			trials = trials[1:]
			running, used = running+1, used+s.cfg.GPUs()
			r.book.begin(s)
			go func() { ended <- ending{s.cfg.GPUs(), do(ctx, s)} }()
			continue
		}
		if running == 0 {
			break // an error ended it
		}
		e := <-ended
		running, used = running-1, used-e.gpus
		switch {
		case e.err == nil, errors.Is(first, e.err): // the same reason, said again
		case first == nil || errors.Is(first, errTimeUp):
			if first = e.err; !errors.Is(first, errTimeUp) {
				cancel(first)
			}
		case !errors.Is(e.err, errTimeUp):
			others = errors.Join(others, e.err)
		}
	}
	return errors.Join(first, others)
}

// room reports whether one more engine may run beside those that do.
func (r *runner) room(running, used, gpus int) bool {
	if running == 0 {
		return true
	}
	return running < r.opts.Parallel && (r.opts.MaxGPUs == 0 || used+gpus <= r.opts.MaxGPUs)
}

// tooLarge says why a configuration may never run.
func (r *runner) tooLarge(s *trial) error {
	if n, most := s.cfg.GPUs(), r.opts.MaxGPUs; most > 0 && n > most {
		return &engineError{launch: true, err: fmt.Errorf("needs %d GPUs, %d may be in use at once", n, most)}
	}
	return nil
}
