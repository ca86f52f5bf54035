package local_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/command"
	"plimsoll/engine/enginetest"
	"plimsoll/planner"
	"plimsoll/planner/connect/local"
)

// The workers and planners of these tests are this test binary again:
//
//	worker MODE PORT DIR      planner DIR WANT
func TestMain(m *testing.M) {
	if len(os.Args) > 4 && os.Args[1] == "worker" {
		os.Exit(work(os.Args[2], os.Args[3], os.Args[4]))
	}
	if len(os.Args) > 3 && os.Args[1] == "planner" {
		plan(os.Args[2], os.Args[3])
	}
	// Under the race detector every exit sleeps for a second, which the children need not.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// work is an engine: /health, /metrics, and /hold, a request that ends when the
// file that it names is there.
func work(mode, port, dir string) int {
	term, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if left, ok := strings.CutPrefix(mode, "away-"); ok { // leaves the session that it was started in
		if _, err := syscall.Setsid(); err != nil {
			return 96
		}
		mode = left
	}
	switch mode {
	case "exit3":
		fmt.Println("fatal: no such tensor")
		return 3
	case "never":
		<-term.Done()
		return 0
	case "deaf": // never ready, and does not end
		select {}
	case "flag": // dies unless a file says that all is well
		if _, err := os.Stat(filepath.Join(dir, "well")); err != nil {
			fmt.Println("fatal: not well")
			return 4
		}
	}
	s := &http.Server{Addr: "127.0.0.1:" + port, Handler: engineHandler(mode), ReadHeaderTimeout: time.Minute}
	failed := make(chan error, 1)
	go func() { failed <- s.ListenAndServe() }()
	for {
		select {
		case err := <-failed:
			fmt.Println(err)
			return 98
		case <-term.Done():
		}
		switch mode {
		case "drain":
			fmt.Println("draining")
			if err := s.Shutdown(context.Background()); err != nil {
				return 97
			}
			fmt.Println("drained")
			return 0
		case "stubborn", "mute":
			term = context.Background()
		default: // what is in flight breaks off
			return 0
		}
	}
}

func engineHandler(mode string) http.Handler {
	var running, told atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("/health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/env", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, os.Getenv("CUDA_VISIBLE_DEVICES"))
	})
	mux.HandleFunc("/told", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, told.Load()) })
	mux.HandleFunc("/hold", func(w http.ResponseWriter, r *http.Request) {
		running.Add(1)
		defer running.Add(-1)
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		for range time.Tick(5 * time.Millisecond) {
			if _, err := os.Stat(r.URL.Query().Get("until")); err == nil {
				_, _ = fmt.Fprint(w, "whole")
				return
			}
		}
	})
	if mode != "mute" {
		mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
			told.Store(running.Load())
			_, _ = fmt.Fprintf(w, "vllm:num_requests_running %d\nvllm:num_requests_waiting 0\n", running.Load())
		})
	}
	return mux
}

// plan is a planner that will be killed: decode workers, as many as is wanted.
func plan(dir, want string) {
	n, err := strconv.Atoi(want)
	if err != nil {
		panic(err)
	}
	target, err := local.New(options(dir, "serve"))
	if err == nil {
		err = target.Scale(context.Background(), planner.Replicas{Decode: n}, "test")
	}
	if err != nil {
		panic(err)
	}
	fmt.Println("scaled")
	panic(target.Run(context.Background()))
}

func self() string {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return path
}

// pool is a pool of workers in a mode.
func pool(role engine.Role, component, mode string, gpus int, dir string) local.Pool {
	return local.Pool{
		Component: component, DrainsOnTERM: strings.HasSuffix(mode, "drain"),
		Config:   engine.Config{Model: "some/model", Role: role, Parallelism: engine.TP(gpus)},
		Template: command.Template{Argv: self() + " worker " + mode + " {{.Port}} " + dir + " {{.Name}} {{.GPUs}}", Grace: time.Minute},
	}
}

