package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
)

// site is a planner's HTTP side over a runner that was never run.
func site(t *testing.T, change ...func(*HandlerOptions)) (*httptest.Server, *rig, HandlerOptions) {
	t.Helper()
	g := newRig(t, []planner.Replicas{pd(1, 1)})
	o := HandlerOptions{Runners: []*Runner{g.Runner}, History: NewHistory(100), Metrics: NewMetrics()}
	for _, f := range change {
		f(&o)
	}
	s := httptest.NewServer(Handler(o))
	t.Cleanup(s.Close)
	return s, g, o
}

// call is an answer's status and body.
func call(t *testing.T, method, url, body string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
			continue
		}
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestProbes(t *testing.T) {
	s, g, _ := site(t)
	if code, _ := call(t, "GET", s.URL+"/healthz", ""); code != 200 {
		t.Errorf("/healthz is %d", code)
	}
	if code, body := call(t, "GET", s.URL+"/readyz", ""); code != 503 || !strings.Contains(body, "test is not ready: it was not looked for yet") {
		t.Errorf("/readyz before the deployment was seen: %d %s", code, body)
	}
	g.set(func(st *Status) { st.Ready, st.SeenAt = true, time.Now() })
	if code, _ := call(t, "GET", s.URL+"/readyz", ""); code != 200 {
		t.Errorf("/readyz is %d", code)
	}
	g.set(func(st *Status) { st.Problem, st.SeenAt = "refused", time.Now().Add(-time.Hour) })
	if code, body := call(t, "GET", s.URL+"/readyz", ""); code != 503 || !strings.Contains(body, "refused") {
		t.Errorf("/readyz of a deployment lost for an hour: %d %s", code, body)
	}
}

func (g *rig) readyz() string {
	w := httptest.NewRecorder()
	Handler(HandlerOptions{Runners: []*Runner{g.Runner}, Metrics: NewMetrics()}).ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
	return w.Body.String()
}

// A planner is ready once its source has answered, be it that nothing is there, and until it
// does not for two intervals; so is one that only observes.
func TestReadyWithMetrics(t *testing.T) {
	for _, advise := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, []planner.Replicas{pd(1, 1)}, func(o *Options, w *world) {
				o.Advise, w.blind = advise, errors.New("refused")
				w.later(90*time.Second, func() { w.blind = fmt.Errorf("no series: %w", planner.ErrNothingSeen) })
				w.later(130*time.Second, func() { w.blind = errors.New("gone") })
				w.later(250*time.Second, func() { w.blind = nil })
			})
			begin := time.Now()
			go g.lasts(t, 6*time.Minute)
			for _, c := range []struct {
				at    time.Duration // intervals end every minute
				ready bool          // as the API says
				want  string        // of /readyz
			}{
				{30 * time.Second, false, "test is not ready: no metrics yet: refused"},
				{95 * time.Second, true, "ok"},
				{200 * time.Second, true, "ok"},
				{245 * time.Second, true, "test: no metrics since "},
				{305 * time.Second, true, "ok"},
			} {
				time.Sleep(time.Until(begin.Add(c.at)))
				synctest.Wait()
				if body := g.readyz(); !strings.Contains(body, c.want) || g.Status().Ready != c.ready {
					t.Errorf("advice %v, after %v: ready is %v, %s", advise, c.at, g.Status().Ready, body)
				}
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			said := 0
			for _, e := range g.events {
				if strings.Contains(e.Text, "were not sampled: refused") {
					said++
				}
			}
			if said != 1 {
				t.Errorf("one reason is said %d times", said)
			}
		})
	}
}

// It is read, and nothing more: no request changes what is planned.
func TestReadOnly(t *testing.T) {
	s, g, _ := site(t)
	for _, c := range []struct {
		method, url string
		code        int
		want        string
	}{
		{"GET", s.URL + "/", 200, "<html"},
		{"GET", s.URL + "/api/v1/status", 200, `"max_gpu_budget":10`},
		{"GET", s.URL + "/api/v1/events?since=x", 400, "since is"},
		{"GET", s.URL + "/nothing", 404, ""},
		{"POST", s.URL + "/api/v1/status", 405, ""},
		{"PATCH", s.URL + "/api/v1/deployments/test", 404, ""},
	} {
		code, body := call(t, c.method, c.url, "")
		if code != c.code || !strings.Contains(body, c.want) {
			t.Errorf("%s %s: %d %s, want %d with %q", c.method, c.url, code, body, c.code, c.want)
		}
	}
	if d := g.Deployment(); d.Budget.Max != 10 {
		t.Errorf("%+v", d)
	}
}

