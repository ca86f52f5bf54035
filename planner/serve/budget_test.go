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

// Three GPUs and two deployments of 1 + 1: the first gets its pair and the GPU that is
// left, the second gets nothing, for half of its pair would serve nobody. Who serves first
// goes on to.
func TestSharedBudgetHoldsOnePair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := NewBudget(3)
		with := func(name string) func(*Options, *world) {
			return func(o *Options, w *world) {
				o.Name, o.Budget, w.have, w.want = name, shared, pd(0, 0), pd(0, 0)
			}
		}
		a := newRig(t, []planner.Replicas{pd(2, 2)}, with("a"))
		b := newRig(t, []planner.Replicas{pd(2, 2)}, with("b"))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		var running sync.WaitGroup
		running.Go(func() { _ = a.Run(ctx) })
		running.Go(func() { _ = b.Run(ctx) })
		running.Wait()
		for _, asked := range b.asked {
			if asked != pd(0, 0) {
				t.Errorf("b was brought to %s", asked)
			}
		}
		last := a.asked[len(a.asked)-1]
		if last.Prefill < 1 || last.Decode < 1 || last.Prefill+last.Decode != 3 {
			t.Errorf("a was brought to %v", a.asked)
		}
	})
}

// A deployment that serves is not taken for one that holds nothing because another one
// looked first: b was brought from 1 + 1 to 0 + 0.
func TestSharedBudgetKeepsTheUnseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := NewBudget(3)
		with := func(name string, have planner.Replicas) func(*Options, *world) {
			return func(o *Options, w *world) {
				o.Name, o.Budget, w.have, w.want = name, shared, have, have
			}
		}
		a := newRig(t, []planner.Replicas{pd(2, 2)}, with("a", pd(0, 0)))
		b := newRig(t, []planner.Replicas{pd(2, 2)}, with("b", pd(1, 1)))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		var running sync.WaitGroup
		running.Go(func() { _ = a.Run(ctx) })
		time.Sleep(5 * time.Second)
		running.Go(func() { _ = b.Run(ctx) })
		running.Wait()
		for _, asked := range a.asked {
			if asked != pd(0, 0) {
				t.Errorf("a was brought to %s", asked)
			}
		}
		for _, asked := range b.asked {
			if asked.Prefill < 1 || asked.Decode < 1 {
				t.Errorf("b was brought to %s", asked)
			}
		}
	})
}
