package load

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"plimsoll/profile"
)

// answer makes a server that answers every streamed request by do.
func answer(do func(w http.ResponseWriter, r *http.Request, q query)) *fake {
	return &fake{handle: func(w http.ResponseWriter, r *http.Request, q query) bool {
		if q.Stream {
			do(w, r, q)
		}
		return q.Stream
	}}
}

// one sends one request and gives its record.
func one(t *testing.T, f *fake, o Options, change ...func(*profile.Workload)) profile.Request {
	t.Helper()
	o.BaseURL = f.start(t).URL
	w := closed(1, 1)
	for _, c := range change {
		c(&w)
	}
	r := measure(t, client(t, o), w)[0]
	ordered(t, r)
	return r
}

const (
	tail  = `{"choices":[{"text":"","finish_reason":"length"}],"usage":{"prompt_tokens":32,"completion_tokens":8}}`
	token = `{"choices":[{"text":"x"}]}`
)

func end(w io.Writer) { say(w, "data: "+tail+"\n\ndata: [DONE]\n\n") }

// Fault 2: a chunk is not a token.
func TestFault02ChunkIsNotToken(t *testing.T) {
	r := one(t, answer(func(w http.ResponseWriter, _ *http.Request, _ query) {
		begin(w)
		send(w, token)
		time.Sleep(2 * time.Millisecond)
		send(w, token)
		end(w)
	}), Options{})
	if !r.OK() || len(r.Chunks) != 2 || r.OutputTokens != 8 || r.TPOT() != (r.Last-r.First)/7 {
		t.Errorf("record %+v", r)
	}
}

// Fault 3: a buffered answer comes in one read. It must not look like fast
// tokens: all chunks share the instant, and Assess says so.
func TestFault03BufferedReads(t *testing.T) {
	r := one(t, answer(func(w http.ResponseWriter, _ *http.Request, _ query) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 8 {
			say(w, "data: "+token+"\n\n")
		}
		end(w)
	}), Options{})
	if !r.OK() || len(r.Chunks) != 8 || r.First != r.Last {
		t.Errorf("record %+v", r)
	}
	if q := Assess([]profile.Request{r}); q.Coalesced != 1 || !hasWarning(q.Warnings(), "coalesced") {
		t.Errorf("quality %+v", q)
	}
}

// Fault 9: the first chunk holds a role, or nothing.
func TestFault09RoleOnlyFirstChunk(t *testing.T) {
	var roles, content time.Time
	r := one(t, answer(func(w http.ResponseWriter, _ *http.Request, _ query) {
		begin(w)
		roles = time.Now()
		send(w, `{"choices":[{"delta":{"role":"assistant"}}]}`)
		send(w, `{"choices":[{"delta":{"role":"assistant","content":""}}]}`)
		time.Sleep(30 * time.Millisecond)
		content = time.Now()
		for range 8 {
			send(w, `{"choices":[{"delta":{"content":"x"}}]}`)
		}
		end(w)
	}), Options{Endpoint: Chat})
	if !r.OK() || len(r.Chunks) != 8 || r.TTFT() < content.Sub(roles) {
		t.Errorf("TTFT %v, though content came %v after the role: %+v", r.TTFT(), content.Sub(roles), r)
	}
}

// Components' trap 2: the last chunk of llama-server has empty text.
func TestEmptyLastChunkIsNotAToken(t *testing.T) {
	f := answer(func(w http.ResponseWriter, _ *http.Request, _ query) {
		begin(w)
		for range 8 {
			send(w, token)
		}
		time.Sleep(50 * time.Millisecond)
		send(w, `{"choices":[{"text":"","finish_reason":"length"}]}`)
		say(w, "data: [DONE]\n\n")
	})
	if r := one(t, f, Options{}); !r.OK() || r.OutputTokens != 8 || r.End <= r.Last || r.UsageSeen || r.CachedTokens != -1 {
		t.Errorf("record %+v", r)
	}
}

