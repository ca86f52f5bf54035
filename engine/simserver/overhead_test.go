package simserver

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
)

// recorded serves o and returns with the server what it has recorded so far.
func recorded(t *testing.T, o Options) (*site, func() []Record) {
	t.Helper()
	var mu sync.Mutex
	var records []Record
	o.Record = func(r Record) {
		mu.Lock()
		defer mu.Unlock()
		records = append(records, r)
	}
	return serve(t, o), func() []Record {
		mu.Lock()
		defer mu.Unlock()
		return append([]Record(nil), records...)
	}
}

// A request at an idle engine starts its first step the overhead after it
// arrived, to the picosecond, whether it was idle from the start or again.
func TestOverheadOfAnIdleEngine(t *testing.T) {
	o := testOptions()
	o.Overhead = 20*engine.Millisecond + 123
	s, records := recorded(t, o)
	for i := range 3 {
		begun := time.Now()
		if code, _ := s.post("/v1/completions", `{"prompt":[1,2,3],"max_tokens":2,"ignore_eos":true}`); code != http.StatusOK {
			t.Fatalf("status %d", code)
		}
		if d := time.Since(begun); d < o.Overhead.Duration()+2*time.Millisecond {
			t.Errorf("an answer took %v: less than the overhead and two steps", d)
		}
		r := records()[i]
		if r.Queued != r.Arrived+o.Overhead || r.First != r.Queued+engine.Millisecond || r.Last != r.First+engine.Millisecond {
			t.Errorf("%+v", r)
		}
	}
}

// A client that goes away during the overhead leaves nothing behind: its
// request is canceled as it is queued.
func TestOverheadCanceled(t *testing.T) {
	o := testOptions()
	o.Overhead = 200 * engine.Millisecond
	s, records := recorded(t, o)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	resp, err := s.client.Do(s.request(ctx, http.MethodPost, "/v1/completions", `{"prompt":[1,2,3],"max_tokens":5}`))
	if err == nil {
		_ = resp.Body.Close()
		t.Fatal("an answer before the overhead was over")
	}
	enginetest.Eventually(t, "the request is canceled", func() bool { return len(records()) == 1 })
	if r := records()[0]; !r.Canceled || r.First != 0 || r.Last != r.Queued || r.Queued != r.Arrived+o.Overhead {
		t.Errorf("%+v", r)
	}
	if code, _ := s.post("/v1/completions", `{"prompt":[1,2,3],"max_tokens":5}`); code != http.StatusOK {
		t.Errorf("afterwards: status %d", code)
	}
}

// A server told to stop during the overhead of a request finishes it.
func TestOverheadAndStop(t *testing.T) {
	o := testOptions()
	o.Overhead = 200 * engine.Millisecond
	s, records := recorded(t, o)
	var wg sync.WaitGroup
	wg.Go(func() {
		if code, _ := s.post("/v1/completions", `{"prompt":[1],"max_tokens":2,"ignore_eos":true}`); code != http.StatusOK {
			t.Errorf("status %d", code)
		}
	})
	enginetest.Eventually(t, "the request is there", func() bool { _, ok := s.server.driver.in.first(); return ok })
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if r := records(); len(r) != 1 || r[0].Canceled {
		t.Errorf("%+v", r)
	}
}

func TestRefusesOverhead(t *testing.T) {
	o := testOptions()
	o.Overhead = -1
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "overhead") {
		t.Errorf("%v", err)
	}
}
