package local_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"plimsoll/planner"
	"plimsoll/planner/connect/local"
)

// The second Target on a file looks, and does not act, until the first is gone.
func TestTwoTargets(t *testing.T) {
	dir := folder(t)
	a, b := newFixture(t, dir, options(dir, "serve")), newFixture(t, dir, options(dir, "serve"))
	var wg sync.WaitGroup
	errs := make([]error, 2)
	for i, f := range []*fixture{a, b} {
		wg.Go(func() { errs[i] = f.Scale(t.Context(), planner.Replicas{Decode: 2}, "test") })
	}
	wg.Wait()
	owner, other := a, b
	if errs[0] != nil {
		owner, other, errs[0], errs[1] = b, a, errs[1], errs[0]
	}
	if errs[0] != nil || !errors.Is(errs[1], local.ErrOwned) {
		t.Fatalf("got %v", errs)
	}
	if err := other.Run(t.Context()); !errors.Is(err, local.ErrOwned) || !strings.Contains(err.Error(), fmt.Sprint("process ", os.Getpid())) {
		t.Errorf("Run: %v", err)
	}
	owner.settled(2)
	if p := other.state().Pools[0]; p.Ready != 2 || p.Want != 2 || len(workers(dir)) != 2 {
		t.Errorf("the other sees %+v, %d processes run", p, len(workers(dir)))
	}
	owner.restart()
	other.scale(2)
	other.settled(2)
	if len(workers(dir)) != 2 {
		t.Errorf("%d processes", len(workers(dir)))
	}
}

// Two namespaces that are scaled at once share the slots of one folder: none is given out
// twice, and who waits gets what the other one leaves.
func TestNamespacesShareSlots(t *testing.T) {
	dir := folder(t)
	var both []*fixture
	for _, name := range []string{"a", "b"} {
		o := options(dir, "serve")
		o.Path, o.Namespace, o.GPUs, o.Slots = filepath.Join(dir, "state", name+".json"), name, nil, 3
		both = append(both, newFixture(t, dir, o))
	}
	var scaling sync.WaitGroup
	for _, f := range both {
		scaling.Go(func() { f.scale(2) })
	}
	scaling.Wait()
	slots := func() (all []string) {
		for _, f := range both {
			for _, e := range f.entries() {
				if r, ok := e["resources"].(map[string]any); ok {
					all = append(all, fmt.Sprint(r["allocated_gpus"]))
				}
			}
		}
		slices.Sort(all)
		return all
	}
	full, waits := both[0], both[1]
	if full.state().Pools[0].Pending > 0 {
		full, waits = waits, full
	}
	full.settled(2)
	s := waits.until("one of two", func(p planner.PoolState) bool { return p.Ready == 1 && p.Pending == 1 })
	if !strings.Contains(s.Trouble, "1 VllmDecodeWorker wait for 1 GPU each: workers of other namespaces have slot") {
		t.Error(s.Trouble)
	}
	if got := slots(); !slices.Equal(got, []string{"[slot0]", "[slot1]", "[slot2]"}) {
		t.Errorf("given out are %q", got)
	}
	full.scale(1)
	full.settled(1)
	waits.settled(2)
	if got := slots(); !slices.Equal(got, []string{"[slot0]", "[slot1]", "[slot2]"}) {
		t.Errorf("then %q", got)
	}
}

// Upstream's lock is waited for, for as long as the caller has time.
func TestLockIsWaitedFor(t *testing.T) {
	dir := folder(t)
	f := newFixture(t, dir, options(dir, "serve"))
	f.scale(0)
	other, err := os.OpenFile(f.opts.Path+".lock", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	if err := syscall.Flock(int(other.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := f.Scale(ctx, planner.Replicas{Decode: 1}, "test"); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "waiting for the lock") {
		t.Errorf("got %v", err)
	}
	if n := len(workers(dir)); n != 0 {
		t.Errorf("%d workers were started without the lock", n)
	}
	asked := make(chan error, 1)
	go func() { asked <- f.Scale(t.Context(), planner.Replicas{Decode: 1}, "test") }()
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-asked; err != nil {
		t.Error(err)
	}
	f.settled(1)
}