// A foreign page must not read the planner of somebody who looks at it.
func TestForeignPages(t *testing.T) {
	s, _, _ := site(t)
	if code, _ := call(t, "GET", s.URL+"/api/v1/status", "", "Host", "evil.example"); code != 403 {
		t.Errorf("a rebound name reads it: %d", code)
	}
	if code, _ := call(t, "GET", s.URL+"/api/v1/status", "", "Host", "localhost:1"); code != 200 {
		t.Errorf("localhost is refused: %d", code)
	}
}

func TestMetrics(t *testing.T) {
	s, _, o := site(t)
	obs := planner.Observation{Length: time.Minute, Arrivals: planner.Known(120.0), TTFT: planner.Spread[time.Duration]{Mean: planner.Known(50 * time.Millisecond)}}
	obs.Pools = []planner.PoolObservation{{PoolState: planner.PoolState{Role: engine.RolePrefill, Ready: 2}}, {PoolState: planner.PoolState{Role: engine.RoleDecode, Ready: 3}}}
	o.Metrics.Add(Event{Name: "test", Kind: Decided, Observation: &obs, Decision: &planner.Decision{Want: pd(4, 5), GPUs: 9, Correction: planner.Correction{Decode: planner.Known(1.1)}}})
	_, body := call(t, "GET", s.URL+"/metrics", "")
	for _, want := range []string{
		`dynamo_planner_num_prefill_replicas{dynamo_namespace="test"} 2`,
		`dynamo_planner_num_decode_replicas{dynamo_namespace="test"} 3`,
		`dynamo_planner_predicted_num_decode_replicas{dynamo_namespace="test"} 5`,
		`dynamo_planner_observed_requests_per_second{dynamo_namespace="test"} 2`,
		`dynamo_planner_observed_ttft_ms{dynamo_namespace="test"} 50`,
		`dynamo_planner_sla_target_ttft_ms{dynamo_namespace="test"} 1000`,
		`dynamo_planner_gpu_hours{dynamo_namespace="test"} 0`,
		`plimsoll_planner_decode_correction_ratio{dynamo_namespace="test"} 1.1`,
		`plimsoll_planner_gpus_wanted{dynamo_namespace="test"} 9`,
		`plimsoll_planner_events_total{dynamo_namespace="test",kind="decision"} 1`,
	} {
		if !strings.Contains(body, want+"\n") {
			t.Errorf("%q is not in\n%s", want, body)
		}
	}
	for _, missing := range []string{"observed_itl_ms", "prefill_correction", "predicted_requests_per_second", "aggregated_replicas"} {
		if strings.Contains(body, missing) {
			t.Errorf("%s is shown, which nobody measured", missing)
		}
	}
}

func TestHistory(t *testing.T) {
	h := NewHistory(3)
	for i := range 5 {
		h.Add(Event{Text: string(rune('a' + i))})
	}
	for _, c := range []struct {
		since uint64
		want  string
	}{{0, "cde"}, {3, "de"}, {5, ""}, {99, ""}} {
		events, next := h.Since(c.since)
		text := ""
		for _, e := range events {
			text += e.Text
		}
		if text != c.want || next != 5 {
			t.Errorf("since %d: %q, next %d; want %q", c.since, text, next, c.want)
		}
	}
}

func TestEvents(t *testing.T) {
	s, _, o := site(t)
	o.History.Add(Event{Name: "test", Kind: Warned, Text: "one"})
	_, body := call(t, "GET", s.URL+"/api/v1/events", "")
	var got struct {
		Events []Event `json:"events"`
		Next   uint64  `json:"next"`
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil || len(got.Events) != 1 || got.Next != 1 || got.Events[0].Text != "one" {
		t.Errorf("%v, %s", err, body)
	}
	if _, body := call(t, "GET", s.URL+"/api/v1/events?since=1", ""); !strings.Contains(body, `"events":[]`) {
		t.Errorf("%s", body)
	}
}
