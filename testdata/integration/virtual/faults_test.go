package virtual_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"plimsoll/planner/connect/virtual"
	"plimsoll/testdata/integration/etcd"
)

// log keeps what was logged.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func newLog() (*log, *slog.Logger) {
	l := &log{}
	return l, slog.New(slog.NewTextHandler(l, nil))
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

func (l *log) wants(t *testing.T, text string) {
	t.Helper()
	if !l.has(text) {
		t.Errorf("nothing logged has %q in it", text)
	}
}

// short is how long an etcd that is away is waited for.
const short = 300 * time.Millisecond

func TestEtcdComesLate(t *testing.T) {
	t.Parallel()
	c := etcd.Start(t, 1)
	c.Stop()
	o := options(c)
	o.Timeout = short
	p := newPlanner(t, virtual.PlannerOptions{Options: o})
	if err := p.Scale(t.Context(), replicas(2, 3), "test"); !errors.Is(err, virtual.ErrUnreachable) {
		t.Errorf("error is %v, want ErrUnreachable", err)
	}
	c.Restart()
	eventually(t, func(ctx context.Context) error { return p.Scale(ctx, replicas(2, 3), "test") })
	if got := keys(t, c.Client())[prefix+"decision_id"]; got != "0" {
		t.Errorf("decision_id is %s, want 0", got)
	}
}

// eventually asks again while etcd is not back.
func eventually(t *testing.T, do func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		err := do(ctx)
		if !errors.Is(err, virtual.ErrUnreachable) || ctx.Err() != nil {
			if err != nil {
				t.Fatal(err)
			}
			return
		}
	}
}

// The deployment waits on while etcd goes away and comes back, and is told of
// what is decided then.
func TestWaitOutlastsEtcd(t *testing.T) {
	t.Parallel()
	c := etcd.Start(t, 1)
	o := options(c)
	o.Timeout = short
	client, p := newClient(t, o), newPlanner(t, virtual.PlannerOptions{Options: o})
	started, got := make(chan struct{}), make(chan error, 1)
	go func() {
		var once sync.Once
		_, err := client.Wait(t.Context(), func(s virtual.Status) bool {
			once.Do(func() { close(started) })
			return s.Pending()
		})
		got <- err
	}()
	<-started
	c.Stop()
	c.Restart()
	eventually(t, func(ctx context.Context) error { return p.Scale(ctx, replicas(2, 3), "test") })
	select {
	case err := <-got:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(90 * time.Second):
		t.Error("the wait did not see the decision")
	}
}

// Without a leader nothing is read or written, and after it all goes on.
func TestLeaderLoss(t *testing.T) {
	t.Parallel()
	c := etcd.Start(t, 3)
	o := options(c)
	p := newPlanner(t, virtual.PlannerOptions{Options: o})
	scale(t, p, 1, 1)
	o.Timeout = short
	hasty := newPlanner(t, virtual.PlannerOptions{Options: o})
	c.StopMember(0)
	c.StopMember(1)
	if _, err := hasty.State(t.Context()); !errors.Is(err, virtual.ErrUnreachable) {
		t.Errorf("State: %v, want ErrUnreachable", err)
	}
	if err := hasty.Scale(t.Context(), replicas(2, 2), "test"); !errors.Is(err, virtual.ErrUnreachable) {
		t.Errorf("Scale: %v, want ErrUnreachable", err)
	}
	c.Restart()
	client := newClient(t, options(c))
	eventually(t, func(ctx context.Context) error { return client.Complete(ctx, 0) })
	eventually(t, func(ctx context.Context) error { return hasty.Scale(ctx, replicas(2, 2), "test") })
	wantKeys(t, c.Client(), map[string]string{
		prefix + "num_prefill_workers": "2", prefix + "num_decode_workers": "2",
		prefix + "decision_id": "1", prefix + "scaled_decision_id": "0",
	})
}

