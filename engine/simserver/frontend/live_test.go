package frontend

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/planner/observe"
)

// Workers come, drain and go while requests run: every request is answered whole.
func TestNoRequestIsDroppedWhileWorkersComeAndGo(t *testing.T) {
	for name, roles := range map[string][]engine.Role{
		"aggregated": {engine.RoleAggregated},
		"apart":      {engine.RolePrefill, engine.RoleDecode},
	} {
		t.Run(name, func(t *testing.T) {
			var now []worker
			number := 0
			start := func() {
				for _, r := range roles {
					number++
					now = append(now, engineAt(t, fmt.Sprintf("w%d", number), r, quick))
				}
			}
			start()
			s := serve(t, Options{}, now...)
			ctx, cancel := context.WithCancel(t.Context())
			var clients sync.WaitGroup
			var sent, well atomic.Int64
			for range 8 {
				clients.Go(func() {
					for ctx.Err() == nil {
						a := s.post(t.Context(), "/v1/completions", ask("a b c", 40, sent.Add(1)%3 > 0))
						if got := read(t, a.body); a.status != http.StatusOK || a.err != nil || got.osl != 40 || got.finish != "length" || len(strings.Fields(got.text)) != 40 {
							t.Errorf("status %d, %v, %+v", a.status, a.err, got)
							return
						}
						well.Add(1)
					}
				})
			}
			more := func() {
				from := well.Load()
				enginetest.Eventually(t, "requests are answered", func() bool { return t.Failed() || well.Load() >= from+10 })
			}
			set := func() {
				list := make([]Worker, len(now))
				for i, w := range now {
					list[i] = w.Worker
				}
				s.front.SetWorkers(list)
			}
			for range 5 {
				old := now
				now = nil
				start()
				now = append(now, old...) // the new ones beside them
				set()
				more()
				for i := range now[len(roles):] {
					now[len(roles)+i].State = Draining
				}
				set()
				more()
				now = now[:len(roles)]
				set()
				for _, w := range old {
					if err := w.stop(); err != nil { // as TERM does it
						t.Error(err)
					}
				}
			}
			cancel()
			clients.Wait()
			if got, want := s.metric("dynamo_frontend_requests_total", `status="success"`), sent.Load(); got != float64(want) || want < 100 {
				t.Errorf("%v requests ended well of %d", got, want)
			}
			if got := s.metric("dynamo_frontend_inflight_requests") + s.metric("dynamo_frontend_queued_requests") + s.metric("plimsoll_frontend_worker_inflight_requests"); got != 0 {
				t.Errorf("%v requests are still in flight", got)
			}
		})
	}
}

// Workers that died, and that the list still has, cost no request: not one that
// tries more of them than may fail a request that they took.
func TestDeadWorkersArePassedOver(t *testing.T) {
	var workers []worker
	for i := range 2 * maxTries {
		dead := engineAt(t, fmt.Sprintf("dead%d", i), engine.RoleAggregated, quick)
		if err := dead.stop(); err != nil {
			t.Fatal(err)
		}
		workers = append(workers, dead)
	}
	s := serve(t, Options{}, append(workers, engineAt(t, "alive", engine.RoleAggregated, quick))...)
	for range 20 {
		if a := s.post(t.Context(), "/v1/completions", ask("a", 2, true)); a.status != http.StatusOK || a.err != nil {
			t.Fatalf("status %d, %v: %s", a.status, a.err, a.body)
		}
	}
	if got := s.metric("plimsoll_frontend_retries_total"); got < 2*maxTries || got > 60 {
		t.Errorf("%v tries at dead workers", got)
	}
}

// No worker at all: a request waits its time, and is told when to come again.
func TestNoWorkerInTime(t *testing.T) {
	s := serve(t, Options{QueueTimeout: 50 * time.Millisecond, MaxQueue: 1})
	a := s.post(t.Context(), "/v1/completions", ask("a", 2, true))
	if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" || a.took < 50*time.Millisecond {
		t.Errorf("status %d after %v, %v", a.status, a.took, a.header)
	}
	if got := s.metric("dynamo_frontend_requests_total", `error_type="unavailable"`, `status="error"`); got != 1 {
		t.Errorf("%v counted", got)
	}
}

