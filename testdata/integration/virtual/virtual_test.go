// Package virtual_test has the virtual connector against real etcd, and against
// what the other side of the protocol, Dynamo's, reads and writes.
package virtual_test

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"plimsoll/engine"
	"plimsoll/planner"
	"plimsoll/planner/connect/virtual"
	"plimsoll/testdata/integration/etcd"
)

const prefix = "v1/dynamo/planner/"

func options(c *etcd.Cluster) virtual.Options {
	return virtual.Options{Endpoints: c.Endpoints, Namespace: "dynamo", Timeout: 5 * time.Second}
}

func newPlanner(t *testing.T, o virtual.PlannerOptions) *virtual.Planner {
	t.Helper()
	p, err := virtual.NewPlanner(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func newClient(t *testing.T, o virtual.Options) *virtual.Client {
	t.Helper()
	c, err := virtual.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func put(t *testing.T, c *clientv3.Client, key, value string) {
	t.Helper()
	if _, err := c.Put(t.Context(), prefix+key, value); err != nil {
		t.Fatal(err)
	}
}

// keys are all that etcd holds, by whole key.
func keys(t *testing.T, c *clientv3.Client) map[string]string {
	t.Helper()
	answer, err := c.Get(t.Context(), "", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]string{}
	for _, kv := range answer.Kvs {
		m[string(kv.Key)] = string(kv.Value)
	}
	return m
}

func wantKeys(t *testing.T, c *clientv3.Client, want map[string]string) {
	t.Helper()
	got := keys(t, c)
	for k := range want {
		if got[k] != want[k] {
			t.Errorf("%s is %q, want %q", k, got[k], want[k])
		}
	}
	if len(got) != len(want) {
		t.Errorf("etcd holds %v, want %v", got, want)
	}
}

func replicas(prefill, decode int) planner.Replicas {
	return planner.Replicas{Prefill: prefill, Decode: decode}
}

func scale(t *testing.T, p *virtual.Planner, prefill, decode int) {
	t.Helper()
	if err := p.Scale(t.Context(), replicas(prefill, decode), "test"); err != nil {
		t.Fatal(err)
	}
}

func state(t *testing.T, p *virtual.Planner) planner.State {
	t.Helper()
	s, err := p.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Byte for byte what Dynamo's planner leaves and its client answers.
func TestProtocol(t *testing.T) {
	t.Parallel()
	c := etcd.Start(t, 1)
	raw, p, client := c.Client(), newPlanner(t, virtual.PlannerOptions{Options: options(c)}), newClient(t, options(c))

	none := virtual.Status{Decision: virtual.Decision{Prefill: -1, Decode: -1, ID: -1}, Scaled: -1}
	if got, err := client.Get(t.Context()); err != nil || got != none {
		t.Errorf("before the first decision: %+v, %v", got, err)
	}
	if s := state(t, p); s.Scaling != "" || s.Pools[0] != (planner.PoolState{Role: engine.RolePrefill, Name: "prefill", Want: -1, NoRecord: true}) {
		t.Errorf("before the first decision: %+v", s)
	}
	wantKeys(t, raw, map[string]string{})

	scale(t, p, 2, 10)
	wantKeys(t, raw, map[string]string{prefix + "num_prefill_workers": "2", prefix + "num_decode_workers": "10", prefix + "decision_id": "0"})
	if s := state(t, p); s.Scaling == "" {
		t.Error("a decision that was not acknowledged is done")
	}
	got, err := client.Wait(t.Context(), virtual.Status.Pending)
	if err != nil || got != (virtual.Status{Decision: virtual.Decision{Prefill: 2, Decode: 10, ID: 0}, Scaled: -1}) {
		t.Errorf("waited for %+v, %v", got, err)
	}
	if err := client.Complete(t.Context(), got.ID); err != nil {
		t.Fatal(err)
	}
	wantKeys(t, raw, map[string]string{
		prefix + "num_prefill_workers": "2", prefix + "num_decode_workers": "10",
		prefix + "decision_id": "0", prefix + "scaled_decision_id": "0",
	})
	want := []planner.PoolState{
		{Role: engine.RolePrefill, Name: "prefill", Want: 2, Ready: 2},
		{Role: engine.RoleDecode, Name: "decode", Want: 10, Ready: 10},
	}
	if s := state(t, p); s.Scaling != "" || s.Pools[0] != want[0] || s.Pools[1] != want[1] {
		t.Errorf("after the acknowledgement: %+v", s)
	}

	scale(t, p, 3, 4)
	want = []planner.PoolState{
		{Role: engine.RolePrefill, Name: "prefill", Want: 3, Ready: 2, Starting: 1},
		{Role: engine.RoleDecode, Name: "decode", Want: 4, Ready: 4, Draining: 6},
	}
	if s := state(t, p); s.Scaling == "" || s.Pools[0] != want[0] || s.Pools[1] != want[1] {
		t.Errorf("while the second is carried out: %+v", s)
	}
	// Dynamo's client acknowledges with a plain put.
	put(t, raw, "scaled_decision_id", "1")
	if s := state(t, p); s.Scaling != "" {
		t.Errorf("after the acknowledgement: %+v", s)
	}
}

func TestOnePoolStandsAsDecode(t *testing.T) {
	t.Parallel()
	c := etcd.Start(t, 1)
	p := newPlanner(t, virtual.PlannerOptions{Options: options(c), Aggregated: true})
	if err := p.Scale(t.Context(), planner.Replicas{Aggregated: 3}, "test"); err != nil {
		t.Fatal(err)
	}
	wantKeys(t, c.Client(), map[string]string{prefix + "num_decode_workers": "3", prefix + "decision_id": "0"})
	if s := state(t, p); len(s.Pools) != 1 || s.Pools[0].Want != 3 || s.Pools[0].Role != engine.RoleAggregated {
		t.Errorf("state is %+v", s)
	}
}

// Dynamo wrote its three keys one by one: a client in between saw numbers of
// two decisions, and a planner that died there left them.
func TestDynamoThreeKeyWrite(t *testing.T) {
	t.Parallel()
	c := etcd.Start(t, 1)
	raw, p := c.Client(), newPlanner(t, virtual.PlannerOptions{Options: options(c)})
	watch := raw.Watch(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithRev(1))
	scale(t, p, 2, 3)
	seen := <-watch
	if len(seen.Events) != 3 {
		t.Fatalf("a watcher sees %d keys change at once, want 3", len(seen.Events))
	}
	order := []string{"num_prefill_workers", "num_decode_workers", "decision_id"}
	for i, e := range seen.Events {
		if string(e.Kv.Key) != prefix+order[i] || e.Kv.ModRevision != seen.Header.Revision {
			t.Errorf("event %d is %s at revision %d", i, e.Kv.Key, e.Kv.ModRevision)
		}
	}
	put(t, raw, "scaled_decision_id", "0")

	// A planner that dies between its writes has told nobody; whoever comes
	// next does, though the numbers are those that it wants.
	put(t, raw, "num_prefill_workers", "5")
	next := newPlanner(t, virtual.PlannerOptions{Options: options(c)})
	state(t, next)
	scale(t, next, 5, 3)
	if got := keys(t, raw)[prefix+"decision_id"]; got != "1" {
		t.Errorf("decision_id is %s, want 1", got)
	}
}

func TestNoScalingNeeded(t *testing.T) {
	t.Parallel()
	c := etcd.Start(t, 1)
	log, logger := newLog()
	p := newPlanner(t, virtual.PlannerOptions{Options: options(c), Log: logger})
	scale(t, p, 2, 3)
	before := revision(t, c.Client())
	scale(t, p, 2, 3)
	if after := revision(t, c.Client()); after != before {
		t.Errorf("asking again wrote: revision %d, before %d", after, before)
	}
	log.wants(t, "No scaling needed (prefill=2, decode=3)")
}

func revision(t *testing.T, c *clientv3.Client) int64 {
	t.Helper()
	answer, err := c.Get(t.Context(), "any")
	if err != nil {
		t.Fatal(err)
	}
	return answer.Header.Revision
}

func TestPendingDecisionIsNotReplaced(t *testing.T) {
	t.Parallel()
	c := etcd.Start(t, 1)
	raw := c.Client()
	p := newPlanner(t, virtual.PlannerOptions{Options: options(c)})
	scale(t, p, 2, 3)
	if err := p.Scale(t.Context(), replicas(4, 4), "test"); !errors.Is(err, virtual.ErrPending) {
		t.Errorf("error is %v, want ErrPending", err)
	}
	// Neither by one that starts again.
	again := newPlanner(t, virtual.PlannerOptions{Options: options(c)})
	if err := again.Scale(t.Context(), replicas(4, 4), "test"); !errors.Is(err, virtual.ErrPending) {
		t.Errorf("after a restart the error is %v, want ErrPending", err)
	}
	// Garbage is no acknowledgement, and is named.
	put(t, raw, "scaled_decision_id", "done")
	if s := state(t, again); s.Scaling == "" {
		t.Error("garbage acknowledges")
	}
	wantKeys(t, raw, map[string]string{
		prefix + "num_prefill_workers": "2", prefix + "num_decode_workers": "3",
		prefix + "decision_id": "0", prefix + "scaled_decision_id": "done",
	})
}

// A planner knows its own decisions from those of others.
func TestOthersDecisionsAreNoticed(t *testing.T) {
	t.Parallel()
	c := etcd.Start(t, 1)
	log, logger := newLog()
	p := newPlanner(t, virtual.PlannerOptions{Options: options(c), MaxWait: time.Nanosecond, Log: logger})
	state(t, p)
	scale(t, p, 1, 1)
	scale(t, p, 2, 1)
	state(t, p)
	if log.has("somebody else also decides") {
		t.Error("the planner takes its own decision for another's")
	}
	other := newPlanner(t, virtual.PlannerOptions{Options: options(c), MaxWait: time.Nanosecond})
	state(t, other)
	scale(t, other, 3, 1)
	if err := p.Scale(t.Context(), replicas(2, 2), "test"); !errors.Is(err, virtual.ErrConflict) {
		t.Errorf("error is %v, want ErrConflict", err)
	}
	if s := state(t, p); s.Pools[0].Want != 3 {
		t.Errorf("state is %+v, want the other's decision", s)
	}
	log.wants(t, "somebody else also decides")
	scale(t, p, 2, 2)
}

func TestGoesOnWithoutAcknowledgement(t *testing.T) {
	t.Parallel()
	c := etcd.Start(t, 1)
	log, logger := newLog()
	p := newPlanner(t, virtual.PlannerOptions{Options: options(c), MaxWait: time.Nanosecond, Log: logger})
	scale(t, p, 2, 3)
	if s := state(t, p); s.Scaling != "" {
		t.Errorf("after its time, scaling is %q", s.Scaling)
	}
	scale(t, p, 3, 3)
	if got := keys(t, c.Client())[prefix+"decision_id"]; got != "1" {
		t.Errorf("decision_id is %s, want 1", got)
	}
	log.wants(t, "never acknowledged")
}

// Dynamo's wait asked its 180 times at once while an old acknowledgement was
// there.
func TestDynamoSpinOnStaleAcknowledgement(t *testing.T) {
	t.Parallel()
	c := etcd.Start(t, 1)
	raw := c.Client()
	put(t, raw, "num_prefill_workers", "1")
	put(t, raw, "num_decode_workers", "1")
	put(t, raw, "decision_id", "7")
	put(t, raw, "scaled_decision_id", "6")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	client := newClient(t, options(c))
	var asked atomic.Int64
	_, err := client.Wait(ctx, func(s virtual.Status) bool { asked.Add(1); return !s.Pending() })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v, want the deadline", err)
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times within a second in which nothing changed, want once", n)
	}
}

// A wait sees what came before it, each change, and the acknowledgement.
func TestWaitMissesNothing(t *testing.T) {
	t.Parallel()
	c := etcd.Start(t, 1)
	client := newClient(t, options(c))
	p := newPlanner(t, virtual.PlannerOptions{Options: options(c)})
	done := make(chan error, 1)
	const decisions = 30
	go func() {
		for id := range int64(decisions) {
			s, err := client.Wait(t.Context(), func(s virtual.Status) bool { return s.ID >= id })
			if err == nil && (s.Prefill != int(id)+1 || s.Decode != 2*int(id)) {
				err = errors.New("numbers of another decision: " + s.String())
			}
			if err == nil {
				err = client.Complete(t.Context(), s.ID)
			}
			if err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	watcher := newClient(t, options(c))
	for id := range decisions {
		scale(t, p, id+1, 2*id)
		if _, err := watcher.Wait(t.Context(), func(s virtual.Status) bool { return !s.Pending() }); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := keys(t, c.Client())[prefix+"scaled_decision_id"]; got != strconv.Itoa(decisions-1) {
		t.Errorf("acknowledged %s", got)
	}
}

func TestAcknowledgementsNeverGoBack(t *testing.T) {
	t.Parallel()
	c := etcd.Start(t, 1)
	client := newClient(t, options(c))
	if err := client.Complete(t.Context(), 0); err == nil {
		t.Error("a decision that was never made is acknowledged")
	}
	p := newPlanner(t, virtual.PlannerOptions{Options: options(c), MaxWait: time.Nanosecond})
	for i := range 4 {
		scale(t, p, i+1, 1)
	}
	for _, id := range []int64{2, 1, 2, 0} {
		if err := client.Complete(t.Context(), id); err != nil {
			t.Errorf("acknowledging %d: %v", id, err)
		}
		if got := keys(t, c.Client())[prefix+"scaled_decision_id"]; got != "2" {
			t.Errorf("after acknowledging %d: %s, want 2", id, got)
		}
	}
	for _, id := range []int64{4, -1} {
		if err := client.Complete(t.Context(), id); err == nil {
			t.Errorf("decision %d is acknowledged", id)
		}
	}
}