// Fault 14: reasoning is output.
func TestFault14ReasoningContentIgnored(t *testing.T) {
	for _, field := range []string{"reasoning_content", "reasoning"} {
		r := one(t, answer(func(w http.ResponseWriter, _ *http.Request, _ query) {
			begin(w)
			for range 5 {
				send(w, `{"choices":[{"delta":{%q:"x"}}]}`, field)
			}
			for range 3 {
				send(w, `{"choices":[{"delta":{"content":"x"}}]}`)
			}
			end(w)
		}), Options{Endpoint: Chat})
		if !r.OK() || len(r.Chunks) != 8 {
			t.Errorf("%s: record %+v", field, r)
		}
	}
}

// Fault 5: tokens are counted by the server, and compared with what was asked.
func TestFault05TokenCounts(t *testing.T) {
	usage := func(prompt, output int) func(w http.ResponseWriter, r *http.Request, q query) {
		return func(w http.ResponseWriter, _ *http.Request, _ query) {
			begin(w)
			send(w, token)
			send(w, `{"choices":[{"text":"","finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}`, prompt, output)
			say(w, "data: [DONE]\n\n")
		}
	}
	for name, c := range map[string]struct {
		do   func(w http.ResponseWriter, r *http.Request, q query)
		want string
	}{
		"fewer":  {usage(32, 7), `8 output tokens asked, got 7 tokens (finish reason "stop")`},
		"more":   {usage(32, 9), "got 9 tokens"},
		"prompt": {usage(33, 8), "prompt of 32 tokens asked, the server counts 33"},
		"chunks": {func(w http.ResponseWriter, _ *http.Request, _ query) {
			begin(w)
			send(w, token)
			send(w, `{"choices":[{"text":"","finish_reason":"stop"}]}`)
		}, "got 1 events with text"},
	} {
		r := one(t, answer(c.do), Options{})
		if r.Failure != profile.FailShort || !strings.Contains(r.Error, c.want) || r.First == 0 {
			t.Errorf("%s: %s: %q, want %q", name, r.Failure, r.Error, c.want)
		}
	}
}

func TestMalformedStreamsAreFailures(t *testing.T) {
	for name, c := range map[string]struct {
		body, want string
	}{
		"bad JSON":           {"data: " + token + "\n\ndata: {\"choices\":[\n\n", "bad JSON"},
		"not JSON":           {"data: hello\n\n", "hello"},
		"no [DONE]":          {"data: " + token + "\n\n", "without [DONE]"},
		"error in stream":    {"data: " + token + "\n\nevent: error\ndata: {\"error\":{\"message\":\"CUDA out of memory\"}}\n\n", "CUDA out of memory"},
		"no events":          {"hello\n", "without [DONE]"},
		"cut inside a chunk": {"data: " + token + "\n\ndata: {\"choi", "bad JSON"},
		"too long":           {"data: " + strings.Repeat("x", maxEvent+1), "too long"},
	} {
		r := one(t, answer(func(w http.ResponseWriter, _ *http.Request, _ query) {
			begin(w)
			say(w, c.body)
		}), Options{})
		if r.Failure != profile.FailMalformed || !strings.Contains(r.Error, c.want) || r.End == 0 {
			t.Errorf("%s: %s: %q, want %q", name, r.Failure, r.Error, c.want)
		}
	}
}

func TestConnectionCutInMidStreamIsMalformed(t *testing.T) {
	r := one(t, answer(func(w http.ResponseWriter, _ *http.Request, _ query) {
		begin(w)
		send(w, token)
		panic(http.ErrAbortHandler)
	}), Options{})
	if r.Failure != profile.FailMalformed || len(r.Chunks) != 1 || r.OutputTokens != 1 {
		t.Errorf("record %+v", r)
	}
}

func TestAnswersThatAreNoStreamAreMalformed(t *testing.T) {
	for _, kind := range []string{"application/json", "text/html; charset=utf-8"} {
		r := one(t, answer(func(w http.ResponseWriter, _ *http.Request, _ query) {
			w.Header().Set("Content-Type", kind)
			say(w, `{"choices":[{"text":"all at once"}]}`)
		}), Options{})
		if r.Failure != profile.FailMalformed || !strings.Contains(r.Error, "not an event stream") || !strings.Contains(r.Error, "all at once") {
			t.Errorf("%s: %s: %q", kind, r.Failure, r.Error)
		}
	}
}