// options are decode workers in a mode, of one GPU each, with eight of them.
func options(dir, mode string) local.Options {
	return local.Options{
		Path: filepath.Join(dir, "state", "dynamo.json"), Namespace: "dynamo",
		Pools:  []local.Pool{pool(engine.RoleDecode, "VllmDecodeWorker", mode, 1, dir)},
		GPUs:   []string{"0", "1", "2", "3", "4", "5", "6", "7"},
		Settle: time.Millisecond, Backoff: 20 * time.Millisecond, MaxBackoff: 200 * time.Millisecond, Every: 30 * time.Millisecond,
	}
}

// fixture is a Target with its folder; whatever runs there ends with the test.
type fixture struct {
	*local.Target
	t    *testing.T
	opts local.Options
	dir  string

	mu   sync.Mutex
	said []string
}

func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() {
		for _, pid := range workers(dir) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		enginetest.Eventually(t, "the end of all workers", func() bool { return len(workers(dir)) == 0 })
	})
	return dir
}

func newFixture(t *testing.T, dir string, o local.Options) *fixture {
	t.Helper()
	f := &fixture{t: t, opts: o, dir: dir}
	f.restart()
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(f.log())
		}
	})
	return f
}

// restart drops the Target, as kill -9 drops it: the kernel closes its lock, and
// nothing else happens. A new one takes its place.
func (f *fixture) restart() {
	f.t.Helper()
	if f.Target != nil {
		if err := f.Close(); err != nil {
			f.t.Fatal(err)
		}
	}
	f.opts.Log = func(format string, args ...any) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.said = append(f.said, fmt.Sprintf(format, args...))
	}
	var err error
	if f.Target, err = local.New(f.opts); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) log() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.said, "\n")
}

// scale asks for decode workers.
func (f *fixture) scale(n int) {
	f.t.Helper()
	if err := f.Scale(f.t.Context(), planner.Replicas{Decode: n}, "test"); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) state() planner.State {
	f.t.Helper()
	s, err := f.State(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

// until asks for the state until the decode pool is as it should be.
func (f *fixture) until(what string, ok func(planner.PoolState) bool) planner.State {
	f.t.Helper()
	var s planner.State
	enginetest.Eventually(f.t, what, func() bool {
		s = f.state()
		p, _ := s.Pool(engine.RoleDecode)
		return ok(p)
	})
	return s
}

// still takes some turns, in each of which the state must be as it should be.
func (f *fixture) still(ok func(planner.State) bool) {
	f.t.Helper()
	for range 30 {
		if s := f.state(); !ok(s) {
			f.t.Fatalf("%+v\n%s", s, f.log())
		}
	}
}

// settled waits until n decode workers are ready and nothing is under way.
func (f *fixture) settled(n int) planner.State {
	f.t.Helper()
	return f.until(fmt.Sprintf("%d ready workers", n), func(p planner.PoolState) bool {
		return p.Ready == n && p.Starting == 0 && p.Draining == 0
	})
}

// found are the workers as a frontend sees them.
func (f *fixture) found() []local.Worker {
	f.t.Helper()
	ws, err := local.Workers(f.opts.Path)
	if err != nil {
		f.t.Fatal(err)
	}
	return ws
}

// entries are the components of the state file.
func (f *fixture) entries() map[string]map[string]any {
	f.t.Helper()
	text, err := os.ReadFile(f.opts.Path)
	if err != nil {
		f.t.Fatal(err)
	}
	var d struct {
		Components map[string]map[string]any `json:"components"`
	}
	if err := json.Unmarshal(text, &d); err != nil {
		f.t.Fatal(err)
	}
	return d.Components
}

// edit changes one entry of the state file behind the Target's back.
func (f *fixture) edit(name string, change func(map[string]any)) {
	f.t.Helper()
	all := f.entries()
	if all[name] == nil {
		all[name] = map[string]any{}
	}
	change(all[name])
	text, err := json.Marshal(map[string]any{"components": all})
	if err == nil {
		err = os.WriteFile(f.opts.Path, text, 0o600)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// workers are the processes that work in dir and are no zombies.
func workers(dir string) []int {
	var out []int
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline") // a constant pattern
	for _, p := range paths {
		words, err := os.ReadFile(p)
		if err != nil || !bytes.Contains(words, []byte("worker\x00")) || !bytes.Contains(words, []byte("\x00"+dir+"\x00")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(p))); err == nil {
			out = append(out, pid)
		}
	}
	return out
}
