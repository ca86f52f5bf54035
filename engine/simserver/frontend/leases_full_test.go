//go:build full

package frontend

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"

	"plimsoll/engine/enginetest"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// An etcd that does not answer is said once, and what was known stays.
func TestEtcdThatDoesNotAnswer(t *testing.T) {
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + ln.Addr().String()
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := New(Options{Namespace: "n"})
	if err != nil {
		t.Fatal(err)
	}
	var log lines
	f.log.SetOutput(&log)
	f.SetWorkers([]Worker{worker1("w", Ready)})
	ctx, cancel := context.WithCancel(t.Context())
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{url}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); Leases{Etcd: etcd, Namespace: "n"}.Follow(ctx, f) }()
	enginetest.Eventually(t, "it is said", func() bool {
		return slices.ContainsFunc(log.all(), func(s string) bool { return strings.Contains(s, "stay as they were") })
	})
	if m := f.pool.load().members; len(m) != 1 {
		t.Errorf("%+v", m)
	}
	cancel()
	<-ended
	if err := etcd.Close(); err != nil {
		t.Error(err)
	}
}
