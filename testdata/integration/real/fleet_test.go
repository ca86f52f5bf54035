//go:build real

package real

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"plimsoll/testdata/integration/free"
	"plimsoll/testdata/integration/planner"
	"plimsoll/testdata/integration/program"
)

// frontend starts the router, with workers or those that a planner registers.
func frontend(t *testing.T, env []string, args ...string) string {
	t.Helper()
	address := free.Address(t)
	_, port, _ := strings.Cut(address, ":")
	program.Start(t, env, append([]string{"engine", "frontend", "--port", port}, args...)...)
	url := "http://" + address
	program.Until(t, 30*time.Second, "the frontend listens", func() bool { _, err := planner.Get(url + "/metrics"); return err == nil })
	return url
}

// A fleet of vLLMs from none to two and back under a load whose clients leave in part: no
// request fails that waited for its answer.
func TestPlannerLocal(t *testing.T) {
	state := t.TempDir()
	// By itself each engine takes the same core for its threads, and the second starves.
	env := append(vllmEnv(t), "DYN_LOCAL_STATE_DIR="+state, "VLLM_CPU_OMP_THREADS_BIND=nobind", "OMP_NUM_THREADS=1")
	url := frontend(t, env)
	site := free.Address(t)
	log := filepath.Join(t.TempDir(), "events.jsonl")
	p := program.Start(t, env, "planner", "serve", "--environment", "local", "--mode", "aggregated", "--policy", "load",
		"--decode-kv-scale-up-threshold", "0.3", "--decode-kv-scale-down-threshold", "0.15", "--slots", "2", "--max-gpu-budget", "2",
		"--aggregated-command", "vllm serve "+model(t, "words")+" --served-model-name words --port {{.Port}} --max-model-len 2048 --enforce-eager --num-gpu-blocks-override 20",
		"--metrics-endpoints", "frontend="+url+"/metrics", "--backend", "dynamo", "--adjustment-interval", "10",
		"--listen", site, "--state-file", "none", "--event-log", log, "--stop-workers")
	t.Cleanup(func() { p.Stop(); showLogs(t, state) })
	ready := func() (n int) { _, n = planner.StatusOf(t, "http://"+site).Pool("aggregated"); return n }
	program.Until(t, 30*time.Second, "the planner runs", func() bool { _, err := planner.Get("http://" + site + "/api/v1/status"); return err == nil })
	program.Until(t, 4*time.Minute, "the first worker is there", func() bool { return ready() == 1 })

	load := planner.Load{URL: url, Model: "words", ISL: 500, OSL: 100, Phases: []planner.Phase{{Rate: 0.3, For: 30 * time.Second}, {Rate: 1.3, For: 150 * time.Second}, {Rate: 0.3, For: 120 * time.Second}}}
	sent := make(chan []planner.Sent, 1)
	go func() { sent <- load.Run(t.Context()) }()
	leaving, stop := context.WithCancel(t.Context())
	left := leave(leaving, url)
	program.Until(t, 5*time.Minute, "the fleet grows", func() bool { return ready() == 2 })
	all := <-sent
	stop()
	program.Until(t, 4*time.Minute, "the fleet shrinks", func() bool { return ready() == 1 })
	failed := 0
	for _, s := range all {
		if s.Failed != "" {
			failed++
			t.Logf("at %v: %s", s.At, s.Failed)
		}
	}
	t.Logf("%d requests, %d failed; %d clients left", len(all), failed, <-left)
	if failed > 0 || len(all) < 180 {
		t.Errorf("%d of %d requests failed", failed, len(all))
	}
}

// showLogs prints the ends of the workers' logs of a test that failed.
func showLogs(t *testing.T, dir string) {
	if !t.Failed() {
		return
	}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".log" {
			return err
		}
		data, err := os.ReadFile(path)
		t.Logf("%s\n%s", path, data[max(0, len(data)-4000):])
		return err
	})
	if err != nil {
		t.Log(err)
	}
}

// leave sends a request each second and goes away after half a second, until ctx ends.
func leave(ctx context.Context, url string) <-chan int {
	gone := make(chan int, 1)
	go func() {
		n := 0
		defer func() { gone <- n }()
		for ctx.Err() == nil {
			one, end := context.WithTimeout(ctx, 500*time.Millisecond)
			stream(one, url, 400, func() {})
			end()
			n++
			select {
			case <-time.After(500 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
	return gone
}

// stream sends one completion of so many tokens, calls first at its first event, or where
// there is none at its end, and says how it went.
func stream(ctx context.Context, url string, tokens int, first func()) string {
	begun := sync.OnceFunc(first)
	defer begun()
	began := time.Now()
	after := func(format string, args ...any) string {
		return fmt.Sprintf("%.1f s: ", time.Since(began).Seconds()) + fmt.Sprintf(format, args...)
	}
	body := fmt.Sprintf(`{"model": "words", "prompt": "baba caca", "max_tokens": %d, "ignore_eos": true, "stream": true}`, tokens)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/completions", strings.NewReader(body))
	if err != nil {
		return err.Error()
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return after("%v", err)
	}
	defer resp.Body.Close()
	events, last := 0, ""
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if lines.Text() != "" {
			begun()
			events, last = events+1, lines.Text()
		}
	}
	return after("%s, %d events, the last %.120q, then %v", resp.Status, events, last, lines.Err())
}

// turns is the error of a server's health, if it has one within five seconds.
func turns(url string) (err error) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for range 25 {
		if _, err = planner.Get(url + "/health"); err != nil {
			break
		}
		<-tick.C
	}
	return err
}

// What clients get whose engine fails under them, one behind the router.
func TestEngineFails(t *testing.T) {
	const tokens, patience = 3000, 30 * time.Second
	for name, fail := range map[string]func(*testing.T, server){
		"core killed":  func(t *testing.T, s server) { signal(t, core(t, s.Pid()), syscall.SIGKILL) },
		"core stopped": func(t *testing.T, s server) { signal(t, core(t, s.Pid()), syscall.SIGSTOP) },
		"engine ended": func(t *testing.T, s server) { s.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, "words")
			url := frontend(t, nil, "--workers", "aggregated="+s.url)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var streams, begun sync.WaitGroup
			for range 3 {
				begun.Add(1)
				streams.Go(func() { t.Logf("a client whose stream was open: %s", stream(ctx, url, tokens, begun.Done)) })
			}
			begun.Wait()
			fail(t, s)
			short, end := context.WithTimeout(ctx, patience)
			defer end()
			t.Logf("a client that came then: %s", stream(short, url, 8, func() {}))
			t.Logf("health within five seconds: the router's %v, the engine's %v", turns(url), turns(s.url))
			stop()
			streams.Wait()
			for id, name := range children(s.Pid()) {
				if strings.Contains(name, "EngineCor") {
					signal(t, id, syscall.SIGCONT)
				}
			}
		})
	}
}
