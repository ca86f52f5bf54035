package local_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/planner"
	"plimsoll/planner/connect/local"
)

func fetch(t *testing.T, url string) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

// hold begins a request that ends when its file is there, and gives its answer.
func hold(t *testing.T, url, file string) <-chan string {
	t.Helper()
	begun, answer := make(chan struct{}), make(chan string, 1)
	go func() {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/hold?until="+file, nil)
		if err != nil {
			panic(err)
		}
		resp, err := http.DefaultClient.Do(req)
		close(begun)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer func() { _ = resp.Body.Close() }()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			b = []byte(err.Error())
		}
		answer <- string(b)
	}()
	<-begun
	return answer
}

// finish lets a request end, and wants it whole.
func finish(t *testing.T, file string, answer <-chan string) {
	t.Helper()
	release(t, file)
	if a := <-answer; a != "whole" {
		t.Errorf("the request ended with %q", a)
	}
}

func release(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestScaleUpDownAndToZero(t *testing.T) {
	dir := folder(t)
	f := newFixture(t, dir, options(dir, "serve"))
	if p := f.state().Pools[0]; p.Want != -1 || p.Ready+p.Starting+p.Draining != 0 || p.Name != "VllmDecodeWorker" || p.GPUs != 1 {
		t.Errorf("before anything was asked for: %+v", p)
	}
	f.scale(3)
	if p := f.state().Pools[0]; p.Want != 3 || p.Ready+p.Starting != 3 {
		t.Errorf("just after the asking: %+v", p)
	}
	f.settled(3)
	f.scale(3)
	if n := len(workers(dir)); n != 3 {
		t.Errorf("asking again made it %d workers", n)
	}
	names := func() (out []string) {
		for _, w := range f.found() {
			out = append(out, w.Name)
		}
		return out
	}
	if got := names(); !slices.Equal(got, []string{"dynamo_VllmDecodeWorker", "dynamo_VllmDecodeWorker_1", "dynamo_VllmDecodeWorker_2"}) {
		t.Errorf("names %q", got)
	}
	for i, w := range f.found() {
		if env, err := fetch(t, w.URL+"/env"); err != nil || env != string(rune('0'+i)) || w.State != local.Ready || w.Role != engine.RoleDecode {
			t.Errorf("%+v sees GPUs %q, %v", w, env, err)
		}
	}
	f.scale(1)
	if s := f.settled(1); s.Scaling != "" || s.Model != "some/model" {
		t.Errorf("%+v", s)
	}
	if got := names(); !slices.Equal(got, []string{"dynamo_VllmDecodeWorker"}) {
		t.Errorf("left are %q, want the oldest", got)
	}
	f.scale(0)
	f.settled(0)
	e := f.entries()
	base := e["dynamo_VllmDecodeWorker"]
	if len(e) != 1 || base["watcher_name"] != "dynamo_VllmDecodeWorker" || base["cmd"] == "" || base["resources"] != nil || base["pid"] != nil {
		t.Errorf("at zero the file has %v", e)
	}
	if n := len(workers(dir)); n != 0 {
		t.Errorf("%d processes are left", n)
	}
	f.scale(1)
	f.settled(1)
	if got := names(); !slices.Equal(got, []string{"dynamo_VllmDecodeWorker"}) {
		t.Errorf("from zero: %q", got)
	}
}

// Both ways of draining let a request that runs come to its end.
func TestDrainDropsNoRequest(t *testing.T) {
	for _, mode := range []string{"serve", "drain"} {
		t.Run(mode, func(t *testing.T) {
			dir := folder(t)
			f := newFixture(t, dir, options(dir, mode))
			f.scale(2)
			f.settled(2)
			newest := f.found()[1]
			file := filepath.Join(dir, "release")
			answer := hold(t, newest.URL, file)
			f.scale(1)
			f.until("draining", func(p planner.PoolState) bool { return p.Draining == 1 && p.Ready == 1 })
			if w := f.found()[1]; w.State != local.Draining || w.Name != newest.Name {
				t.Errorf("a frontend sees %+v", w)
			}
			f.still(func(s planner.State) bool {
				return s.Pools[0].Draining == 1 && strings.Contains(s.Scaling, newest.Name+" drains")
			})
			select {
			case a := <-answer:
				t.Fatalf("the request ended early: %q", a)
			default:
			}
			finish(t, file, answer)
			f.settled(1)
		})
	}
}

// GPUs of a worker that drains are taken until it has ended; who waits for GPUs
// is no scaling that a policy should wait for (upstream's #14251).
func TestNeverMoreGPUsThanThereAre(t *testing.T) {
	dir := folder(t)
	o := options(dir, "drain")
	o.GPUs = []string{"0", "1", "2", "3"}
	o.Pools = []local.Pool{pool(engine.RolePrefill, "Prefill", "drain", 2, dir), pool(engine.RoleDecode, "Decode", "drain", 1, dir)}
	f := newFixture(t, dir, o)
	want := planner.Replicas{Prefill: 1, Decode: 4}
	if err := f.Scale(t.Context(), want, "test"); err != nil {
		t.Fatal(err)
	}
	s := f.until("two decode workers", func(p planner.PoolState) bool { return p.Ready == 2 })
	if p, _ := s.Pool(engine.RoleDecode); p.Starting != 2 || p.Pending != 2 || !strings.Contains(s.Trouble, "2 Decode wait for 1 GPU each") {
		t.Errorf("%+v, %s", p, s.Trouble)
	}
	enginetest.Eventually(t, "a prefill worker", func() bool { p, _ := f.state().Pool(engine.RolePrefill); return p.Ready == 1 })
	if s := f.state(); s.Scaling != "" {
		t.Errorf("who waits for GPUs is said to be under way: %s", s.Scaling)
	}
	prefill := f.found()[2]
	if env, err := fetch(t, prefill.URL+"/env"); err != nil || env != "0,1" {
		t.Errorf("prefill sees GPUs %q, %v", env, err)
	}
	file := filepath.Join(dir, "release")
	answer := hold(t, prefill.URL, file)
	if err := f.Scale(t.Context(), want.With(engine.RolePrefill, 0), "test"); err != nil {
		t.Fatal(err)
	}
	f.still(func(s planner.State) bool {
		p, _ := s.Pool(engine.RoleDecode)
		return p.Ready == 2 && p.Pending == 2 // else GPUs were given out twice
	})
	finish(t, file, answer)
	f.settled(4)
}

// Workers without GPUs have slots, and see what the program sees.
func TestSlots(t *testing.T) {
	t.Setenv("CUDA_VISIBLE_DEVICES", "mine")
	dir := folder(t)
	o := options(dir, "serve")
	o.GPUs, o.Slots = nil, 2
	f := newFixture(t, dir, o)
	f.scale(3)
	s := f.until("two of three", func(p planner.PoolState) bool { return p.Ready == 2 && p.Pending == 1 })
	if len(workers(dir)) != 2 {
		t.Errorf("%+v", s)
	}
	if env, err := fetch(t, f.found()[0].URL+"/env"); err != nil || env != "mine" {
		t.Errorf("it sees %q, %v", env, err)
	}
}

func TestScaleRefuses(t *testing.T) {
	dir := folder(t)
	f := newFixture(t, dir, options(dir, "serve"))
	for _, want := range []planner.Replicas{{Decode: -1}, {Prefill: 1}, {Decode: 1 << 20}} {
		if err := f.Scale(t.Context(), want, "test"); err == nil {
			t.Errorf("%+v is accepted", want)
		}
	}
	if _, err := os.Stat(f.opts.Path); err == nil {
		t.Error("it left a file")
	}
}

// A call whose time is over asks for nothing: the workers may have been told to end.
func TestScaleAfterItsTime(t *testing.T) {
	dir := folder(t)
	f := newFixture(t, dir, options(dir, "serve"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Scale(ctx, planner.Replicas{Decode: 1}, "test"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if n := len(workers(dir)); n != 0 {
		t.Errorf("%d workers were started", n)
	}
}
