// Package frontend_test runs the router in front of engines over a real etcd.
package frontend_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/engine/simserver"
	"plimsoll/engine/simserver/frontend"
	"plimsoll/testdata/integration/etcd"
)

// step is 5 ms whatever the batch.
type step struct{}

func (step) StepTime(engine.Batch) engine.Picoseconds {
	return engine.FromDuration(5 * time.Millisecond)
}

func listen(t *testing.T, serve func(context.Context, net.Listener) error) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "http://" + ln.Addr().String()
}

func engineURL(t *testing.T) string {
	t.Helper()
	s, err := simserver.New(simserver.Options{Model: "m", Timer: step{}, Sim: sim.Config{KVBlocks: 10_000, Limits: engine.Limits{MaxNumSeqs: 8, MaxModelLen: 8192}}})
	if err != nil {
		t.Fatal(err)
	}
	return listen(t, s.Serve)
}

func health(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url + "/health")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came about that %s", what)
		}
	}
}

func TestWorkersWithLeases(t *testing.T) {
	c := etcd.Start(t, 1)
	client := c.Client()
	front, err := frontend.New(frontend.Options{Namespace: "ns"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); frontend.Leases{Etcd: client, Namespace: "ns"}.Follow(ctx, front) }()
	defer func() { cancel(); <-ended }()
	url := listen(t, front.Serve)

	register := func(name string) clientv3.LeaseID {
		t.Helper()
		lease, err := client.Grant(t.Context(), 60)
		if err != nil {
			t.Fatal(err)
		}
		value := fmt.Sprintf(`{"role":"aggregated","url":%q}`, engineURL(t))
		if _, err := client.Put(t.Context(), "v1/ns/workers/"+name, value, clientv3.WithLease(lease.ID)); err != nil {
			t.Fatal(err)
		}
		return lease.ID
	}
	has := func(name string) func() bool {
		return func() bool { _, body := health(t, url); return strings.Contains(body, fmt.Sprintf("%q", name)) }
	}
	if code, _ := health(t, url); code != http.StatusServiceUnavailable {
		t.Errorf("without workers: %d", code)
	}
	lease := register("a")
	eventually(t, "a is known", has("a"))
	if _, err := client.Put(t.Context(), "v1/ns/workers/broken", "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Put(t.Context(), "v1/ns2/workers/stranger", `{"role":"decode","url":"http://a"}`); err != nil {
		t.Fatal(err)
	}

	// Its lease is revoked in the middle of a stream.
	resp, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"a","max_tokens":200,"ignore_eos":true,"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := client.Revoke(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a gets no requests", func() bool { code, _ := health(t, url); return code == http.StatusServiceUnavailable })
	if b, err := io.ReadAll(resp.Body); err != nil || !strings.HasSuffix(string(b), "data: [DONE]\n\n") {
		t.Errorf("%v, its stream ends in %q", err, b[max(0, len(b)-100):])
	}
	eventually(t, "a is gone", func() bool { return !has("a")() })

	// etcd goes away and comes back: who was there stays, who comes then is seen.
	register("b")
	eventually(t, "b is known", has("b"))
	c.Stop()
	time.Sleep(3 * time.Second) // longer than a request to etcd may take
	if !has("b")() || has("stranger")() || has("broken")() {
		_, body := health(t, url)
		t.Errorf("while etcd is away: %s", body)
	}
	c.Restart()
	register("c")
	eventually(t, "c is known", has("c"))
}
