// Package prometheus_test has planner.Source over Debian's Prometheus and VictoriaMetrics,
// which scrape real engines.
package prometheus_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/engine/simserver"
	"plimsoll/planner"
	"plimsoll/planner/observe"
	"plimsoll/testdata/integration/free"
)

// scrapes is how often Prometheus looks.
const scrapes = 200 * time.Millisecond

// settles makes an interval long enough: increase() extrapolates by up to 1.1 scrapes at
// either end, a tenth of an interval of 4.4 s.
const settles = 5 * time.Second

// step takes the same time, whatever is in it.
type step time.Duration

func (s step) StepTime(engine.Batch) engine.Picoseconds { return engine.FromDuration(time.Duration(s)) }

// serve runs a simulated engine at an address until stop is called.
func serve(t *testing.T, address string) (stop func()) {
	t.Helper()
	s, err := simserver.New(simserver.Options{
		Model: "test/model", Timer: step(2 * time.Millisecond),
		Sim: sim.Config{KVBlocks: 25_600, Limits: engine.Limits{MaxNumSeqs: 64, MaxModelLen: 131_072}},
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// send waits for n requests of so many tokens.
func send(t *testing.T, address string, n, isl, osl int) {
	t.Helper()
	var wait sync.WaitGroup
	for range n {
		wait.Go(func() {
			body := fmt.Sprintf(`{"prompt":%q,"max_tokens":%d,"ignore_eos":true}`, strings.Repeat("w ", isl), osl)
			get(t, http.MethodPost, "http://"+address+"/v1/completions", body)
		})
	}
	wait.Wait()
}

// get is the answer, which has to be a good one.
func get(t *testing.T, method, url, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewBufferString(body))
	if err != nil {
		t.Error(err)
		return ""
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("%s: %v %s", resp.Status, err, text)
	}
	return string(text)
}

// start runs Debian's Prometheus and VictoriaMetrics, which scrape two engines, labelled
// prefill and decode, and gives their URLs.
func start(t *testing.T, engines [2]string) (prometheus, victoria string) {
	t.Helper()
	dir := t.TempDir()
	config := fmt.Sprintf("global: {scrape_interval: %v}\nscrape_configs:\n  - job_name: engines\n    static_configs:\n", scrapes)
	for i, role := range []engine.Role{engine.RolePrefill, engine.RoleDecode} {
		config += fmt.Sprintf("      - {targets: [%q], labels: {role: %s}}\n", engines[i], role)
	}
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	addresses := [2]string{free.Address(t), free.Address(t)}
	for i, args := range [2][]string{
		{"/usr/bin/prometheus", "--config.file=" + filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=" + addresses[0]},
		{"/usr/bin/victoria-metrics", "-promscrape.config=" + filepath.Join(dir, "prometheus.yml"), "-storageDataPath=" + filepath.Join(dir, "victoria"), "-httpListenAddr=" + addresses[1]},
	} {
		log := &bytes.Buffer{}
		command := exec.CommandContext(context.Background(), args[0], args[1:]...)
		command.Stdout, command.Stderr = log, log
		if err := command.Start(); err != nil {
			t.Fatalf("%v: want Debian's packages prometheus and victoria-metrics", err)
		}
		t.Cleanup(func() {
			_ = command.Process.Kill()
			_ = command.Wait()
			if t.Failed() {
				t.Logf("%s said:\n%s", args[0], log)
			}
		})
		addresses[i] = "http://" + addresses[i]
	}
	return addresses[0], addresses[1]
}

// until waits for a query to have a value.
func until(t *testing.T, server, query, value string) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		resp, err := http.Get(server + "/api/v1/query?query=" + query) //nolint:noctx // bounded by the loop
		if err == nil {
			text, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if strings.Contains(string(text), `"`+value+`"]`) {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is not %s after 30 s", query, value)
		}
		time.Sleep(scrapes / 4)
	}
}

// source is a planner.Source over a server.
func source(t *testing.T, url string) (*observe.Server, *observe.Live) {
	t.Helper()
	server, err := observe.Dial(observe.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	live, err := observe.NewLive(server, observe.LiveOptions{Presets: observe.Presets("auto"), Model: "test/model"})
	if err != nil {
		t.Fatal(err)
	}
	return server, live
}

func near(t *testing.T, what string, got planner.Figure[float64], want, within float64) {
	t.Helper()
	if !got.Known || !(math.Abs(got.Value-want) <= within) {
		t.Errorf("%s is %+v, want %v ± %v", what, got, want, within)
	}
}

// A real Prometheus says what was sent to two real engines, one of which begins
// anew; increase() extrapolates to the interval's ends, by a tenth at most here.
func TestLive(t *testing.T) {
	engines := [2]string{free.Address(t), free.Address(t)}
	serve(t, engines[0])
	stop := serve(t, engines[1])
	url, victoria := start(t, engines)
	until(t, url, "min(count_over_time(vllm:num_requests_running[1m]))", "4")
	until(t, victoria, "count(vllm:num_requests_running)&nocache=1", "2")
	server, live := source(t, url)
	began := time.Now()
	observed := func() planner.Observation {
		t.Helper()
		end := time.Now()
		state := planner.State{Pools: []planner.PoolState{{Role: engine.RoleAggregated, Ready: 2}}}
		if err := live.Sample(t.Context(), state); err != nil {
			t.Fatal(err)
		}
		o, err := live.Observe(t.Context(), began, end)
		if err != nil {
			t.Fatal(err)
		}
		began = end
		return o
	}

	time.Sleep(2 * scrapes)
	send(t, engines[0], 30, 200, 4)
	send(t, engines[1], 10, 600, 8)
	until(t, url, "sum(vllm:request_success_total)", "40")
	time.Sleep(settles)
	o := observed()
	near(t, "arrivals", o.Arrivals, 40, 4)
	near(t, "finished", o.Finished, 40, 4)
	near(t, "ISL", o.ISL.Mean, 300, 6) // over engines it would be 400
	near(t, "OSL", o.OSL.Mean, 5, 0.1)
	near(t, "running", o.Running, 0, 0)
	pool, _ := o.Pool(engine.RoleAggregated)
	if !o.TTFT.P99.Known || !o.ITL.Mean.Known || !pool.KVMost.Known || !pool.QueueOpen.Known || !pool.QueueEnd.Known || len(o.Problems) > 0 {
		t.Errorf("observation %+v", o)
	}

	apart(t, server, o)
	busy := o

	stop()
	serve(t, engines[1])
	until(t, url, "sum(vllm:request_success_total)", "30")
	send(t, engines[1], 20, 100, 4) // more than it had counted before
	until(t, url, "sum(vllm:request_success_total)", "50")
	time.Sleep(settles)
	o = observed()
	near(t, "arrivals after a restart", o.Arrivals, 20, 3)
	near(t, "ISL after a restart", o.ISL.Mean, 100, 1)

	_, other := source(t, victoria) // which has samples a second later
	v, err := other.Observe(t.Context(), busy.Start, busy.End())
	if err != nil {
		t.Fatal(err)
	}
	near(t, "arrivals by VictoriaMetrics", v.Arrivals, 40, 4)
	near(t, "ISL by VictoriaMetrics", v.ISL.Mean, 300, 6)
	near(t, "OSL by VictoriaMetrics", v.OSL.Mean, 5, 0.1)

	time.Sleep(2 * time.Second)
	o = observed()
	near(t, "arrivals of an idle interval", o.Arrivals, 0, 0)
	if o.TTFT.Mean.Known || o.ISL.Mean.Known {
		t.Errorf("an idle interval has latencies: %+v", o)
	}
}

// apart looks at the same interval as if the engines were of two pools, both of
// which count each request.
func apart(t *testing.T, server *observe.Server, whole planner.Observation) {
	t.Helper()
	live, err := observe.NewLive(server, observe.LiveOptions{
		Presets: observe.Presets("vllm"),
		Selectors: map[planner.Role]map[string]string{
			engine.RolePrefill: {"role": "prefill"}, engine.RoleDecode: {"role": "decode"},
		},
		PrefillQueueQuery: `sum(vllm:num_requests_waiting{role="prefill"}) + 6`,
	})
	if err != nil {
		t.Fatal(err)
	}
	state := planner.State{Pools: []planner.PoolState{{Role: engine.RolePrefill, Ready: 3}, {Role: engine.RoleDecode, Ready: 1}}}
	if err := live.Sample(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	o, err := live.Observe(t.Context(), whole.Start, whole.End())
	if err != nil {
		t.Fatal(err)
	}
	near(t, "arrivals at prefill", o.Arrivals, 30, 3)
	near(t, "finished by decode", o.Finished, 10, 1)
	near(t, "ISL at prefill", o.ISL.Mean, 200, 2)
	near(t, "OSL of decode", o.OSL.Mean, 8, 0.1)
	prefill, _ := o.Pool(engine.RolePrefill)
	near(t, "prefill queue per replica", prefill.QueueEnd, 2, 0)
	near(t, "waiting anywhere", o.Waiting, 6, 0)
	if decode, _ := o.Pool(engine.RoleDecode); !decode.KVUsage.Known || !decode.Queue.Known {
		t.Errorf("decode pool %+v", decode)
	}
}