func TestFullQueue(t *testing.T) {
	s := serve(t, Options{MaxQueue: 1})
	waits := make(chan answered, 1)
	go func() { waits <- s.post(t.Context(), "/v1/completions", ask("a", 2, false)) }()
	enginetest.Eventually(t, "one waits", func() bool { return s.metric("plimsoll_frontend_waiting_requests") == 1 })
	if a := s.post(t.Context(), "/v1/completions", ask("a", 2, true)); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		t.Errorf("status %d, %v", a.status, a.header)
	}
	if got := s.metric("dynamo_frontend_model_rejection_total"); got != 1 {
		t.Errorf("%v rejected", got)
	}
	s.front.SetWorkers([]Worker{engineAt(t, "a", engine.RoleAggregated, quick).Worker})
	if a := <-waits; a.status != http.StatusOK {
		t.Errorf("the one that waited: status %d: %s", a.status, a.body)
	}
}

// A client that goes away frees the engine, wherever its request is.
func TestClientThatLeavesFreesTheEngine(t *testing.T) {
	slow := stepTimer{step: 2 * time.Millisecond, promptToken: 2 * time.Millisecond}
	p, d := engineAt(t, "p", engine.RolePrefill, slow), engineAt(t, "d", engine.RoleDecode, slow)
	s := serve(t, Options{}, p, d)
	at := func(w worker) *site { return &site{t: t, url: w.URL, client: s.client} }
	aborted := func(w worker) bool {
		return at(w).metric("vllm:request_success_total", `finished_reason="abort"`) == 1 && at(w).metric("vllm:num_requests_running") == 0
	}
	for _, c := range []struct {
		body string
		at   worker
	}{
		{ask(strings.Repeat("a ", 1000), 5000, true), p},
		{ask("a", 5000, true), d},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan answered, 1)
		go func() { gone <- s.post(ctx, "/v1/completions", c.body) }()
		enginetest.Eventually(t, "the request is at "+c.at.Name, func() bool { return at(c.at).metric("vllm:num_requests_running") == 1 })
		cancel()
		if a := <-gone; a.err == nil {
			t.Errorf("%s: %+v", c.at.Name, a)
		}
		enginetest.Eventually(t, c.at.Name+" is free", func() bool { return aborted(c.at) })
	}
	enginetest.Eventually(t, "both are counted", func() bool {
		return s.metric("dynamo_frontend_requests_total", `error_type="cancelled"`) == 2 && s.metric("dynamo_frontend_inflight_requests") == 0
	})
	if got := s.metric("dynamo_frontend_disconnected_clients"); got != 2 {
		t.Errorf("%v clients went away", got)
	}
}

// What the metrics say is what the client measured.
func TestMetricsAgreeWithTheClient(t *testing.T) {
	timer := stepTimer{step: 5 * time.Millisecond, promptToken: time.Millisecond}
	s := serve(t, Options{Namespace: "ns-1"}, engineAt(t, "p", engine.RolePrefill, timer), engineAt(t, "d", engine.RoleDecode, timer))
	var ttft, took, itl float64
	const n, isl, osl = 6, 20, 15
	var mu sync.Mutex
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			a := s.post(t.Context(), "/v1/completions", ask(strings.TrimSpace(strings.Repeat("w ", isl)), osl, true))
			mu.Lock()
			defer mu.Unlock()
			ttft, took, itl = ttft+a.ttft.Seconds(), took+a.took.Seconds(), itl+(a.took-a.ttft).Seconds()
		})
	}
	all.Wait()
	_, text := s.get("/metrics")
	const p = "dynamo_frontend_"
	for name, want := range map[string]float64{
		"requests_started_total": n, "requests_total": n, "output_tokens_total": n * osl,
		"input_sequence_tokens_count": n, "input_sequence_tokens_sum": n * isl,
		"output_sequence_tokens_count": n, "output_sequence_tokens_sum": n * osl,
		"time_to_first_token_seconds_count": n, "inter_token_latency_seconds_count": n * (osl - 1), "request_duration_seconds_count": n,
	} {
		if got := sum(t, text, p+name, `dynamo_namespace="ns-1"`, `model="test/model"`); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	// The client's clock starts before the frontend's and ends after it.
	for name, client := range map[string]float64{"time_to_first_token_seconds_sum": ttft, "request_duration_seconds_sum": took, "inter_token_latency_seconds_sum": itl} {
		if got := sum(t, text, p+name); got > client+0.02*n || got < client-0.1*n {
			t.Errorf("%s is %v s, the client saw %v s", name, got, client)
		}
	}
	if got := sum(t, text, "plimsoll_frontend_simulated_requests_total"); got != n {
		t.Errorf("%v simulated", got)
	}
	if min := float64(isl) * 0.001 * n; ttft < min {
		t.Errorf("TTFT %v s in all, prefill alone takes %v", ttft, min)
	}
}

