package planner

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"plimsoll/testdata/integration/etcd"
	"plimsoll/testdata/integration/program"
)

// other is the side that carries decisions out, by planner client.
type other struct {
	t         *testing.T
	namespace string
	etcd      *etcd.Cluster
}

// decision is what planner client prints as JSON.
type decision struct {
	Prefill int `json:"num_prefill_workers"`
	Decode  int `json:"num_decode_workers"`
	ID      int `json:"decision_id"`
	Scaled  int `json:"scaled_decision_id"`
}

func (o other) client(args ...string) program.Result {
	o.t.Helper()
	env := []string{"DYN_NAMESPACE=" + o.namespace, "ETCD_ENDPOINTS=" + o.etcd.Endpoints[0]}
	return program.Run(o.t.Context(), o.t, env, append([]string{"planner", "client"}, args...)...)
}

// wait is the first decision after another.
func (o other) wait(after int) decision {
	o.t.Helper()
	r := o.client("wait", "--after", strconv.Itoa(after), "--timeout", "60s", "--format", "json")
	var d decision
	if err := json.Unmarshal([]byte(r.Stdout), &d); err != nil || r.Code != 0 {
		o.t.Fatalf("planner client wait --after %d: %+v", after, r)
	}
	return d
}

func (o other) complete(id int) {
	o.t.Helper()
	if r := o.client("complete", strconv.Itoa(id)); r.Code != 0 {
		o.t.Fatalf("planner client complete %d: %+v", id, r)
	}
}

// keys are all that etcd holds of the namespace, byte for byte, and the revision
// of the last decision.
func (o other) keys() (values map[string]string, decided int64) {
	o.t.Helper()
	prefix := "v1/" + o.namespace + "/planner/"
	answer, err := o.etcd.Client().Get(o.t.Context(), prefix, clientv3.WithPrefix())
	if err != nil {
		o.t.Fatal(err)
	}
	values = map[string]string{}
	for _, kv := range answer.Kvs {
		name := string(kv.Key)[len(prefix):]
		values[name] = string(kv.Value)
		if name == "decision_id" {
			decided = kv.ModRevision
		}
	}
	return values, decided
}

func (o other) wantKeys(want decision) {
	o.t.Helper()
	got, _ := o.keys()
	wanted := map[string]int{"num_prefill_workers": want.Prefill, "num_decode_workers": want.Decode, "decision_id": want.ID, "scaled_decision_id": want.Scaled}
	for key, n := range wanted {
		text := strconv.Itoa(n)
		if n == -1 {
			text = "" // no key
		}
		if got[key] != text {
			o.t.Errorf("%s is %q, want %q", key, got[key], text)
		}
	}
	if len(got) > len(wanted) {
		o.t.Errorf("etcd holds %v", got)
	}
}

// virtualPlanner is one whose deployment has one replica of each pool, as decision 0.
func virtualPlanner(t *testing.T, on *etcd.Cluster, prometheus, namespace string, args ...string) (*served, other) {
	t.Helper()
	args = append([]string{"--environment", "virtual", "--etcd-endpoints", on.Endpoints[0], "--prometheus-endpoint", prometheus}, args...)
	o := other{t, namespace, on}
	s := serve(t, namespace, args...)
	if d := o.wait(-1); d != (decision{1, 1, 0, -1}) {
		t.Fatalf("the first decision is %+v", d)
	}
	o.wantKeys(decision{1, 1, 0, -1})
	o.complete(0)
	return s, o
}

// The other side is planner client: what is acknowledged is followed by more, what
// is not is waited for, for a while.
func TestVirtualDecisions(t *testing.T) {
	t.Parallel()
	on := etcd.Start(t, 1)
	sites, scraper := frontends(t, "acts", "dies")

	t.Run("acknowledged or waited for", func(t *testing.T) {
		t.Parallel()
		const patience = 14 * time.Second
		s, o := virtualPlanner(t, on, scraper, "acts", "--scaling-max-wait", patience.String())
		s.decisions(1)
		sites["acts"].set(steady(brisk), figures)
		up := o.wait(0)
		if up.ID != 1 || up.Prefill < 2 || up.Prefill+up.Decode > 8 {
			t.Fatalf("the load rose, and it was decided %+v", up)
		}
		o.wantKeys(decision{up.Prefill, up.Decode, 1, 0})
		s.after(time.Time{}, 5*time.Second, "the event log has it", ofKind("scaled", "prefill="+strconv.Itoa(up.Prefill)))

		asked := time.Now()
		sites["acts"].set(steady(60), figures) // and nobody acknowledges
		more := o.wait(1)
		if waited := time.Since(asked); more.ID != 2 || waited < patience-6*time.Second || more.Prefill <= up.Prefill {
			t.Errorf("after %v without an acknowledgement it was decided %+v", waited, more)
		}
		o.complete(more.ID)
		sites["acts"].set(steady(2), figures)
		for last := more; last.Prefill > 1 || last.Decode > 1; {
			next := o.wait(last.ID)
			if next.ID != last.ID+1 || next.Prefill > last.Prefill || next.Decode > last.Decode {
				t.Fatalf("the load fell, and after %+v it was decided %+v", last, next)
			}
			o.complete(next.ID)
			last = next
		}
	})

	t.Run("killed before the acknowledgement", func(t *testing.T) {
		t.Parallel()
		s, o := virtualPlanner(t, on, scraper, "dies")
		sites["dies"].set(steady(brisk), figures)
		up := o.wait(0)
		s.Kill()
		_, decided := o.keys()
		begin := time.Now()
		s.start()
		s.after(begin, 30*time.Second, "it is back", ofKind("started", ""))
		s.decisions(1) // with the load as it was
		if _, now := o.keys(); now != decided {
			t.Errorf("after its restart the planner wrote decision %d again", up.ID)
		}
		o.complete(up.ID)
		for _, e := range s.decisions(2) {
			if e.Decision.Act || e.warns("edited") {
				t.Errorf("after its restart it decided %+v", e.Decision)
			}
		}
		o.wantKeys(decision{up.Prefill, up.Decode, up.ID, up.ID})
	})
}

// etcd goes away, and the load rises meanwhile: nothing is decided blindly, and
// once etcd is back what is due is.
func TestVirtualOutlivesEtcd(t *testing.T) {
	t.Parallel()
	on := etcd.Start(t, 1)
	sites, scraper := frontends(t, "away")
	s, o := virtualPlanner(t, on, scraper, "away")
	s.decisions(1)
	on.Stop()
	gone := time.Now()
	s.after(gone, 40*time.Second, "it says that etcd is away", ofKind("error", "etcd does not answer"))
	sites["away"].set(steady(brisk), figures)
	on.Restart()
	if d := o.wait(0); d.ID != 1 || d.Prefill < 2 {
		t.Errorf("with etcd back it was decided %+v", d)
	}
	for _, e := range s.all() {
		if e.At.After(gone) && e.Kind == "stopped" {
			t.Errorf("it ended: %+v", e)
		}
	}
}