// Numbers that make no sense stop the planner before it acts on them; Dynamo's
// took them for 0.
func TestDynamoGarbageIsZero(t *testing.T) {
	t.Parallel()
	c := etcd.Start(t, 1)
	raw, p := c.Client(), newPlanner(t, virtual.PlannerOptions{Options: options(c)})
	for _, key := range []string{"num_prefill_workers", "num_decode_workers", "decision_id"} {
		scaleAnyway := func() error { return p.Scale(t.Context(), replicas(2, 3), "test") }
		put(t, raw, key, "\xff\x00many")
		before := revision(t, raw)
		if _, err := p.State(t.Context()); err == nil || !strings.Contains(err.Error(), key+` is "\xff\x00many"`) {
			t.Errorf("State with a bad %s: %v", key, err)
		}
		if err := scaleAnyway(); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("Scale with a bad %s: %v", key, err)
		}
		if _, err := newClient(t, options(c)).Get(t.Context()); err == nil {
			t.Errorf("Get with a bad %s: no error", key)
		}
		if revision(t, raw) != before {
			t.Errorf("wrote with a bad %s", key)
		}
		if _, err := raw.Delete(t.Context(), prefix+key); err != nil {
			t.Fatal(err)
		}
	}
	scale(t, p, 2, 3)
}

// Of many planners that decide at once upon the same state, one does; every ID
// is one decision, and its numbers are of one planner.
func TestConcurrentPlanners(t *testing.T) {
	t.Parallel()
	c := etcd.Start(t, 1)
	const planners, rounds = 8, 12
	watch := c.Client().Watch(t.Context(), prefix+"decision_id", clientv3.WithRev(1))
	client := newClient(t, options(c))
	var all []*virtual.Planner
	for range planners {
		all = append(all, newPlanner(t, virtual.PlannerOptions{Options: options(c)}))
	}
	for round := range rounds {
		for _, p := range all {
			state(t, p)
		}
		var decided atomic.Int64
		var wg sync.WaitGroup
		for i, p := range all {
			wg.Go(func() {
				n := round*planners + i + 1
				switch err := p.Scale(t.Context(), replicas(n, 2*n), "test"); {
				case err == nil:
					decided.Add(1)
				case !errors.Is(err, virtual.ErrConflict):
					t.Errorf("error is %v, want ErrConflict", err)
				}
			})
		}
		wg.Wait()
		s, err := client.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if decided.Load() != 1 || s.ID != int64(round) || s.Decode != 2*s.Prefill {
			t.Errorf("round %d: %d planners decided, and there is %v", round, decided.Load(), s.Decision)
		}
		if err := client.Complete(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
	}
	changes := 0
	for changes < rounds {
		changes += len((<-watch).Events)
	}
	if changes != rounds {
		t.Errorf("decision_id changed %d times, want %d", changes, rounds)
	}
}

// A planner that is killed after it decided, and a deployment that is killed
// before it acknowledges: both start again, and nothing is decided twice.
func TestKilledBetweenDecideAndAcknowledge(t *testing.T) {
	t.Parallel()
	c := etcd.Start(t, 1)
	raw := c.Client()
	first := newPlanner(t, virtual.PlannerOptions{Options: options(c)})
	scale(t, first, 2, 3)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	acted := newClient(t, options(c))
	before, err := acted.Wait(t.Context(), virtual.Status.Pending)
	if err != nil {
		t.Fatal(err)
	}
	if err := acted.Close(); err != nil { // after it acted
		t.Fatal(err)
	}
	written := revision(t, raw)
	again := newPlanner(t, virtual.PlannerOptions{Options: options(c)})
	if s := state(t, again); s.Scaling == "" || s.Pools[0].Want != 2 {
		t.Errorf("after its restart the planner sees %+v", s)
	}
	scale(t, again, 2, 3)
	if revision(t, raw) != written {
		t.Error("the decision was written again")
	}
	client := newClient(t, options(c))
	after, err := client.Wait(t.Context(), virtual.Status.Pending)
	if err != nil || after != before {
		t.Errorf("after its restart the deployment is told %v, %v; before it was %v", after, err, before)
	}
	if err := client.Complete(t.Context(), after.ID); err != nil {
		t.Fatal(err)
	}
	if s := state(t, again); s.Scaling != "" {
		t.Errorf("acknowledged, and still %q", s.Scaling)
	}
}

// An answer that is lost leaves open whether it was written. Asked again, the
// planner finds out.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	c := etcd.Start(t, 1)
	raw := c.Client()
	o := options(c)
	way := newWay(t, strings.TrimPrefix(c.Endpoints[0], "http://"))
	o.Endpoints, o.Timeout = []string{way.url}, time.Second
	p := newPlanner(t, virtual.PlannerOptions{Options: o})
	state(t, p)
	// From a revision on: a watch that begins after the write would never see it.
	written := raw.Watch(t.Context(), prefix+"decision_id", clientv3.WithRev(revision(t, raw)+1))
	way.loseAnswersOf("num_prefill_workers")
	if err := p.Scale(t.Context(), replicas(2, 3), "test"); !errors.Is(err, virtual.ErrUnreachable) {
		t.Errorf("error is %v, want ErrUnreachable", err)
	}
	<-written // it was
	way.heal()
	before := revision(t, raw)
	eventually(t, func(ctx context.Context) error { return p.Scale(ctx, replicas(2, 3), "test") })
	if revision(t, raw) != before {
		t.Error("the decision was written twice")
	}
}

