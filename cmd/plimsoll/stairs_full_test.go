//go:build full

package main

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"plimsoll/engine/enginetest"
	"plimsoll/profile"
	"plimsoll/profile/load"
	"plimsoll/sweep"
)

// inStep reports whether records of n streams hold n's step time, not that of one
// stream more or less. The race detector makes client and engine too slow for that.
func inStep(rs []profile.Request, w profile.Window, n int) bool {
	d := profile.Summarize(rs, w).ITL.P50 - step(n)
	return raceDetector || max(d, -d) < 2500*time.Microsecond
}

func steppedMeasurer(t *testing.T, url string) measurer {
	t.Helper()
	client, err := load.New(load.Options{BaseURL: url, Model: "m", TokenIDs: true})
	if err != nil {
		t.Fatal(err)
	}
	return measurer{client: client, http: http.DefaultClient, url: url + "/metrics", bases: make(chan time.Time, 1)}
}

func steppedStairs(t *testing.T, m measurer, osl int) *stairs {
	t.Helper()
	s, err := m.climb(t.Context(), profile.Workload{ISL: 64, OSL: osl, InFlight: 16, Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	st, _ := s.(*stairs)
	t.Cleanup(func() { _ = st.Close(context.Background()) }) // a test that looks at it closes before
	return st
}

// checkLevel wants a level that counts: n records cut to the window, the engine's
// own count always n, and its step time between tokens, at the sixth try where
// the machine is too busy for the engine or to ask it.
func checkLevel(t *testing.T, s sweep.Stairs, n, tokens int) (m sweep.Measurement) {
	t.Helper()
	for range 6 {
		m = levelOf(t, s, n, tokens)
		if m.Void == "" && len(m.Running) == 0 {
			continue // the engine was not asked in time
		}
		checkRecords(t, m, n, tokens)
		if t.Failed() || inStep(m.Requests, m.Window, n) {
			return m
		}
	}
	checkRecords(t, m, n, tokens)
	if !t.Failed() {
		t.Errorf("%d streams: median ITL %v, a step takes %v", n, profile.Summarize(m.Requests, m.Window).ITL.P50, step(n))
	}
	return m
}

func checkRecords(t *testing.T, m sweep.Measurement, n, tokens int) {
	t.Helper()
	if m.Void != "" || len(m.Requests) != n || m.Window.Length() <= 0 || len(m.Running) == 0 {
		t.Fatalf("%d streams: void %q, %d records in %v, %d counts", n, m.Void, len(m.Requests), m.Window, len(m.Running))
	}
	for _, c := range m.Running {
		if c.N != float64(n) || c.Waiting != 0 || math.IsNaN(c.Preempted) {
			t.Errorf("%d streams: the engine said %+v", n, c)
		}
	}
	for _, r := range m.Requests {
		k := len(r.Chunks)
		if k < tokens || !r.OK() || r.End != 0 || r.OutputTokens != r.Before+k || r.Before < 1 || r.Sent == 0 || r.First <= r.Sent || r.First > m.Window.From {
			t.Errorf("%d streams, %d tokens: %d chunks, %+v", n, tokens, k, r)
		} else if r.Chunks[0].At < m.Window.From || r.Chunks[k-1].At > m.Window.To || r.Last != r.Chunks[k-1].At {
			t.Errorf("%d streams: chunks from %v to %v in %v", n, r.Chunks[0].At, r.Last, m.Window)
		}
	}
}

// stairsTests are of streams that are ended and begun between levels.
func stairsTests() map[string]func(*testing.T) {
	return map[string]func(*testing.T){
		"up and down":    stairsUpAndDown,
		"grown":          stairsGrown,
		"preempted":      stairsPreempted,
		"not taken in":   stairsNotTakenIn,
		"engine dies":    stairsEngineDies,
		"aborts ignored": stairsAbortsIgnored,
		"foreign load":   stairsForeignLoad,
		"without counts": stairsWithoutCounts,
		"canceled":       stairsCanceled,
		"never idle":     stairsNeverIdle,
	}
}

// Up, down, the same again, and up once more: each level is what the classical
// measurement of as many requests in flight gives.
func stairsUpAndDown(t *testing.T) {
	url, _ := steppedEngine(t, steppedConfig())
	m := steppedMeasurer(t, url)
	s := steppedStairs(t, m, 400)
	before := map[int]int{}
	for _, n := range []int{2, 8, 4, 4, 6} {
		got := checkLevel(t, s, n, 20)
		for _, r := range got.Requests {
			if r.Before <= before[r.Index] {
				t.Errorf("stream %d had %d tokens before a window, and %d before the next", r.Index, before[r.Index], r.Before)
			}
			before[r.Index] = r.Before
		}
		if n == 6 {
			if last := got.Requests[5].Index; last != 9 { // 0 to 7 were sent for the second level
				t.Errorf("the last of 6 streams is number %d", last)
			}
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{4, 8} {
		w := profile.Workload{ISL: 64, OSL: 30, Requests: n, InFlight: n, SharedPrompts: true, Timeout: time.Minute}
		warm := w
		warm.OSL, warm.Warmup = 1, true
		if _, err := m.Measure(t.Context(), warm); err != nil {
			t.Fatal(err)
		}
		classical(t, m, w)
	}
}

// classical wants the step time of a load of its own, at the sixth try where the
// machine is too busy for the engine.
func classical(t *testing.T, m measurer, w profile.Workload) {
	t.Helper()
	var median time.Duration
	for range 6 {
		got, err := m.Measure(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		steady, ok := profile.Steady(got.Requests)
		if ok && inStep(got.Requests, steady, w.InFlight) {
			return
		}
		median = profile.Summarize(got.Requests, steady).ITL.P50
	}
	t.Errorf("%d in flight: median ITL %v by the classical way, a step takes %v", w.InFlight, median, step(w.InFlight))
}

// Streams without tokens for another level are refused before anything is
// measured; new ones go on.
func stairsGrown(t *testing.T) {
	const lasts = 300 // tokens: a busy machine takes a level again
	url, _ := steppedEngine(t, steppedConfig())
	s := steppedStairs(t, steppedMeasurer(t, url), lasts)
	checkLevel(t, s, 3, 20)
	if m, err := s.Level(t.Context(), 3, lasts-20); !errors.Is(err, profile.ErrGrown) || len(m.Requests) > 0 {
		t.Errorf("%v with %d records", err, len(m.Requests))
	}
	if _, err := s.Level(t.Context(), 3, lasts); err == nil || errors.Is(err, profile.ErrGrown) {
		t.Errorf("a level that no new streams could give either: %v", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	checkLevel(t, steppedStairs(t, steppedMeasurer(t, url), lasts), 3, 20)
}

// Contexts outgrow a small KV cache: the engine's own counter voids the level.
func stairsPreempted(t *testing.T) {
	c := steppedConfig()
	c.KVBlocks = 26 // four streams of 64 tokens may grow by 40
	url, _ := steppedEngine(t, c)
	s := steppedStairs(t, steppedMeasurer(t, url), 300)
	checkLevel(t, s, 4, 5)
	if m := levelOf(t, s, 4, 100); !strings.Contains(m.Void, "preemption") {
		t.Errorf("void %q", m.Void)
	}
	if m := levelOf(t, s, 2, 5); m.Void != "" {
		t.Errorf("two streams have room: %q", m.Void)
	}
}

// The engine has places for three: it says so, and three are measured.
func stairsNotTakenIn(t *testing.T) {
	c := steppedConfig()
	c.Limits.MaxNumSeqs = 3
	url, _ := steppedEngine(t, c)
	s := steppedStairs(t, steppedMeasurer(t, url), 3000)
	if m := levelOf(t, s, 5, 10); !strings.HasPrefix(m.Void, "the engine runs 3 of 5: 2 wait") || len(m.Requests) > 0 {
		t.Errorf("void %q, %d records", m.Void, len(m.Requests))
	}
	checkLevel(t, s, 3, 10)
}

// An engine that dies is an error where it is known to have ended; of somebody's
// server the streams break, and the next level finds nobody.
func stairsEngineDies(t *testing.T) {
	for _, ours := range []bool{true, false} {
		url, kill := steppedEngine(t, steppedConfig())
		m := steppedMeasurer(t, url)
		ended := make(chan struct{})
		if ours {
			m.ended = ended
		}
		s := steppedStairs(t, m, 3000)
		checkLevel(t, s, 2, 5)
		go func() {
			time.Sleep(50 * time.Millisecond) // in the midst of the level
			kill()
			close(ended)
		}()
		got, err := s.Level(t.Context(), 2, 2000)
		if ours {
			if err == nil || !strings.HasPrefix(err.Error(), "the engine ended: ") {
				t.Errorf("%v, void %q", err, got.Void)
			}
			continue
		}
		// Its running count may be asked for before a stream is seen to end.
		if err != nil && !strings.Contains(err.Error(), "connection refused") || err == nil && !strings.Contains(got.Void, "a stream ended") {
			t.Errorf("%v, void %q", err, got.Void)
		}
		<-ended
		enginetest.Eventually(t, "an error of the server that is gone", func() bool {
			_, err := s.Level(t.Context(), 2, 5) // void while a broken stream is yet to be noticed
			return errors.Is(err, load.ErrUnreachable)
		})
	}
}

// deafTo is a front that reads a stream to its end, though its client is gone.
func deafTo(t *testing.T, url string) string {
	t.Helper()
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a client that goes away here asks for nothing
		req, err := http.NewRequestWithContext(context.WithoutCancel(r.Context()), r.Method, url+r.URL.Path, strings.NewReader(string(body)))
		if err != nil {
			return
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return
		}
		defer func() { _ = resp.Body.Close() }()
		w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
		w.WriteHeader(resp.StatusCode)
		buf := make([]byte, 4096)
		for {
			n, err := resp.Body.Read(buf)
			_, _ = w.Write(buf[:n])
			_ = http.NewResponseController(w).Flush()
			if err != nil {
				return
			}
		}
	}))
	t.Cleanup(front.Close)
	return front.URL
}

// A server that goes on with what was canceled runs more than the level: no
// window is opened there, and Close says that it is not idle.
func stairsAbortsIgnored(t *testing.T) {
	url, _ := steppedEngine(t, steppedConfig())
	s := steppedStairs(t, steppedMeasurer(t, deafTo(t, url)), 200)
	s.patience = 300 * time.Millisecond
	checkLevel(t, s, 4, 20)
	if m := levelOf(t, s, 2, 5); !strings.HasPrefix(m.Void, "the engine runs 4 of 2: 0 wait") || len(m.Requests) > 0 {
		t.Errorf("void %q, %d records", m.Void, len(m.Requests))
	}
}

// Somebody else's requests beside the streams void a level too.
func stairsForeignLoad(t *testing.T) {
	url, _ := steppedEngine(t, steppedConfig())
	s, other := steppedStairs(t, steppedMeasurer(t, url), 3000), steppedStairs(t, steppedMeasurer(t, url), 3000)
	go func() {
		time.Sleep(200 * time.Millisecond)
		_, _ = other.Level(t.Context(), 1, 10) // it only disturbs
	}()
	if m := levelOf(t, s, 2, 60); m.Void != "the engine ran 3 of 2" {
		t.Errorf("void %q", m.Void)
	}
}

// An engine without metrics is measured once its streams have settled; nobody
// knows then what it ran.
func stairsWithoutCounts(t *testing.T) {
	url, _ := steppedEngine(t, steppedConfig())
	m := steppedMeasurer(t, url)
	m.url = ""
	s := steppedStairs(t, m, 400)
	for _, n := range []int{4, 2} {
		got := levelOf(t, s, n, 20)
		for tries := 1; tries < 6 && !inStep(got.Requests, got.Window, n); tries++ {
			got = levelOf(t, s, n, 20)
		}
		if len(got.Running) > 0 || got.Void != "" || !inStep(got.Requests, got.Window, n) {
			t.Errorf("%d streams: %d counts, void %q, %v", n, len(got.Running), got.Void, profile.Summarize(got.Requests, got.Window).ITL)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A level ends with its context, and the engine is idle after Close.
func stairsCanceled(t *testing.T) {
	url, _ := steppedEngine(t, steppedConfig())
	m := steppedMeasurer(t, url)
	s := steppedStairs(t, m, 3000)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := s.Level(ctx, 3, 2000); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := levelOf(t, steppedStairs(t, m, 100), 1, 10); got.Void != "" {
		t.Errorf("after Close: %q", got.Void)
	}
}

// Somebody else's requests go on after Close: an endpoint may have those, an engine of ours
// has dropped all.
func stairsNeverIdle(t *testing.T) {
	url, _ := steppedEngine(t, steppedConfig())
	levelOf(t, steppedStairs(t, steppedMeasurer(t, url), 3000), 1, 5)
	for _, ours := range []bool{true, false} {
		m := steppedMeasurer(t, url)
		if ours {
			m.ended = make(chan struct{})
		}
		s := steppedStairs(t, m, 3000)
		s.patience = 50 * time.Millisecond
		if err := s.Close(t.Context()); (err != nil) != ours {
			t.Errorf("ours: %v: %v", ours, err)
		}
	}
}
