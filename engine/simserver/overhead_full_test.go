//go:build full

package simserver

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
)

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
	enginetest.Eventually(t, "the second request is there", func() bool { _, ok := s.server.driver.in.first(); return ok || len(recorded()) > 0 })
	send()
	enginetest.Eventually(t, "so is the first one", func() bool { return s.server.driver.in.length() != 1 || len(recorded()) > 0 })
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
	_, err = fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", len(body))
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
