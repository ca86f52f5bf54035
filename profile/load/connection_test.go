package load

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"plimsoll/profile"
)

func TestUnreachableServerIsAConnectFailure(t *testing.T) {
	s := (&fake{}).start(t)
	s.Close()
	rs := measure(t, client(t, Options{BaseURL: s.URL}), closed(4, 2))
	for _, r := range rs {
		if ordered(t, r); r.Failure != profile.FailConnect || r.Sent != 0 || r.Status != 0 || r.Error == "" {
			t.Errorf("record %+v", r)
		}
	}
}

// raw serves each connection by do, which is given its number.
func raw(t *testing.T, do func(c net.Conn, r *bufio.Reader, n int)) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer func() { _ = c.Close() }()
				do(c, bufio.NewReader(c), n)
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	return "http://" + l.Addr().String()
}

// takeRequest reads one request whole.
func takeRequest(r *bufio.Reader) bool {
	req, err := http.ReadRequest(r)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, req.Body)
	return err == nil
}

func giveAnswer(w io.Writer) {
	body := "data: " + token + "\n\ndata: " + tail + "\n\ndata: [DONE]\n\n"
	sayf(w, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body)
}

// known is a client that needs to ask nothing.
func known(t *testing.T, url string) *Client {
	return client(t, Options{BaseURL: url, Model: "m", TokenIDs: true})
}

// Components' trap 1: llama-server closes a connection that it promised to
// keep. Here it does so with the next request already sent: the worst case.
func TestConnectionClosedDespiteKeepAliveIsSentAgain(t *testing.T) {
	var served, dropped atomic.Int64
	url := raw(t, func(c net.Conn, r *bufio.Reader, _ int) {
		if takeRequest(r) {
			served.Add(1)
			giveAnswer(c)
		}
		if takeRequest(r) {
			dropped.Add(1)
		}
	})
	for _, r := range measure(t, known(t, url), closed(20, 2)) {
		if ordered(t, r); !r.OK() {
			t.Errorf("record %+v", r)
		}
	}
	if served.Load() != 20 || dropped.Load() == 0 {
		t.Errorf("%d served, %d dropped; want 20 and some", served.Load(), dropped.Load())
	}
}

// The same at once after the answer, so that the client may or may not notice.
func TestConnectionClosedAfterEachAnswerIsNoFailure(t *testing.T) {
	url := raw(t, func(c net.Conn, r *bufio.Reader, _ int) {
		if takeRequest(r) {
			giveAnswer(c)
		}
	})
	for _, r := range measure(t, known(t, url), closed(300, 6)) {
		if ordered(t, r); !r.OK() {
			t.Fatalf("record %+v", r)
		}
	}
}

func TestARequestIsSentAgainOnlyOnce(t *testing.T) {
	var requests atomic.Int64
	url := raw(t, func(_ net.Conn, r *bufio.Reader, _ int) {
		if takeRequest(r) {
			requests.Add(1)
		}
	})
	r := measure(t, known(t, url), closed(1, 1))[0]
	if r.Failure != profile.FailConnect || r.Sent == 0 || requests.Load() != 2 {
		t.Errorf("%d sends, record %+v", requests.Load(), r)
	}
}

func TestARequestIsNeverSentAgainAfterAFirstByte(t *testing.T) {
	var requests atomic.Int64
	url := raw(t, func(c net.Conn, r *bufio.Reader, _ int) {
		if takeRequest(r) {
			requests.Add(1)
			say(c, "HTTP/1.1 2")
		}
	})
	r := measure(t, known(t, url), closed(1, 1))[0]
	if r.Failure != profile.FailMalformed || requests.Load() != 1 {
		t.Errorf("%d sends, record %+v", requests.Load(), r)
	}
}

func TestAnswersThatAreNotHTTPAreMalformed(t *testing.T) {
	url := raw(t, func(c net.Conn, r *bufio.Reader, _ int) {
		takeRequest(r)
		say(c, "220 mail.example.com ESMTP\r\n")
	})
	if r := measure(t, known(t, url), closed(1, 1))[0]; r.Failure != profile.FailMalformed {
		t.Errorf("record %+v", r)
	}
}

// A server that answers before it has read the request must not make the
// answer come before the question.
func TestAnswerBeforeTheQuestionKeepsTheOrder(t *testing.T) {
	url := raw(t, func(c net.Conn, r *bufio.Reader, _ int) {
		if _, err := r.Peek(1); err == nil {
			giveAnswer(c)
			takeRequest(r)
		}
	})
	w := closed(20, 1)
	w.ISL = 20_000
	for _, r := range measure(t, known(t, url), w) {
		ordered(t, r)
		if r.Status != 200 {
			t.Errorf("record %+v", r)
		}
	}
}
