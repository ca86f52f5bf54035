package virtual_test

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"plimsoll/planner/connect/virtual"
	"plimsoll/testdata/integration/etcd"
)

// A revoked lease takes its keys along, for routers to see; one that is gone
// already is no error.
func TestLeases(t *testing.T) {
	t.Parallel()
	c := etcd.Start(t, 1)
	raw := c.Client()
	lease, err := raw.Grant(t.Context(), 600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := raw.Put(t.Context(), "v1/dynamo/workers/a", "{}", clientv3.WithLease(lease.ID)); err != nil {
		t.Fatal(err)
	}
	l, err := virtual.NewLeases(options(c))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 2 {
		if err := l.Revoke(t.Context(), int64(lease.ID)); err != nil {
			t.Error(err)
		}
	}
	if got, err := raw.Get(t.Context(), "v1/dynamo/workers/a"); err != nil || got.Count != 0 {
		t.Errorf("%v, %+v", err, got)
	}
	c.Stop()
	if err := l.Revoke(t.Context(), 1); err == nil {
		t.Error("without etcd a lease is revoked")
	}
}
