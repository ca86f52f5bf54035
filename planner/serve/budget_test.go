package serve

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll/planner"
)

// Two deployments under ten GPUs: whoever wants gets what the other leaves, both
// alike where both want more, and never more than ten are held.
func TestSharedBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := NewBudget(10)
		with := func(name string, priority int) func(*Options, *world) {
			return func(o *Options, w *world) {
				o.Name, o.Budget, o.Priority, w.takes = name, shared, priority, 20*time.Second
			}
		}
		a := newRig(t, []planner.Replicas{pd(4, 4), pd(4, 4), pd(4, 4), pd(4, 4), pd(1, 1)}, with("a", 0))
		b := newRig(t, []planner.Replicas{pd(1, 1), pd(4, 4)}, with("b", 0))
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
		defer cancel()
		var running sync.WaitGroup
		defer running.Wait()
		running.Go(func() { _ = a.Run(ctx) })
		time.Sleep(time.Second)
		running.Go(func() { _ = b.Run(ctx) })

		gpus := func(g *rig, of func(planner.PoolState) int) (sum int) {
			for _, p := range g.Status().State.Pools {
				sum += of(p)
			}
			return sum
		}
		held := func(p planner.PoolState) int { return p.Ready + p.Starting + p.Draining }
		wanted := func(p planner.PoolState) int { return p.Want }
		after := func(d time.Duration, wantA, wantB int) {
			t.Helper()
			for range int(d.Seconds()) {
				time.Sleep(time.Second)
				if n := gpus(a, held) + gpus(b, held); n > 10 {
					t.Errorf("%d GPUs held at once", n)
				}
			}
			if x, y := gpus(a, wanted), gpus(b, wanted); x != wantA || y != wantB {
				t.Errorf("%d and %d GPUs, want %d and %d", x, y, wantA, wantB)
			}
		}
		after(90*time.Second, 8, 2) // a takes what b leaves
		after(3*time.Minute, 5, 5)  // both want eight
		after(3*time.Minute, 2, 8)  // a needs two only
	})
}
