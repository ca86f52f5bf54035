package frontend

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"plimsoll/engine"
)

func TestParseLease(t *testing.T) {
	w, err := parseLease("w-1", []byte(`{"role":"prefill","url":"http://10.0.0.1:8000/","more":1}`))
	if want := (Worker{"w-1", engine.RolePrefill, "http://10.0.0.1:8000", Ready}); err != nil || w != want {
		t.Errorf("%+v, %v", w, err)
	}
	if w, err := parseLease("w", []byte(`{"role":"decode","url":"http://a","state":"draining"}`)); err != nil || w.State != Draining {
		t.Errorf("%+v, %v", w, err)
	}
	for _, bad := range []string{``, `null`, `[]`, `{}`, `{"role":"decode"}`, `{"url":"http://a"}`, `{"role":"decode","url":"http://a","state":"asleep"}`, `{"role":"decode","url":5}`} {
		if w, err := parseLease("w", []byte(bad)); err == nil {
			t.Errorf("%s gives %+v", bad, w)
		}
	}
	if _, err := parseLease("", []byte(`{"role":"decode","url":"http://a"}`)); err == nil {
		t.Error("a worker without a name")
	}
}

func FuzzParseLease(f *testing.F) {
	f.Add("w", `{"role":"prefill","url":"http://10.0.0.1:8000/"}`)
	f.Add("", `{"role":1}`)
	f.Fuzz(func(t *testing.T, name, value string) {
		if w, err := parseLease(name, []byte(value)); err == nil && w.Check() != nil {
			t.Errorf("%q: %+v", value, w)
		}
	})
}

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
	eventually(t, "it is said", func() bool {
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