// Keys of a decision go, all or some, or its lease ends: whoever wrote or saw it says what it
// was, and writes it again when it is asked for, under a new lease and the same ID.
func TestKeysThatVanish(t *testing.T) {
	t.Parallel()
	c := etcd.Start(t, 1)
	raw := c.Client()
	for _, lost := range []string{"", "num_prefill_workers", "num_decode_workers", "decision_id", "lease"} {
		if _, err := raw.Delete(t.Context(), prefix, clientv3.WithPrefix()); err != nil {
			t.Fatal(err)
		}
		p := newPlanner(t, virtual.PlannerOptions{Options: options(c)})
		state(t, p)
		scale(t, p, 4, 2)
		put(t, raw, "scaled_decision_id", "0")
		reads := newPlanner(t, virtual.PlannerOptions{Options: options(c)})
		state(t, reads)
		was := keys(t, raw)
		if lost == "lease" {
			if _, err := raw.Revoke(t.Context(), leaseOf(t, raw, "decision_id")); err != nil {
				t.Fatal(err)
			}
		} else if _, err := raw.Delete(t.Context(), prefix+lost, clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix+lost))); err != nil {
			t.Fatal(err)
		}
		for _, p := range []*virtual.Planner{p, reads} {
			s := state(t, p)
			if s.Scaling != "" || !s.Pools[0].Lost || !s.Pools[0].NoRecord || s.Pools[0].Want != 4 || s.Pools[0].Ready != 4 || s.Pools[1].Ready != 2 {
				t.Errorf("without %q: %+v", lost, s)
			}
		}
		scale(t, reads, 4, 2)
		if lost == "" { // the acknowledgement went too, and counts all the same
			delete(was, prefix+"scaled_decision_id")
		}
		wantKeys(t, raw, was)
		if leaseOf(t, raw, "num_prefill_workers") == clientv3.NoLease {
			t.Errorf("without %q it is written without a lease", lost)
		}
		if s := state(t, reads); s.Scaling != "" || s.Pools[0].Lost {
			t.Errorf("with %q back: %+v", lost, s)
		}
		scale(t, reads, 3, 2)
	}
}

// leaseOf is the lease of a key; 0: none.
func leaseOf(t *testing.T, c *clientv3.Client, key string) clientv3.LeaseID {
	t.Helper()
	answer, err := c.Get(t.Context(), prefix+key)
	if err != nil || len(answer.Kvs) == 0 {
		t.Fatalf("%s: %v, %v", key, answer, err)
	}
	return clientv3.LeaseID(answer.Kvs[0].Lease)
}

