package frontend

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"plimsoll/engine"
)

// leasePatience bounds one request to etcd, and is the pause after one that failed.
const leasePatience = 2 * time.Second

// Leases are workers in etcd: a key v1/{namespace}/workers/{name} for each, whose
// value is JSON, {"role": "prefill", "url": "http://10.0.0.1:8000", "state":
// "ready"}; without a state it is ready. A worker writes its key with a lease that
// it keeps alive, so that the key goes with it.
type Leases struct {
	Etcd      *clientv3.Client
	Namespace string // a word without slashes
}

// leasePrefix is what the keys of a namespace's workers begin with.
func leasePrefix(namespace string) string { return "v1/" + namespace + "/workers/" }

// Follow gives to the workers now and whenever a key changed or lost its lease,
// until ctx is done. While etcd does not answer, the workers stay as they were.
func (l Leases) Follow(ctx context.Context, to *Frontend) {
	said := ""
	for ctx.Err() == nil {
		revision, list, err := l.read(ctx, to.log.Printf)
		if err == nil {
			said = ""
			to.SetWorkers(list)
			err = l.changed(ctx, revision)
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		if err.Error() != said {
			said = err.Error()
			to.log.Printf("warning: the workers in etcd: %v: they stay as they were", err)
		}
		select {
		case <-time.After(leasePatience):
		case <-ctx.Done():
		}
	}
}

// read is all workers as of a revision; keys that are none are logged.
func (l Leases) read(ctx context.Context, logf func(string, ...any)) (int64, []Worker, error) {
	ctx, cancel := context.WithTimeout(ctx, leasePatience)
	defer cancel()
	prefix := leasePrefix(l.Namespace)
	answer, err := l.Etcd.Get(ctx, prefix, clientv3.WithPrefix())
	if err != nil {
		return 0, nil, err
	}
	var list []Worker
	for _, kv := range answer.Kvs {
		w, err := parseLease(strings.TrimPrefix(string(kv.Key), prefix), kv.Value)
		if err != nil {
			logf("warning: %s: %v: it gets no requests", kv.Key, err)
			continue
		}
		list = append(list, w)
	}
	return answer.Header.Revision, list, nil
}

// changed returns when a key changed after a revision, or the watch broke.
func (l Leases) changed(ctx context.Context, revision int64) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	answer, ok := <-l.Etcd.Watch(ctx, leasePrefix(l.Namespace), clientv3.WithPrefix(), clientv3.WithRev(revision+1))
	if !ok {
		return errors.New("the watch ended")
	}
	return answer.Err()
}

// parseLease reads a worker's value.
func parseLease(name string, value []byte) (Worker, error) {
	var v struct {
		Role  engine.Role
		URL   string
		State State
	}
	if err := json.Unmarshal(value, &v); err != nil {
		return Worker{}, fmt.Errorf("want role and url in JSON: %w", err)
	}
	v.State = cmp.Or(v.State, Ready)
	w := Worker{Name: name, Role: v.Role, URL: strings.TrimRight(v.URL, "/"), State: v.State}
	return w, w.Check()
}