func TestStreamWithoutDoneButWithAFinishReasonIsGood(t *testing.T) {
	r := one(t, answer(func(w http.ResponseWriter, _ *http.Request, _ query) {
		begin(w)
		send(w, token)
		say(w, "data: "+tail)
	}), Options{})
	if !r.OK() || r.OutputTokens != 8 || r.End < r.Last {
		t.Errorf("record %+v", r)
	}
}

func TestStreamWithoutTextIsEmpty(t *testing.T) {
	r := one(t, answer(func(w http.ResponseWriter, _ *http.Request, _ query) { begin(w); end(w) }), Options{})
	if r.Failure != profile.FailEmpty || r.First != 0 || r.TTFT() != 0 {
		t.Errorf("record %+v", r)
	}
}

func TestHangingServersTimeOut(t *testing.T) {
	for name, do := range map[string]func(w http.ResponseWriter, r *http.Request, q query){
		"before the header": func(_ http.ResponseWriter, r *http.Request, _ query) { <-r.Context().Done() },
		"after the header":  func(w http.ResponseWriter, r *http.Request, _ query) { begin(w); <-r.Context().Done() },
		"in the stream":     func(w http.ResponseWriter, r *http.Request, _ query) { begin(w); send(w, token); <-r.Context().Done() },
		"in an error": func(w http.ResponseWriter, r *http.Request, _ query) {
			w.WriteHeader(500)
			flush(w)
			<-r.Context().Done()
		},
	} {
		r := one(t, answer(do), Options{}, func(w *profile.Workload) { w.Timeout = 150 * time.Millisecond })
		if r.Failure != profile.FailTimeout || r.Sent == 0 || r.End-r.Due < 140*time.Millisecond || !strings.Contains(r.Error, "150ms") {
			t.Errorf("%s: record %+v", name, r)
		}
	}
}

// A server that keeps the connection open after [DONE] delays nothing.
func TestHangingAfterDoneIsNoFailure(t *testing.T) {
	f := answer(func(w http.ResponseWriter, r *http.Request, _ query) {
		begin(w)
		send(w, token)
		end(w)
		flush(w)
		<-r.Context().Done()
	})
	w := closed(3, 1)
	for _, r := range measure(t, client(t, Options{BaseURL: f.start(t).URL}), w) {
		if ordered(t, r); !r.OK() {
			t.Errorf("record %+v", r)
		}
	}
}

func TestErrorStatusesAreFailuresWithTheirText(t *testing.T) {
	for _, status := range []int{400, 401, 404, 429, 500, 503, 204, 307} {
		r := one(t, answer(func(w http.ResponseWriter, _ *http.Request, _ query) {
			w.Header().Set("Location", "/elsewhere")
			if status == 204 {
				w.WriteHeader(204)
				return
			}
			fail(w, status, "the reason")
		}), Options{})
		if r.Failure != profile.FailStatus || r.Status != status || !strings.Contains(r.Error, fmt.Sprint(status)) ||
			status != 204 && !strings.Contains(r.Error, "the reason") {
			t.Errorf("%d: record %+v", status, r)
		}
	}
}

// Fault 11: failed requests are in the records, as failures.
func TestFault11FailedRequestsInStats(t *testing.T) {
	var n atomic.Int64
	f := &fake{}
	f.handle = func(w http.ResponseWriter, _ *http.Request, q query) bool {
		if bad := q.Stream && n.Add(1)%3 == 0; bad {
			fail(w, 500, "no")
			return true
		}
		return false
	}
	rs := measure(t, client(t, Options{BaseURL: f.start(t).URL}), closed(30, 3))
	failed := 0
	for _, r := range rs {
		if !r.OK() {
			failed++
		}
		if !r.OK() && (r.TTFT() != 0 || r.Failure != profile.FailStatus) {
			t.Errorf("failed record %+v has a TTFT", r)
		}
	}
	if failed != 10 || len(rs) != 30 {
		t.Errorf("%d of %d requests failed, want 10 of 30", failed, len(rs))
	}
}
