package load

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"
)

// pacing is the beat of a paced server.
type pacing struct {
	Streams int           // it begins when so many have asked
	Chunks  int           // content chunks of each stream
	Gap     time.Duration // between the chunks of one stream
	Stepped bool          // all streams at one instant; otherwise spread evenly over the gap
	// Rest is the shortest sleep between writes; what falls due meanwhile is
	// written together. Without one the writing thread may never leave its core.
	Rest time.Duration
}

// due is when the chunk of that number is to be written, after the beginning.
func (p pacing) due(stream, chunk int) time.Duration {
	at := time.Duration(chunk+1) * p.Gap
	if !p.Stepped {
		at += p.Gap * time.Duration(stream) / time.Duration(p.Streams)
	}
	return at
}

// written is what a paced server knows of one stream: instants on its clock.
type written struct {
	Asked  time.Duration   // the request was read
	Chunks []time.Duration // just before each write
}

// pacedServer streams completions by a beat, over bare connections and from one
// thread, so that little of what a client sees is the server's own. Streams are
// told apart by the model that they ask for: a number below Streams.
type pacedServer struct {
	pacing
	clock  clock
	listen net.Listener

	mu    sync.Mutex
	conns []net.Conn // by stream
	notes []written  // by stream; whole once done is closed
	asked int
	full  chan struct{} // closed when every stream has asked
	done  chan struct{} // closed when all is written

	all sync.WaitGroup
}

// servePaced begins to listen on a port of this machine; close ends it.
func servePaced(ctx context.Context, k clock, p pacing) (*pacedServer, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening on this machine: %w", err)
	}
	s := &pacedServer{
		pacing: p, clock: k, listen: l, conns: make([]net.Conn, p.Streams), notes: make([]written, p.Streams),
		full: make(chan struct{}), done: make(chan struct{}),
	}
	for i := range s.notes {
		s.notes[i].Chunks = make([]time.Duration, 0, p.Chunks)
	}
	s.all.Go(s.accept)
	s.all.Go(func() { s.write(ctx) })
	return s, nil
}

func (s *pacedServer) url() string { return "http://" + s.listen.Addr().String() }

// close ends the server; ctx of servePaced must have ended, or all be written.
func (s *pacedServer) close() {
	_ = s.listen.Close() // its end is what is wanted
	s.mu.Lock()
	for _, c := range s.conns {
		if c != nil {
			_ = c.Close() // nothing more is written
		}
	}
	s.mu.Unlock()
	s.all.Wait()
}

func (s *pacedServer) accept() {
	for {
		c, err := s.listen.Accept()
		if err != nil {
			return
		}
		s.all.Go(func() {
			if s.begin(c) != nil {
				_ = c.Close() // whoever it was did not ask for a stream
			}
		})
	}
}

// begin reads a request and answers with a header; the rest is write's.
func (s *pacedServer) begin(c net.Conn) error {
	if err := c.SetReadDeadline(time.Now().Add(prepareTimeout)); err != nil {
		return fmt.Errorf("setting a deadline: %w", err)
	}
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return fmt.Errorf("reading a request: %w", err)
	}
	var q struct{ Model string }
	if err := json.NewDecoder(req.Body).Decode(&q); err != nil {
		return fmt.Errorf("reading a request: %w", err)
	}
	at := s.clock.now()
	i, err := strconv.Atoi(q.Model)
	if err != nil || i < 0 || i >= s.Streams {
		return fmt.Errorf("model %q is no stream below %d", q.Model, s.Streams)
	}
	if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"); err != nil {
		return fmt.Errorf("answering: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns[i] != nil {
		return errors.New("this stream was asked for before")
	}
	s.conns[i], s.notes[i].Asked = c, at
	if s.asked++; s.asked == s.Streams {
		close(s.full)
	}
	return nil
}

// pacedEvent is a chunk as vLLM sends it.
const pacedEvent = `data: {"id":"cmpl-0","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":" token","logprobs":null,"finish_reason":null,"stop_reason":null}]}` + "\n\n"

// write writes every chunk when it is due, and its instant down.
func (s *pacedServer) write(ctx context.Context) {
	defer close(s.done)
	select {
	case <-s.full:
	case <-ctx.Done():
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	event := fmt.Appendf(nil, "%x\r\n%s\r\n", len(pacedEvent), pacedEvent)
	start := s.clock.now()
	for k := range s.Chunks {
		for i, c := range s.conns {
			for left := start + s.due(i, k) - s.clock.now(); left > 0; left = start + s.due(i, k) - s.clock.now() {
				nap(max(left, s.Rest))
			}
			s.notes[i].Chunks = append(s.notes[i].Chunks, s.clock.now())
			if _, err := c.Write(event); err != nil || ctx.Err() != nil {
				return // the client is gone: its records say so
			}
		}
	}
	s.finish()
}

// finish ends every stream as an engine does.
func (s *pacedServer) finish() {
	text := fmt.Sprintf(`data: {"choices":[{"text":"","finish_reason":"length"}],"usage":{"prompt_tokens":0,"completion_tokens":%d}}`, s.Chunks) + "\n\ndata: [DONE]\n\n"
	last := fmt.Appendf(nil, "%x\r\n%s\r\n0\r\n\r\n", len(text), text)
	for _, c := range s.conns {
		_, _ = c.Write(last) // a client that is gone says so in its records
	}
}

// A paced server keeps its beat: no chunk is written before it is due.
func TestPacingIsDueInOrder(t *testing.T) {
	for _, stepped := range []bool{false, true} {
		p := pacing{Streams: 7, Chunks: 5, Gap: 10 * time.Millisecond, Stepped: stepped}
		last := time.Duration(0)
		for k := range p.Chunks {
			for i := range p.Streams {
				d := p.due(i, k)
				if d < last || d < time.Duration(k+1)*p.Gap || d >= time.Duration(k+2)*p.Gap {
					t.Errorf("stepped %v, stream %d, chunk %d: %v after %v", stepped, i, k, d, last)
				}
				last = d
			}
		}
	}
}
