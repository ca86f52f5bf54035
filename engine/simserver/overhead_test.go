package simserver

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"plimsoll/engine"
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

// While a request waits for its instant, another comes in whole that arrived
// before it: it is the first to be queued, at its own instant. A machine that is
// too busy to send both in time does not show that, so that it may try again.
func TestOverheadKeepsTheOrderOfArrival(t *testing.T) {
	const runs = 10
	for range runs {
		if got, inTime := overtaken(t); inTime {
			if len(got) != 2 || got[0].Request.PromptTokens != 3 {
				t.Fatalf("%+v", got)
			}
			for _, r := range got {
				if r.Queued != r.Arrived+400*engine.Millisecond {
					t.Errorf("queued %v after its arrival: %+v", (r.Queued - r.Arrived).Duration(), r)
				}
			}
			return
		}
	}
	t.Fatalf("none of %d times were both requests sent within the overhead", runs)
}

// overtaken sends a request of three tokens but for its last byte, one of four
// tokens, and that byte. It reports whether the byte was there before any
// request was due.
func overtaken(t *testing.T) (records []Record, inTime bool) {
	t.Helper()
	o := testOptions()
	o.Timer = stepTimer{step: time.Millisecond, promptToken: time.Microsecond}
	o.Overhead = 400 * engine.Millisecond
	s, recorded := recorded(t, o)
	begun := time.Now()
	send, read := slowRequest(t, s, `{"prompt":[1,2,3],"max_tokens":1,"ignore_eos":true}`)
	var wg sync.WaitGroup
	wg.Go(func() { s.post("/v1/completions", `{"prompt":[4,5,6,7],"max_tokens":1,"ignore_eos":true}`) })
	eventually(t, "the second request is there", func() bool { _, ok := s.server.driver.in.first(); return ok || len(recorded()) > 0 })
	send()
	eventually(t, "so is the first one", func() bool { return s.server.driver.in.length() != 1 || len(recorded()) > 0 })
	inTime = time.Since(begun) < o.Overhead.Duration()
	read()
	wg.Wait()
	return recorded(), inTime
}

// length is how many requests wait for their instant.
func (b *inbox) length() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.added)
}

// slowRequest sends a request but for its last byte, and waits until the
// server has begun to read it; what it returns sends that byte, and reads the
// answer.
func slowRequest(t *testing.T, s *site, body string) (finish, read func()) {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // it was read to its end
	// The server says "100 Continue" when the handler begins to read the body.
	_, err = fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: test\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", len(body))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))); err != nil {
		t.Fatal(err)
	}
	send := func(b string) {
		if _, err := io.WriteString(c, b); err != nil {
			t.Error(err)
		}
	}
	send(body[:len(body)-1])
	return func() { send(body[len(body)-1:]) }, func() {
		if answer, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200 ") {
			t.Errorf("%q, %v", answer, err)
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
	eventually(t, "the request is canceled", func() bool { return len(records()) == 1 })
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
	eventually(t, "the request is there", func() bool { _, ok := s.server.driver.in.first(); return ok })
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
