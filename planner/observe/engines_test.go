package observe

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/engine/simserver"
	"plimsoll/planner"
)

// stepTime is how long a step of the simulated engines takes.
const stepTime = 2 * time.Millisecond

// steady takes the same time for every step.
type steady time.Duration

func (s steady) StepTime(engine.Batch) engine.Picoseconds {
	return engine.FromDuration(time.Duration(s))
}

// simEngine starts a real server of a simulated engine, and gives its URL.
func simEngine(t *testing.T) string {
	t.Helper()
	s, err := simserver.New(simserver.Options{
		Model: "test/model", Timer: steady(stepTime),
		Sim: sim.Config{KVBlocks: 25_600, Limits: engine.Limits{MaxNumSeqs: 64, MaxModelLen: 131_072}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return "http://" + ln.Addr().String()
}

// complete sends a request of so many tokens in and out, and waits for its end.
func complete(t *testing.T, url string, isl, osl int) {
	t.Helper()
	body := fmt.Sprintf(`{"prompt":%q,"max_tokens":%d,"ignore_eos":true}`, strings.Repeat("w ", isl), osl)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/completions", bytes.NewBufferString(body))
	if err != nil {
		t.Error(err)
		return
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("%s: %v", resp.Status, err)
	}
}

func engines(t testing.TB, o EnginesOptions, list ...Endpoint) *Engines {
	t.Helper()
	if o.Presets == nil {
		o.Presets = Presets("auto")
	}
	if o.List == nil {
		o.List = func(context.Context) ([]Endpoint, error) { return list, nil }
	}
	e, err := NewEngines(o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func sampled(t testing.TB, e planner.Source, s planner.State) {
	t.Helper()
	if err := e.Sample(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

// stated reads one series of all engines, added up, without any of this package.
func stated(t *testing.T, name string, urls []string) float64 {
	t.Helper()
	sum := 0.0
	for _, url := range urls {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), name+"{") {
				v, err := strconv.ParseFloat(lines.Text()[strings.LastIndex(lines.Text(), " ")+1:], 64)
				if err != nil {
					t.Fatal(err)
				}
				sum += v
			}
		}
	}
	return sum
}

// What two real engines say is what was sent to them: requests and tokens
// exactly, TTFT as the engines themselves have it, and that between what a step
// takes and what the clients waited for whole answers.
func TestEnginesSeeWhatWasSent(t *testing.T) {
	urls := []string{simEngine(t), simEngine(t)}
	complete(t, urls[0], 10, 2) // before anybody looked
	const ttftSum = "vllm:time_to_first_token_seconds_sum"
	before := stated(t, ttftSum, urls)
	e := engines(t, EnginesOptions{}, Endpoint{engine.RoleAggregated, urls[0] + "/metrics"}, Endpoint{engine.RoleAggregated, urls[1] + "/metrics"})
	state := planner.State{Pools: []planner.PoolState{{Role: engine.RoleAggregated, Ready: 2}}}
	start := time.Now()
	sampled(t, e, state)
	var wait sync.WaitGroup
	var waited atomic.Int64
	for i := range 40 {
		wait.Go(func() { // three of four to the first
			sent := time.Now()
			complete(t, urls[i%4/3], 100*(1+i%4), 5+i%4)
			waited.Add(int64(time.Since(sent)))
		})
	}
	sampled(t, e, state)
	wait.Wait()
	end := time.Now()
	o, err := e.Observe(t.Context(), start, end)
	if err != nil {
		t.Fatal(err)
	}
	known(t, "arrivals", o.Arrivals, 40, 0)
	known(t, "finished", o.Finished, 40, 0)
	known(t, "ISL", o.ISL.Mean, 250, 1e-9)
	known(t, "OSL", o.OSL.Mean, 6.5, 1e-9)
	latency(t, "TTFT", o.TTFT.Mean, time.Duration((stated(t, ttftSum, urls)-before)/40*1e9), time.Microsecond)
	if client := time.Duration(waited.Load() / 40); o.TTFT.Mean.Value < stepTime || o.TTFT.Mean.Value > client || o.Duration.Mean.Value < o.TTFT.Mean.Value || o.Duration.Mean.Value > client {
		t.Errorf("TTFT of %v and duration of %v, where a step takes %v and clients waited %v", o.TTFT.Mean.Value, o.Duration.Mean.Value, stepTime, client)
	}
	known(t, "requests of TTFT", planner.Known(o.TTFT.Count), 40, 0)
	known(t, "gaps between tokens", planner.Known(o.ITL.Count), 40*5.5, 0)
	known(t, "running at the end", o.Running, 0, 0)
	known(t, "waiting at the end", o.Waiting, 0, 0)
	if p, _ := o.Pool(engine.RoleAggregated); !p.Running.Known || !p.KVUsage.Known || !p.Queue.Known {
		t.Errorf("pool %+v", p)
	}
	if len(o.Problems) > 0 {
		t.Errorf("problems %q", o.Problems)
	}
	// Nothing came since: that is known, and there are no latencies of it
	// (dynamo#3131).
	o, err = e.Observe(t.Context(), end, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	known(t, "arrivals of an idle interval", o.Arrivals, 0, 0)
	if o.TTFT.Mean.Known || o.ISL.Mean.Known || o.ITL.P50.Known {
		t.Errorf("an idle interval has latencies: %+v", o)
	}
}