// A planner that acts renews the lease of decisions that it finds, and changes no key; one
// that only observes, now or from now on, does not. Neither touches a lease that is not a
// planner's, where other keys may lie.
func TestLeaseOutlastsItsPlanner(t *testing.T) {
	t.Parallel()
	c := etcd.Start(t, 1)
	raw := c.Client()
	scale(t, newPlanner(t, virtual.PlannerOptions{Options: options(c)}), 3, 3)
	own := leaseOf(t, raw, "decision_id")
	before := revision(t, raw)
	advise := true
	p := newPlanner(t, virtual.PlannerOptions{Options: options(c), Advise: func() bool { return advise }})
	looks := func(lease clientv3.LeaseID, renews bool) {
		t.Helper()
		was := ttl(t, raw, lease)
		for ttl(t, raw, lease) == was { // a second passes
		}
		state(t, p)
		if now := ttl(t, raw, lease); now >= was != renews {
			t.Errorf("the lease ends after %d s, before it was %d s", now, was)
		}
	}
	looks(own, false)
	advise = false
	looks(own, true)
	if revision(t, raw) != before {
		t.Error("a key changed")
	}
	advise = true
	looks(own, false)

	foreign, err := raw.Grant(t.Context(), 300)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := raw.Put(t.Context(), prefix+"decision_id", "0", clientv3.WithLease(foreign.ID)); err != nil {
		t.Fatal(err)
	}
	advise = false
	looks(foreign.ID, false)
}

// ttl is how many more seconds a lease has.
func ttl(t *testing.T, c *clientv3.Client, lease clientv3.LeaseID) int64 {
	t.Helper()
	now, err := c.TimeToLive(t.Context(), lease)
	if err != nil || now.TTL < 0 {
		t.Fatalf("the lease ended: %+v, %v", now, err)
	}
	return now.TTL
}

// A planner whose keys went with its process begins again at 0, as Dynamo's does: its
// decision is new to a client, and is acknowledged by itself. Our client's acknowledgement goes
// too, and leaves nothing to hold for; Dynamo's stays, and the decision is still new.
func TestNewLifeOfAPlanner(t *testing.T) {
	t.Parallel()
	c := etcd.Start(t, 1)
	raw, client := c.Client(), newClient(t, options(c))
	for life, most := range []int64{3, 1} {
		lease, err := raw.Grant(t.Context(), 24*60*60)
		if err != nil {
			t.Fatal(err)
		}
		for id := range most {
			for _, key := range []string{"num_prefill_workers", "num_decode_workers", "decision_id"} {
				if _, err := raw.Put(t.Context(), prefix+key, strconv.FormatInt(id, 10), clientv3.WithLease(lease.ID)); err != nil {
					t.Fatal(err)
				}
			}
			if s, err := client.Wait(t.Context(), virtual.Status.Pending); err != nil || s.ID != id {
				t.Fatalf("life %d: waited for %v, %v", life, s, err)
			}
			if err := client.Complete(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			if got := keys(t, raw)[prefix+"scaled_decision_id"]; got != strconv.FormatInt(id, 10) {
				t.Errorf("life %d: decision %d is acknowledged as %s", life, id, got)
			}
		}
		if life > 0 {
			break
		}
		if _, err := raw.Revoke(t.Context(), lease.ID); err != nil {
			t.Fatal(err)
		}
		if s, err := client.Get(t.Context()); err != nil || s.ID != virtual.None || s.Pending() {
			t.Errorf("between: %v, %v", s, err)
		}
		wantKeys(t, raw, map[string]string{})
		if s := state(t, newPlanner(t, virtual.PlannerOptions{Options: options(c)})); s.Pools[0].Lost {
			t.Errorf("a planner that begins then: %+v", s)
		}
		put(t, raw, "scaled_decision_id", "2")
		// What it asked for is not known to a planner that never saw it.
		if s := state(t, newPlanner(t, virtual.PlannerOptions{Options: options(c)})); !s.Pools[0].Lost || s.Pools[0].Want != virtual.None {
			t.Errorf("a planner that begins then: %+v", s)
		}
	}
}
