package load

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"plimsoll/profile"
)

// bareServer writes chunks at known instants over bare connections, so that
// little of what is seen is the server's own. It notes, on k, the instant
// before each write. Streams are told apart by the model they ask for.
type bareServer struct {
	clock  clock
	chunks int
	gap    time.Duration

	mu    sync.Mutex
	notes map[string][]time.Duration // by model
}

func (p *bareServer) start(t testing.TB) string {
	t.Helper()
	p.notes = map[string][]time.Duration{}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { defer func() { _ = c.Close() }(); p.serve(t, c) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	return "http://" + l.Addr().String()
}

func (p *bareServer) serve(t testing.TB, c net.Conn) {
	r := bufio.NewReader(c)
	event := "data: " + vllmChunk + "\n\n"
	piece := []byte(fmt.Sprintf("%x\r\n%s\r\n", len(event), event))
	usage := fmt.Sprintf(`{"choices":[{"text":"","finish_reason":"length"}],"usage":{"prompt_tokens":0,"completion_tokens":%d}}`, p.chunks)
	last := "data: " + usage + "\n\ndata: [DONE]\n\n"
	final := []byte(fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(last), last))
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		var q query
		if json.NewDecoder(req.Body).Decode(&q) != nil {
			return
		}
		var notes []time.Duration
		_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"))
		next := p.clock.now()
		for range p.chunks {
			if p.gap > 0 {
				next += p.gap
				if p.clock.waitUntil(t.Context(), next) != nil {
					return
				}
			}
			notes = append(notes, p.clock.now())
			_, _ = c.Write(piece)
		}
		p.mu.Lock()
		p.notes[q.Model] = notes
		p.mu.Unlock()
		_, _ = c.Write(final)
	}
}

// delays is how long after its writing each chunk was seen.
func (p *bareServer) delays(t *testing.T, records []profile.Request, shift time.Duration) []time.Duration {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []time.Duration
	for i, r := range records {
		notes := p.notes[fmt.Sprint(i)]
		if r.Status != http.StatusOK || len(r.Chunks) != p.chunks || len(notes) != p.chunks {
			t.Fatalf("%d notes, record %+v", len(notes), r)
		}
		for j, chunk := range r.Chunks {
			out = append(out, chunk.At+shift-notes[j])
		}
	}
	return out
}
