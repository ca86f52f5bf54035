package local_test

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"

	"plimsoll/engine/enginetest"
	"plimsoll/planner/connect/local"
)

// A planner that ends stops its workers, whatever fails once on the way.
func TestRunAndStop(t *testing.T) {
	f := drained(t, "drain", func(*local.Options) {})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.RunAndStop(ctx) }()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if left := workers(f.dir); len(left) != 0 {
		t.Errorf("%v are left", left)
	}
}

// A worker that hangs does not keep a planner from its end.
func TestRunAndStopHung(t *testing.T) {
	t.Parallel()
	f := drained(t, "serve", quick)
	if err := syscall.Kill(pidOf(f, first), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := f.RunAndStop(ctx); err != nil || len(workers(f.dir)) != 0 {
		t.Errorf("%v, %v are left\n%s", err, workers(f.dir), f.log())
	}
}

// Workers that ignore TERM are killed, those in the state file and those that carry its
// mark alone.
func TestKill(t *testing.T) {
	for name, gone := range map[string]bool{"in the file": false, "by their mark": true} {
		t.Run(name, func(t *testing.T) {
			f := drained(t, "stubborn", func(*local.Options) {})
			if gone {
				if err := os.Remove(f.opts.Path); err != nil {
					t.Fatal(err)
				}
			}
			f.Kill(t.Context())
			enginetest.Eventually(t, "no worker", func() bool { return len(workers(f.dir)) == 0 })
			if !strings.Contains(f.log(), "SIGKILL to all workers") {
				t.Error(f.log())
			}
		})
	}
}