// Every name that the planner reads of a Dynamo frontend is there.
func TestMetricsHaveTheNamesThatThePlannerReads(t *testing.T) {
	s := serve(t, Options{}, engineAt(t, "a", engine.RoleAggregated, quick))
	s.post(t.Context(), "/v1/completions", ask("a", 3, true))
	_, text := s.get("/metrics")
	names := observe.Presets("dynamo")[0]
	label := fmt.Sprintf(`%s="dynamo"`, names.Namespace)
	for _, list := range [][]string{names.Started, names.Finished, names.OutputTokens, names.Running, names.Waiting} {
		for _, name := range list {
			if !strings.Contains(text, "\n"+name+"{") || !strings.Contains(text, label) || !strings.Contains(text, names.Model+`="test/model"`) {
				t.Errorf("no %s", name)
			}
		}
	}
	for _, list := range [][]string{names.ISL, names.OSL, names.TTFT, names.ITL, names.E2E} {
		for _, name := range list {
			if sum(t, text, name+"_count") == 0 {
				t.Errorf("no %s", name)
			}
		}
	}
}

// Buckets rise, and reach beyond the longest context.
func TestBuckets(t *testing.T) {
	for _, bounds := range [][]float64{tokenBounds(), rising(0.001, 1000, 5), rising(0.0005, 10, 10)} {
		last := math.Inf(-1)
		for _, b := range bounds {
			if b <= last {
				t.Errorf("%v after %v", b, last)
			}
			last = b
		}
	}
	if b := tokenBounds(); b[0] != 1 || b[len(b)-1] != 10e6 {
		t.Errorf("from %v to %v", b[0], b[len(b)-1])
	}
}

// Clients choose what the label model says; they cannot make it grow for ever.
func TestModelsInMetricsAreBounded(t *testing.T) {
	s := serve(t, Options{}, engineAt(t, "a", engine.RoleAggregated, quick))
	for i := range 3 * mostModels {
		s.post(t.Context(), "/v1/completions", fmt.Sprintf(`{"model":"m%d","prompt":"a"}`, i))
	}
	_, text := s.get("/metrics")
	if got := strings.Count(text, "dynamo_frontend_inflight_requests{"); got != mostModels+1 {
		t.Errorf("%d models, want %d", got, mostModels+1)
	}
}

// TERM: requests in flight are finished, those that wait too.
func TestStopFinishesWhatIsInFlight(t *testing.T) {
	goesOn := make(chan struct{})
	p := handled(t, "p", engine.RolePrefill, func(w http.ResponseWriter, _ *http.Request) { <-goesOn; _, _ = io.WriteString(w, "{}") })
	s := serve(t, Options{}, p, engineAt(t, "d", engine.RoleDecode, quick))
	got := make(chan answered, 3)
	for range 3 {
		go func() { got <- s.post(t.Context(), "/v1/completions", ask("a", 30, true)) }()
	}
	enginetest.Eventually(t, "two wait", func() bool { return s.metric("plimsoll_frontend_prefill_queue") == 2 })
	stopped := make(chan error, 1)
	go func() { stopped <- s.stop() }()
	close(goesOn)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	for range 3 {
		if a := <-got; a.status != http.StatusOK || a.err != nil || read(t, a.body).osl != 30 {
			t.Errorf("status %d, %v", a.status, a.err)
		}
	}
}

// The body that goes on is the client's but for what must be changed.
func TestBodiesKeepWhatTheyHold(t *testing.T) {
	const body = `{"model":"m","prompt":[1,2,3],"temperature":0.25,"seed":12345678901234567890,"extra":{"a":[1.0,null]},"min_tokens":5,"max_tokens":9,"stream":true}`
	q, err := parseQuery([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	prefill, err := q.prefill()
	if err != nil {
		t.Fatal(err)
	}
	decode, err := q.counted(map[string]any{"kv_transfer_params": json.RawMessage(`{"remote_block_ids":[1,2]}`)})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range []string{string(prefill), string(decode)} {
		for _, want := range []string{`"seed":12345678901234567890`, `"extra":{"a":[1.0,null]}`, `"temperature":0.25`, `"prompt":[1,2,3]`} {
			if !strings.Contains(b, want) {
				t.Errorf("%s lacks %s", b, want)
			}
		}
	}
	if b := string(prefill); !strings.Contains(b, `"max_tokens":1`) || strings.Contains(b, "min_tokens") || !strings.Contains(b, `"stream":false`) {
		t.Errorf("%s", b)
	}
	if b := string(decode); !strings.Contains(b, `"max_tokens":9`) || !strings.Contains(b, `"min_tokens":5`) || !strings.Contains(b, `"include_usage":true`) || !strings.Contains(b, `{"remote_block_ids":[1,2]}`) {
		t.Errorf("%s", b)
	}
}
